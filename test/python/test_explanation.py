"""What ``--explain`` shows: one row for each node, by cost, with a reason and a way out."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from digits_model import MODEL, save_images
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from rich.console import Console
from small_models import floats, small_model

import vtac
from vtac.runtime.package import Placement
from vtac.tools.commands import vta_compile
from vtac.tools.commands.explanation import by_cost, hosted_table, node_cycles
from vtac.tools.driver.placements import FUSED, HOST, whole_of

SHAPE = [1, 8, 6, 6]
BETWEEN: dict[str, dict[str, object]] = {
    "Softmax": {"axis": 1},
    "Erf": {},
    "Sigmoid": {},
    "Cast": {"to": 1},
    "LogSoftmax": {"axis": -1},
    "ConvTranspose": {},
    "Relu": {},
    "Transpose": {"perm": [0, 2, 1, 3]},
    "Sqrt": {},
    "Mish": {},
    "TopK": {},
    "Resize": {"mode": "cubic"},
    "LayerNormalization": {"axis": -1},
    "InstanceNormalization": {},
    "Pow": {},
}
MORE = {
    "ConvTranspose": ["t"],
    "TopK": ["k"],
    "Resize": ["", "s"],
    "LayerNormalization": ["g6"],
    "InstanceNormalization": ["g8", "g8"],
    "Pow": ["two"],
}


def network(op: str) -> onnx.ModelProto:
    """A convolution, an operator, a convolution."""
    node = helper.make_node(
        op,
        ["a", *MORE.get(op, [])],
        ["b", "more"] if op == "TopK" else ["b"],
        "between",
        **BETWEEN[op],
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1] * 4),
        node,
        helper.make_node("Conv", ["b", "v"], ["y"], "last", pads=[1] * 4),
    ]
    values = {
        "w": floats((8, 8, 3, 3), 1),
        "v": floats((8, 6 if op == "Transpose" else 8, 3, 3), 2),
        "t": floats((8, 8, 2, 2), 3),
        "k": np.array([6]),
        "s": np.array([1, 1, 1.5, 1.5], np.float32),
        "g6": np.abs(floats((6,), 4)),
        "g8": np.abs(floats((8,), 5)),
        "two": np.array(2.0, np.float32),
    }
    used = {name for each in nodes for name in each.input}
    known = {name: value for name, value in values.items() if name in used}
    return small_model(nodes, {"x": SHAPE}, ["y"], known, opset=18)


def text(table: object) -> str:
    console = Console(width=400)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


@pytest.mark.parametrize("op", BETWEEN)
@pytest.mark.parametrize("target", ["pynq", "sim"])
def test_each_node_on_the_host_has_one_row_with_a_way_out(op: str, target: str) -> None:
    samples = np.stack([floats(tuple(SHAPE[1:]), seed) for seed in range(4)])
    module = vtac.compile(network(op), target, samples)
    report = module.report
    said = text(hosted_table(report))
    on_host = {place.node for place in report.placements if place.where == HOST}
    for place in report.placements:
        named = said.count(f"{place.node} (")
        assert named == (place.node in on_host), said
    rows = [line.split("│") for line in said.splitlines() if line.startswith("│")]
    assert all(row[3].strip() for row in rows if row[1].strip())
    if op == "ConvTranspose":
        assert not on_host and "transpose" not in said
    cycles = node_cycles(report.partition.hosted, report.choices)
    assert all(cycles[node] > 0 for node in on_host)
    assert all(cycles[place.node] > 0 for place in report.placements if place.op == "graph.conv")


@given(
    costs=st.lists(st.sampled_from([0.0, 1.0, 5.0, 7.5]), min_size=1, max_size=12),
    data=st.data(),
)
def test_nodes_by_cost(costs: list[float], data: st.DataObject) -> None:
    """Whole nodes by falling cost, equal ones in the network's order; parts behind their whole."""
    places: list[Placement] = []
    for number in range(len(costs)):
        wholes = [place.node for place in places if not place.reason]
        whole = data.draw(st.sampled_from(["", *wholes]))
        places.append(Placement(f"n{number}", "op", "vta_0", FUSED.format(whole) if whole else ""))
    cycles = {place.node: cost for place, cost in zip(places, costs, strict=True) if cost}
    assert by_cost(places, cycles, "network") == places
    found = by_cost(places, cycles)
    assert sorted(found, key=places.index) == places
    wholes = [place for place in found if not place.reason]
    ranks = [(-cycles.get(place.node, 0.0), places.index(place)) for place in wholes]
    assert ranks == sorted(ranks)
    owner = ""
    for place in found:
        owner = owner if place.reason else place.node
        assert whole_of(place) == owner


def test_the_order_is_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = str(save_images(tmp_path / "samples.npz", 4))
    names = [node.name for node in onnx.load(MODEL).graph.node]
    shown = {}
    for order in ("cost", "network"):
        args = [str(MODEL), "--calibrate", samples, "--explain", "--explain-order", order]
        vta_compile.main(args)
        table = capsys.readouterr().out.split("regions")[0]
        lines = [line.split("│")[1].strip() for line in table.splitlines() if "│" in line]
        shown[order] = [line for line in lines if line]
        assert "cycles" in table
    assert shown["network"] == names
    assert shown["cost"] != names and sorted(shown["cost"]) == sorted(names)
