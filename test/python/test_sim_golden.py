"""The functional simulator against golden programs, in program order and in random legal orders."""

import json
from pathlib import Path

import numpy as np
import pytest

from vtac.dialects.target import Target
from vtac.sim import execute

GOLDEN = Path(__file__).parents[2] / ".." / "shared" / "golden"
PATHS = [p for room in ("streams", "rtl", "layers") for p in sorted((GOLDEN / room).glob("*.npz"))]
SEEDS = (None, 1, 2, 3, 4, 5)

pytestmark = pytest.mark.skipif(not PATHS, reason="../shared/golden is absent")


def target_of(path: Path, config: str) -> Target:
    """Streams were made with MUL; the others ran on the Chisel design."""
    if path.parent.name == "streams":
        return Target.from_vta_config(json.loads(config), alu_mul=True, alu_bypass=True)
    return Target.named("chisel-pynq")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_golden(path: Path) -> None:
    with np.load(path) as golden:
        target = target_of(path, str(golden["config"]))
        insns, dram_in, dram_out = (golden[key] for key in ("insns", "dram_in", "dram_out"))
    for seed in SEEDS:
        result = execute(target, insns, dram_in, order_seed=seed)
        np.testing.assert_array_equal(result, dram_out, err_msg=f"order {seed}")
