"""``vta-report``: what its page shows, whole, in order, escaped, and of bounded size."""

import json
import sys
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import encoder
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from small_models import small_model

import vtac
from vtac.dialects.errors import CompileError
from vtac.tools.commands.accuracy import accuracy_values, read_layer_errors
from vtac.tools.report_page.contents import contents_of, figures, module_rows, page_data
from vtac.tools.report_page.excerpts import SCHEDULE, node_irs
from vtac.tools.report_page.lanes import lane_rows
from vtac.tools.report_page.timeline import spans_of
from vtac.tools.reports import page_parts
from vtac.tools.reports.layer_errors import LayerError

pytest.importorskip("jinja2", reason="jinja2 is not installed")
pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")

node = helper.make_node

SMALL = {"layers": 1, "length": 16, "width": 32, "heads": 2}
LIMIT = 5_000_000
HOSTILE = [
    "</script><script>alert(1)</script>",
    "a\"b'c & <b>",
    "Größe 漢字",
    "\\22 {{ 7 * 7 }} {",
]


@pytest.fixture(scope="module")
def module() -> vtac.Module:
    """A layer of an encoder: several launches, and host parts between them."""
    levels = ["imported", "quantised", "te", "vta"]
    return vtac.compile(encoder.build(**SMALL), "pynq", encoder.samples(2, 16, 32), keep_ir=levels)


@pytest.fixture(scope="module")
def written(module: vtac.Module) -> str:
    return vtac.report_html(module, title="an encoder")


class Page(HTMLParser):
    """The rows, scripts, addresses and data of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.tags = Counter[str]()
        self.addresses: list[str] = []
        self.inside = ""
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.tags[tag] += 1
        self.inside = known.get("class") or known.get("id") or ""
        self.addresses += [v for k, v in attrs if k in ("src", "href", "action") and v is not None]

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "node":
            self.names.append(data)
        elif self.inside == "data":
            self.data += data


def test_every_node_has_one_row(module: vtac.Module, written: str) -> None:
    shown = Page(written)
    assert shown.names == [placement.node for placement in module.explain]
    assert [each["name"] for each in json.loads(shown.data)["nodes"]] == shown.names


def test_cycles_add_up_to_those_of_the_profile(module: vtac.Module) -> None:
    found, profile = contents_of(module, "x"), module.profile()
    assert len(profile.launches) > 2
    assert sum(each.cycles for each in found.nodes) + found.rest.cycles == profile.cycles
    spent = dict.fromkeys(("load", "compute", "store"), 0)
    for _, _, cycles in module_rows(found):
        spent = {name: spent[name] + n for name, n in zip(spent, cycles, strict=True)}
    assert set(spent.values()) == {profile.cycles}


@pytest.fixture(scope="module")
def cluster() -> vtac.Module:
    """A small network in parts on two cores."""
    layers = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["r"])]
    layers.append(node("Conv", ["r", "v"], ["y"]))
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(0, 0.1, (64, 32, 3, 3)).astype(np.float32),
        "v": random.normal(0, 0.1, (32, 64, 3, 3)).astype(np.float32),
    }
    model = small_model(layers, {"x": (1, 32, 18, 18)}, ["y"], weights)
    samples = random.normal(0, 1, (2, 1, 32, 18, 18)).astype(np.float32)
    return vtac.compile(model, "cluster-2", {"x": samples}, keep_ir=["imported", "te", "vta"])


def test_a_cluster_has_rows_for_each_of_its_cores(cluster: vtac.Module) -> None:
    found, profile = contents_of(cluster, "x"), cluster.profile()
    assert found.cores == 2
    cores = [core for launch in profile.launches for core in launch.cores]
    spent = sum(each.cycles for each in found.nodes) + found.rest.cycles
    assert spent == sum(core.cycles for core in cores) > profile.cycles
    for cost in (each.cost for each in found.nodes if each.cost is not None):
        assert cost.products == 0 or (0 < cost.rate <= 2 * 16 * 16 and cost.intensity > 0)
    data = page_data(found)
    tracks = [track["name"] for track in data["tracks"]]
    assert tracks[:6] == [f"{core} {name}" for core in (0, 1) for name in data["modules"]]
    used = {tracks[number] for number in data["spans"]["module"]}
    assert {"0 compute", "1 compute"} <= used <= set(tracks)
    spans = spans_of(profile, found.numbers)
    assert (spans.start + spans.length).max() <= profile.cycles
    assert all(launch["scratchpads"].keys() == {"gb"} for launch in data["memory"])
    assert data["roofline"]["peak"] == 2 * 16 * 16
    assert dict(figures(found))["cycles"] == f"{profile.cycles:,}"
    page = Page(vtac.report_html(cluster))
    assert page.names == [each.node for each in cluster.explain]


def test_the_rows_of_one_core_are_its_modules(module: vtac.Module) -> None:
    data = page_data(contents_of(module, "x"))
    assert [track["name"] for track in data["tracks"]] == data["modules"]
    assert [track["computes"] for track in data["tracks"]] == [False, True, False]


def test_edges_are_those_of_the_network(module: vtac.Module) -> None:
    reads = {each.node: set(each.after) for each in module.explain}
    assert reads["layer0.attention.scores"] == {
        "layer0.attention.query.heads",
        "layer0.attention.key.heads",
    }
    data = page_data(contents_of(module, "x"))
    names = [each["name"] for each in data["nodes"]]
    assert {each["name"]: {names[i] for i in each["reads"]} for each in data["nodes"]} == reads
    results = {each.node: each.result for each in module.explain}
    assert results["layer0.attention.scores"] == "f32[1, 2, 16, 16]"


def test_what_runs_on_the_host_says_why(module: vtac.Module) -> None:
    nodes = {each["name"]: each for each in page_data(contents_of(module, "x"))["nodes"]}
    softmax = nodes["layer0.attention.softmax"]
    assert softmax["where"] == "host" and softmax["reason"] and softmax["wayOut"]


def test_nothing_is_fetched(written: str) -> None:
    shown = Page(written)
    assert all(address.startswith(("#", "data:")) for address in shown.addresses)
    assert "default-src 'none'" in written
    assert not {"img", "iframe", "object", "embed"} & set(shown.tags)


def test_the_page_is_the_same_every_time(module: vtac.Module, written: str, tmp_path: Path) -> None:
    module.save(tmp_path / "m.vtapkg")
    again = vtac.report_html(vtac.load(tmp_path / "m.vtapkg"), title="an encoder")
    assert vtac.report_html(module, title="an encoder") == written == again


def hostile_model() -> Any:
    names = ["x", *HOSTILE]
    nodes = [node("Sin", [a], [b], name=b) for a, b in pairwise(names)]
    return small_model(nodes, {"x": (1, 4)}, [HOSTILE[-1]])


def test_texts_of_models_are_escaped() -> None:
    module = vtac.compile(hostile_model(), keep_ir=["imported"])
    text = vtac.report_html(module, title="<i>& {{ title }}")
    shown, usual = Page(text), Page(vtac.report_html(vtac.compile(small_sine())))
    assert shown.names == HOSTILE
    assert shown.tags["script"] == usual.tags["script"] and not shown.tags["b"] + shown.tags["i"]
    data = json.loads(shown.data)
    assert [each["name"] for each in data["nodes"]] == HOSTILE
    assert all(each["levels"] for each in data["nodes"]), "names in the IR are escaped, too"


def small_sine() -> Any:
    return small_model([node("Sin", ["x"], ["y"])], {"x": (1, 4)}, ["y"])


@pytest.mark.filterwarnings("ignore:the model is a float model")
@pytest.mark.parametrize("lanes", [1, 40])
def test_a_network_of_400_layers_is_small_enough(lanes: int) -> None:
    """Chains beside one another, all in one sum at the end."""
    length = 400 // lanes
    nodes, ends = [], []
    for lane in range(lanes):
        last = "x"
        for place in range(length):
            name = f"network/stage{lane}/block{place}/an_operator_with_a_long_name"
            nodes.append(node("Sin", [last], [name], name=name))
            last = name
        ends.append(last)
    nodes.append(node("Sum", ends, ["y"], name="y"))
    module = vtac.compile(small_model(nodes, {"x": (1, 4)}, ["y"]), keep_ir=["imported", "graph"])
    text = vtac.report_html(module)
    assert len(Page(text).names) == 400 + (lanes > 1)  # the sum of one is nothing
    assert len(text.encode()) < LIMIT


def test_ir_of_any_size_fits() -> None:
    """Excerpts get shorter until all of them fit."""
    body = "\n".join(f'    %{i} = vta.gemm {"x" * 90} loc("n{i % 400}")' for i in range(100_000))
    ir = {"vta": f"builtin.module {{\n  vta.program @f {{\n{body}\n  }} loc(unknown)\n}}"}
    found = node_irs(ir, 12)
    assert len(found) == 400
    assert all(each.excerpts[0].total == 250 for each in found.values())
    assert sum(len(e.text) for each in found.values() for e in each.excerpts) < LIMIT / 2


def test_excerpts_follow_calls_to_kernels_and_schedules() -> None:
    ir = {
        "te": "\n".join(
            [
                "builtin.module {",
                "  func.func @f(%x: i8 loc(unknown)) {",
                '    %0 = te.call @k0(%x) : (i8) -> i8 loc("a\\22b")',
                '    te.yield %0 loc("c")',
                "  } loc(unknown)",
                "  te.kernel @k0 {",
                "    te.yield loc(unknown)",
                "  } loc(unknown)",
                '  te.schedule @k0 attributes {estimate = 7 : i64, choice = ["x \\22y\\22"]} {',
                "  ^bb0(%y: !te.stage loc(unknown)):",
                "    te.dma %y loc(unknown)",
                "  } loc(unknown)",
                "} loc(unknown)",
            ]
        )
    }
    found = node_irs(ir, 100)
    assert set(found) == {'a"b', "c"}
    level, schedule = found['a"b'].excerpts
    assert level.text.startswith("%0 = te.call @k0") and "te.kernel @k0 {" in level.text
    assert "loc(" not in level.text + schedule.text
    assert (level.level, schedule.level, schedule.total) == ("te", SCHEDULE, 4)
    assert found['a"b'].choices == ('x "y"',) and found['a"b'].estimate == 7


@given(st.lists(st.sets(st.integers(0, 30), max_size=4), max_size=30))
def test_lanes_lead_from_each_node_to_its_readers(makers: list[set[int]]) -> None:
    nodes = [str(i) for i in range(len(makers))]
    after = {str(i): [str(m) for m in sorted(found)] for i, found in enumerate(makers)}
    held: dict[int, str] = {}
    for name, row in zip(nodes, lane_rows(nodes, after), strict=True):
        read = {held[lane] for lane in row.reads}
        assert read == {m for m in after[name] if int(m) < int(name)}
        held = {lane: held[lane] for lane in row.passes}
        if row.is_read:
            assert row.lane not in held
            held[row.lane] = name
    assert not held


def test_spans_merge_where_there_are_too_many(module: vtac.Module) -> None:
    profile = module.profile()
    numbers = {each.node: i for i, each in enumerate(module.explain)}
    exact = spans_of(profile, numbers)
    few = spans_of(profile, numbers, len(exact.start) // 3)
    assert 0 < len(few.start) <= len(exact.start) // 3
    for spans in (exact, few):
        ends = spans.start + spans.length
        same = spans.module[1:] == spans.module[:-1]
        assert (spans.start[1:][same] >= ends[:-1][same]).all()
        assert ends.max() <= profile.cycles
    assert few.least > 0 == exact.least
    assert few.length.min() >= few.least


def test_errors_of_layers_are_read_back(tmp_path: Path) -> None:
    errors = (LayerError("a", ("conv",), 31.5, float("inf")), LayerError("b", (), 1.0, 2.0, "why"))
    file = tmp_path / "errors.json"
    file.write_text(json.dumps(accuracy_values(None, errors)))
    assert read_layer_errors(str(file)) == errors
    for text in ("", "[]", "{}", '{"layer_errors": [{"node": "a"}]}'):
        file.write_text(text)
        with pytest.raises(CompileError, match="holds no errors of layers"):
            read_layer_errors(str(file))


def test_errors_of_layers_are_shown(module: vtac.Module) -> None:
    name = "layer0.up.product"
    found = contents_of(module, "x", None, [LayerError(name, (), 20.0, float("inf"))])
    (shown,) = (each["error"] for each in page_data(found)["nodes"] if each["name"] == name)
    assert shown == {"total": 20.0, "own": None}


def test_advice_names_what_is_at_stake(module: vtac.Module) -> None:
    found = contents_of(module, "x")
    nodes = {each.name: each for each in found.nodes}
    assert found.on_accelerator
    for advice in found.on_accelerator:
        assert 0 < advice.cycles <= nodes[advice.node].cycles
    stakes = [advice.cycles for advice in found.on_accelerator]
    assert stakes == sorted(stakes, reverse=True)


def test_advice_names_what_parts_launches(module: vtac.Module) -> None:
    found = contents_of(module, "x")
    hosted = {each.name: each for each in found.nodes if each.is_hosted}
    assert any("Softmax" in advice.text for advice in found.on_host)
    for advice in found.on_host:
        assert hosted[advice.node].placement.reason in advice.text


@pytest.mark.parametrize("package", ["jinja2", "vl_convert"])
def test_missing_packages_are_named(
    package: str, module: vtac.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_parts.page_templates.cache_clear()
    page_parts.plot_library.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CompileError, match=r"pip install 'vtac\[report\]'"):
        vtac.report_html(module)


def test_the_command_writes_a_page(
    module: vtac.Module,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from vtac.tools.commands.vta_report import main

    monkeypatch.chdir(tmp_path)
    module.save("net.vtapkg")
    main(["net.vtapkg", "--preset", "chisel-pynq", "--set", "latency=40"])
    assert f"{len(module.explain)} nodes" in capsys.readouterr().out
    main(["net.vtapkg", "-o", "other.html", "--quiet"])
    assert capsys.readouterr() == ("", "")
    main(["net.vtapkg", "-o", "other.html", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["page"] == "other.html" and found["cycles"] == module.profile().cycles
    assert found["bytes"] == (tmp_path / "other.html").stat().st_size
    assert all(each["text"] for each in found["advice"])
    assert "<h1>net</h1>" in (tmp_path / "net.html").read_text()
    with pytest.raises(SystemExit):
        main(["none.vtapkg"])
    assert "none.vtapkg" in capsys.readouterr().err


def test_old_packages_without_neighbours_are_shown(module: vtac.Module) -> None:
    import dataclasses

    older = [dataclasses.replace(each, after=(), result="") for each in module.explain]
    package = dataclasses.replace(module.package, placements=tuple(older), ir={})
    text = vtac.report_html(vtac.Module(package))
    assert "does not say which node reads which" in text
    assert np.isin([each.node for each in older], Page(text).names).all()
