"""What the clock reports: causes of waiting, bytes, bounds, regions; tables, traces, pictures."""

import csv
import io
import json
import random
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from clock_programs import alu, gemm, load, random_program, store, sync
from rich.console import Console

from vtac.dialects.target import COMPUTE, CORE, LOAD, STORE, Memory, Target
from vtac.dialects.vta.encoding import Finish, encode
from vtac.sim import TimingPreset, TimingReport, estimate
from vtac.sim.timing import Cause
from vtac.sim.timing.pictures import roofline_picture, timeline_picture
from vtac.sim.timing.render import as_csv, as_dict, as_json, as_table
from vtac.sim.timing.trace import as_trace

CHISEL = Target.named("chisel-pynq")
LAYERS = ["load", "load", "compute", "compute", "compute", "store", "store"]
PROGRAM = [
    load(Memory.UOP, 4096, 1, 40),
    load(Memory.INP, 8192, 10, 10, 20, y_pad_0=1, push_next=True),
    gemm(10, 10, 1, reset=True),
    gemm(10, 10, 10, pop_prev=True),
    alu(100, push_next=True),
    store(32768, 10, 10, pop_prev=True, push_prev=True),
    Finish(pop_next=True),
]


def report_of(labels: list[str] | None = None) -> TimingReport:
    return estimate(CHISEL, encode(CHISEL, PROGRAM), labels=labels)


def test_where_the_cycles_of_each_module_went() -> None:
    # Seven instructions are dispatched from 35 on: S of LOAD UOP is 37, of LOAD INP 38. LOAD UOP
    # (20 beats) asks in 38, is served in 55, its last beat passes in 75, E = 78. INP has a row of
    # zeros, so it asks in 40; its 200 beats follow without a gap until 275, E = 279.
    report = report_of()
    assert report.cycles == 279 + 1 + 1006 + 1 + 106 + 1 + 330 + 1
    load_unit = report.total.modules[LOAD]
    assert load_unit == {
        Cause.TRANSFER: 200,
        Cause.PADDING: 10,
        Cause.DRAM: 279 - 38 - 210,
        Cause.FETCH: 37,
        Cause.START: 1,
        Cause.OVER: report.cycles - 279,
    }
    assert report.total.modules[COMPUTE] == {
        Cause.GEMM: 1006,
        Cause.RESET: 106,
        Cause.ALU: 106,
        Cause.MICRO_OPS: 41,
        # GEMM reset ends in 78 + 1 + 106; then one cycle would be enough.
        Cause.LOAD_TO_COMPUTE: 279 - 185,
        Cause.STORE_TO_COMPUTE: 330 + 1,
        Cause.FETCH: 36,
        Cause.START: 5,
    }
    assert report.total.modules[STORE] == {
        Cause.TRANSFER: 300,
        Cause.DRAM: 30,
        # Dispatched in 40.
        Cause.FETCH: 41,
        Cause.COMPUTE_TO_STORE: report.cycles - 1 - 330 - 1 - 41,
        Cause.START: 1,
        Cause.OVER: 1,
    }


def test_a_full_queue_is_not_taken_for_slow_fetch() -> None:
    preset = TimingPreset.named("chisel-pynq").replace(queue_depth=2)
    program = [gemm(10, 10, 1), sync("compute"), sync("compute"), sync("store", push_prev=True)]
    report = estimate(CHISEL, encode(CHISEL, [*program, Finish(pop_next=True)]), preset)
    # Fetch stands still from 33 to 139, dispatches the third sync in 139 and the store in 140.
    assert report.total.modules[STORE] == {
        Cause.FETCH: 33 + 2,
        Cause.FULL_QUEUE: 139 - 33,
        Cause.START: 1,
        Cause.SYNC: 1,
        Cause.OVER: report.cycles - 143,
    }


def test_bytes_micro_ops_and_bounds() -> None:
    total = report_of().total
    assert total.nbytes == {
        "instruction": 7 * 16,
        "uop": 160,
        "inp": 1600,
        "wgt": 0,
        "acc": 0,
        "out": 1600,
    }
    assert (total.gemm_micro_ops, total.reset_micro_ops, total.alu_micro_ops) == (1000, 100, 100)
    assert total.macs == 256_000
    assert total.bounds == {"compute": 1200, "reads": (112 + 160 + 1600) // 8, "writes": 200}
    assert (total.lower_bound, total.bound_by) == (1200, "compute")
    assert total.ratio == pytest.approx(total.cycles / 1200)
    assert total.gemm_utilisation == pytest.approx(1000 / total.cycles)


def test_labels_share_the_cycles_out() -> None:
    report = report_of(LAYERS)
    assert [region.label for region in report.regions] == ["load", "compute", "store"]
    assert [region.cycles for region in report.regions] == [78, 1725 - 78 - 332, 332]
    assert sum(region.cycles for region in report.regions) == report.cycles
    compute = report.regions[1]
    assert compute.modules[COMPUTE][Cause.LOAD_TO_COMPUTE] == 94
    assert compute.nbytes["instruction"] == 3 * 16
    assert report.regions[0].nbytes["inp"] == 1600
    with pytest.raises(ValueError, match="2 labels for 7"):
        report_of(["a", "b"])


@pytest.mark.parametrize("seed", range(5))
def test_labels_add_up_on_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    program = random_program(CHISEL, rng, 50)
    labels = [rng.choice("abc") for _ in program]
    report = estimate(CHISEL, encode(CHISEL, program), "chisel-de10", labels)
    assert sum(region.cycles for region in report.regions) == report.cycles
    for module in CORE.modules:
        summed: dict[Cause, int] = {}
        for region in report.regions:
            for cause, count in region.modules[module].items():
                summed[cause] = summed.get(cause, 0) + count
        whole = dict(report.total.modules[module])
        whole.pop(Cause.OVER, None)
        assert summed == whole


def test_as_text() -> None:
    report = report_of(LAYERS)
    data = json.loads(as_json(report))
    assert data == json.loads(json.dumps(as_dict(report)))
    assert data["cycles"] == report.cycles
    assert data["program"]["modules"]["compute"]["micro-op load"] == 41
    assert [region["label"] for region in data["regions"]] == ["load", "compute", "store"]
    rows = list(csv.DictReader(io.StringIO(as_csv(report))))
    assert [row["label"] for row in rows] == ["program", "load", "compute", "store"]
    assert int(rows[0]["cycles"]) == report.cycles
    assert int(rows[2]["compute: gemm"]) == 1006
    stream = io.StringIO()
    Console(file=stream, width=80).print(as_table(report))
    text = stream.getvalue()
    assert "cycle-exact against the RTL" in text
    assert "load to compute token" in text
    assert max(map(len, text.splitlines())) <= 80


def test_trace() -> None:
    report = report_of(LAYERS)
    events = json.loads(as_trace(report))["traceEvents"]
    names = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    assert list(names) == ["fetch", "load", "compute", "store"]
    slices = {e["args"]["index"]: e for e in events if e.get("cat") == "vta"}
    assert slices[3]["name"] == "GEMM"
    assert slices[3]["args"]["layer"] == "compute"
    assert slices[3]["tid"] == names["compute"]
    assert (slices[1]["ts"], slices[1]["ts"] + slices[1]["dur"]) == (38, 279)
    # An arrow starts in the slice of the instruction that pushes and ends in that of the one that
    # pops.
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    pairs = ((1, 3), (4, 5), (5, 6))
    for number, (producer, consumer) in enumerate(pairs):
        for event, index in ((starts[number], producer), (ends[number], consumer)):
            inside = slices[index]
            assert inside["ts"] <= event["ts"] < inside["ts"] + inside["dur"]
            assert event["tid"] == inside["tid"]
    assert all(e["ts"] + e.get("dur", 0) <= report.cycles + 1 for e in events)


def test_pictures() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib, the extra plots, is absent")
    report = report_of(LAYERS)
    assert timeline_picture(report).startswith(b"\x89PNG")
    assert roofline_picture(report).startswith(b"\x89PNG")
    for picture in (
        timeline_picture(report, "svg", window=(0, 500)),
        roofline_picture(report, "svg"),
        roofline_picture(estimate(CHISEL, encode(CHISEL, PROGRAM), "hls-pynq-ideal"), "svg"),
        roofline_picture(estimate(CHISEL, encode(CHISEL, [Finish()])), "svg"),
    ):
        assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_events_are_sorted_by_their_end() -> None:
    program = random_program(CHISEL, random.Random(3), 80)
    events = estimate(CHISEL, encode(CHISEL, program)).events
    assert events.dtype == np.int64
    logged = events[events[:, 3] > 0]
    assert (np.diff(logged[:, 3]) >= 0).all()
    assert (events[len(logged) :, 3] == 0).all()
    assert events[-1, 0] == len(program) - 1
