"""The clock against the RTL: every recorded cycle of the golden programs."""

import json
from pathlib import Path

import numpy as np
import pytest

from vtac.dialects.target import Target
from vtac.sim import SimulationError, estimate

GOLDEN = Path(__file__).parents[2] / ".." / "shared" / "golden"
PRESETS = {16: "chisel-de10", 256: "chisel-pynq"}
PATHS = [
    *(p for room in ("rtl", "layers") for p in sorted((GOLDEN / room).glob("*.npz"))),
    *sorted((GOLDEN / "streams").glob("1x16*.npz")),
    *sorted(GOLDEN.glob("speed_*.npz")),
]

pytestmark = pytest.mark.skipif(not PATHS, reason="../shared/golden is absent")


@pytest.mark.parametrize("burst", PRESETS)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_cycle(path: Path, burst: int) -> None:
    with np.load(path) as golden:
        if f"events_burst{burst}" not in golden.files:
            pytest.skip("no cycles were recorded: the program multiplies")
        insns, cycles = golden["insns"], int(golden[f"cycles_burst{burst}"])
        events, config = golden[f"events_burst{burst}"], str(golden["config"])
    target = Target.named(PRESETS[burst])
    report = estimate(target, insns)
    assert report.cycles == cycles
    np.testing.assert_array_equal(report.events, events)
    assert report.cycles >= report.total.lower_bound
    # The machine that runs it is named by the preset alone.
    same = estimate(Target.from_vta_config(json.loads(config)), insns, PRESETS[burst])
    np.testing.assert_array_equal(same.events, events)


@pytest.mark.parametrize("burst", PRESETS)
@pytest.mark.parametrize(
    "name", ["early_done_inp_2048", "gemm_zero_iterations", "queue_full_just_no_deadlock"]
)
def test_surprising_programs_that_end(name: str, burst: int) -> None:
    with np.load(GOLDEN / "hazards" / f"{name}.npz") as golden:
        insns, cycles = golden["insns"], int(golden[f"cycles_burst{burst}"])
    report = estimate(Target.named(PRESETS[burst]), insns)
    assert report.cycles == cycles
    expected = {
        "early_done_inp_2048": ["loses its data"] if burst == 256 else [],
        "gemm_zero_iterations": ["runs 16384 times"],
        "queue_full_just_no_deadlock": [],
    }[name]
    assert [text for text in expected if text not in " ".join(report.warnings)] == []
    assert bool(report.warnings) == bool(expected)


@pytest.mark.parametrize("burst", PRESETS)
@pytest.mark.parametrize(
    ("name", "message"), [("queue_full_deadlock", "deadlock"), ("alu_mul", "does not multiply")]
)
def test_programs_that_never_end(name: str, message: str, burst: int) -> None:
    with np.load(GOLDEN / "hazards" / f"{name}.npz") as golden:
        insns = golden["insns"]
    with pytest.raises(SimulationError, match=message):
        estimate(Target.named(PRESETS[burst]), insns)
