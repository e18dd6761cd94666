"""The tables of epilogues: what forms cost by the clock, and what networks gain."""

import random
from pathlib import Path

import onnx
import pytest
from by_path import ROOT, load
from onnx import helper
from small_models import floats, small_model

import vtac
from vtac.dialects.target import Target

bench = load("test/benchmarks/epilogue_tables.py")
PAGE = ROOT / "docs/epilogues.md"


@pytest.mark.parametrize("seed", range(4))
def test_costs_follow_the_rates_of_the_clock(seed: int) -> None:
    rng = random.Random(seed)
    target = Target.named("chisel-pynq")
    rates = {
        "gemm_cycles": rng.randint(1, 4),
        "alu_immediate_cycles": rng.randint(1, 4),
        "alu_register_cycles": rng.randint(1, 4),
        "compute_overhead": rng.randint(0, 9),
    }
    target = target.replace(timing=target.timing.replace(**rates))
    found = {
        what: bench.cycles_an_element(target, make) for what, make in bench.INSTRUCTIONS.items()
    }
    beside = rates["compute_overhead"]
    assert found["reset"] == found["product"] == (rates["gemm_cycles"], beside)
    for what in ("copy", "clip at one end", "shift by a constant"):
        assert found[what] == (rates["alu_immediate_cycles"], beside)
    for what in ("addition of a vector", "maximum of two elements"):
        assert found[what] == (rates["alu_register_cycles"], beside)
    assert found["load of an accumulator"][0] == 64 / target.timing.port_bytes


def test_the_table_of_forms_in_docs_is_what_the_command_writes() -> None:
    begin, end = bench.page_marks("forms")
    table = PAGE.read_text().split(begin)[1].split(end)[0]
    assert table == "\n" + "".join(f"{row}\n" for row in bench.forms())


def test_a_network_without_mechanisms_is_measured_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "v", "c"], ["y"]),
    ]
    weights = {"w": floats((24, 16, 3, 3)), "b": floats((24,), 1)}
    weights |= {"v": floats((16, 24, 1, 1), 2), "c": floats((16,), 3)}
    model = onnx.shape_inference.infer_shapes(
        small_model(nodes, {"x": [1, 16, 10, 10]}, ["y"], weights)
    )
    path = tmp_path / "small.onnx"
    onnx.save(model, path)
    samples = {"x": floats((6, 16, 10, 10), 4)}
    records = tmp_path / "deep" / "records.json"
    bench.Mechanisms(records).measure("small", path, samples, "chisel-pynq")
    kept = bench.Mechanisms(records)
    cycles = kept.found["small"]
    assert list(cycles) == list(bench.COLUMNS)
    assert cycles["cycles"] == vtac.compile(path, "chisel-pynq", samples).profile().cycles
    assert cycles["biases placed"] > cycles["cycles"] < cycles["all"]
    for column, change in bench.WITHOUT.items():
        other = vtac.compile(path, "chisel-pynq", samples, pipeline=change)
        assert cycles[column] == other.profile().cycles, column
    kept.measure("small", tmp_path / "absent.onnx", {}, "chisel-pynq")
    header, _, row = kept.rows(["small", "unknown"])
    assert header.count("|") == row.count("|")
    assert row.startswith(f"| small | {cycles['cycles']:,} | ")
    assert f"| {cycles['biases placed'] - cycles['cycles']:,} |" in row
