"""Codegens beside vta: json with its NumPy runtime, c with the system's compiler, one's own."""

import dataclasses
import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from float_networks import FloatNetwork, random_network
from installed_codegens import declare
from rich.console import Console
from small_models import one_thread
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

import vtac
from float_codegens.c_codegen import CCodegen
from float_codegens.c_engine import compiler
from float_codegens.json_codegen import JsonCodegen
from vtac.dialects.context import VtacContext
from vtac.dialects.graph import GemmOp, HostOp
from vtac.dialects.payload import Payload
from vtac.dialects.target import Target
from vtac.passes.graph.codegen import CODEGEN
from vtac.passes.graph.patterns import Predicate
from vtac.passes.graph.reasons import ReasonKind
from vtac.runtime.engines import engine_named
from vtac.runtime.package import Function, Package, package_from_bytes, package_to_bytes
from vtac.tools.commands import vta_compile, vta_run
from vtac.tools.driver.discovery import chosen_codegens, our_codegens
from vtac.tools.reports.partition_report import regions_table

needs_c = pytest.mark.skipif(compiler() is None, reason="needs a C compiler (cc, gcc, clang, $CC)")


@pytest.fixture(autouse=True, scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make examples/codegens an installed package, as far as entry points go."""
    site = tmp_path_factory.mktemp("site")
    file = declare(site)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        our_codegens.cache_clear()
        yield file
    our_codegens.cache_clear()


def test_codegens_of_other_packages_are_found_by_name() -> None:
    names = [codegen.name for codegen in our_codegens()]
    assert names == ["vta", "c", "json"]
    assert [codegen.name for codegen in chosen_codegens()] == ["vta"]


def test_what_cannot_be_imported_is_said(installed: Path) -> None:
    text = installed.read_text()
    installed.write_text(
        "[vtac.codegens]\nodd = float_codegens.absent:Odd\n"
        "[vtac.engines]\nodd = float_codegens.json_engine:Odd\n"
    )
    our_codegens.cache_clear()
    importlib.invalidate_caches()
    try:
        with pytest.raises(vtac.CompileError, match=r"'odd'.*cannot be imported"):
            our_codegens()
        with pytest.raises(vtac.CompileError, match=r"'odd'.*cannot be imported"):
            engine_named("odd", "here")
    finally:
        installed.write_text(text)
        our_codegens.cache_clear()
        importlib.invalidate_caches()


def reference(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), one_thread(), providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, {"x": x}))


def assert_agrees(module: vtac.Module, model: onnx.ModelProto, x: np.ndarray) -> None:
    for ours, theirs in zip(module.run({"x": x}).values(), reference(model, x), strict=True):
        assert ours.dtype == np.float32 and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


def outputs_of(net: FloatNetwork) -> list[str]:
    """The last value, and one from between, which must leave its region."""
    return [net.nodes[-1].output[0], net.nodes[4].output[0]]


@pytest.mark.parametrize(
    ("codegen", "seed"),
    [
        *(("json", seed) for seed in range(8)),
        *(pytest.param("c", seed, marks=needs_c) for seed in range(3)),
    ],
)
def test_what_onnxruntime_gives(codegen: str, seed: int) -> None:
    net = random_network(seed)
    model = net.model(*outputs_of(net))
    module = vtac.compile(model, codegens=[codegen])
    assert {f.codegen for f in module.package.functions.values()} == {codegen}
    assert {p.op for p in module.explain if p.where == "host"} <= {"Sin"}
    assert module.target is None
    assert_agrees(module, model, net.input())
    written = package_to_bytes(module.package)
    again = package_from_bytes(written, allow_native=True)
    assert package_to_bytes(again) == written


class DenseOnC(CCodegen):
    """Dense layers only; the rest is for others."""

    def predicates(self, target: Target | None) -> dict[type[Operation], Predicate]:
        return {GemmOp: super().predicates(target)[GemmOp]}

    def patterns(self, target: Target | None) -> list[Any]:
        return []


@needs_c
def test_float_parts_on_c_and_integers_on_vta() -> None:
    net = FloatNetwork((1, 16, 4, 4), 1)
    model = net.model(net.gemm(net.host(net.flatten(net.relu(net.conv("x"))))))
    samples = net.numbers.uniform(-1, 1, (20, 16, 4, 4)).astype(np.float32)
    module = vtac.compile(model, "pynq", {"x": samples}, codegens=[DenseOnC(), "vta"])
    where = {placement.op: placement.where for placement in module.explain}
    assert (where["graph.conv"], where["graph.gemm"]) == ("vta_0", "c_0")
    assert module.target == Target.named("pynq")
    (ours,), (theirs,) = module.run({"x": samples[:1]}).values(), reference(model, samples[:1])
    assert np.abs(ours - theirs).max() < 0.1 * np.abs(theirs).max()
    assert module.counters.gemm_micro_ops > 0
    assert [launch.function for launch in module.last_run.launches] == ["vta_0", "c_0"]
    assert [launch.function for launch in module.profile().launches] == ["vta_0"]


@needs_c
def test_code_in_a_package_runs_only_for_those_who_trust_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = FloatNetwork((1, 4))
    model, x = net.model(net.relu(net.gemm("x"))), net.input()
    module = vtac.compile(model, codegens=["c"])
    module.save(tmp_path / "m.vtapkg")
    with pytest.raises(vtac.CompileError, match="which nothing can check"):
        vtac.load(tmp_path / "m.vtapkg")
    assert_agrees(vtac.load(tmp_path / "m.vtapkg", allow_native=True), model, x)
    np.savez(tmp_path / "x.npz", x=x[None])
    arguments = [str(tmp_path / "m.vtapkg"), "--input", str(tmp_path / "x.npz")]
    with pytest.raises(SystemExit):
        vta_run.main(arguments)
    assert "--allow-native" in capsys.readouterr().err
    vta_run.main([*arguments, "--allow-native"])
    assert "c_0" in capsys.readouterr().out


def test_without_a_compiler_c_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    net = FloatNetwork((3, 4))
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(vtac.CompileError, match="there is no C compiler here"):
        vtac.compile(net.model(net.relu("x")), codegens=["c"])


def changed(package: Package, change: Callable[[Any], None]) -> Package:
    """A package whose only function has another graph."""
    (function,) = package.functions.values()
    graph = json.loads(function.files["graph.json"])
    change(graph)
    files = {"graph.json": json.dumps(graph).encode()}
    new = Function(function.name, "json", function.metadata, files, function.blobs)
    return dataclasses.replace(package, functions={function.name: new})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g["nodes"][0].update(op="exec"), "is no node"),
        (lambda g: g["nodes"][0].update(inputs=[0, 9, 1]), "is no node"),
        (lambda g: g["nodes"][0].update(inputs=[0]), "is no node"),
        (lambda g: g["nodes"][0]["attributes"].update(group=0), "impossible attributes"),
        (lambda g: g["nodes"][0]["attributes"].update(pads=[0, 0]), "impossible attributes"),
        (lambda g: g["nodes"][0]["attributes"].update(strides=[1, 0]), "impossible attributes"),
        (lambda g: g["nodes"][0]["attributes"].update(code="x"), "unknown fields: code"),
        (lambda g: g["nodes"][0].update(shape=[1, 2, 3]), "are not the launch's"),
        (lambda g: g.update(constants=0), "needs 0 constants"),
        (lambda g: g.update(outputs=[7]), "returns a value that it does not have"),
        (lambda g: g.pop("nodes"), "lacks the fields: nodes"),
    ],
)
def test_a_graph_that_is_none_is_refused(change: Callable[[Any], None], message: str) -> None:
    net = FloatNetwork((1, 2, 4, 4), 2)
    package = vtac.compile(net.model(net.conv("x")), codegens=["json"]).package
    with pytest.raises(vtac.CompileError, match=message):
        package_from_bytes(package_to_bytes(changed(package, change)))


@pytest.mark.parametrize("dtype", ["<c8", "f4,(", "(10000000000,)f4", "O", "<f8"])
def test_a_constant_is_of_a_type_that_arrays_have(dtype: str) -> None:
    net = FloatNetwork((1, 4))
    package = vtac.compile(net.model(net.gemm("x")), codegens=["json"]).package
    (function,) = package.functions.values()
    first, *rest = function.metadata["constants"]
    metadata = {**function.metadata, "constants": [{**first, "dtype": dtype}, *rest]}
    functions = {function.name: dataclasses.replace(function, metadata=metadata)}
    damaged = dataclasses.replace(package, functions=functions)
    with pytest.raises(vtac.CompileError, match=r"constant \w+ is no "):
        package_from_bytes(package_to_bytes(damaged))


def test_a_function_of_json_passes_on_floats() -> None:
    net = FloatNetwork((1, 4))
    package = vtac.compile(net.model(net.relu("x")), codegens=["json"]).package
    values = tuple(dataclasses.replace(v, type="tensor(int64)") for v in package.values)
    with pytest.raises(vtac.CompileError, match="are not the launch's"):
        package_from_bytes(package_to_bytes(dataclasses.replace(package, values=values)))


@dataclasses.dataclass(frozen=True)
class Record(ModulePass):
    """Notes the functions that it sees, and may give them another name."""

    name = "record"
    seen: list[str] = dataclasses.field(default_factory=list)
    rename: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.walk():
            if isinstance(function, FuncOp):
                self.seen.append(function.sym_name.data)
                if self.rename:
                    function.properties["sym_name"] = type(function.sym_name)("other")


class WithPasses(JsonCodegen):
    """Registers a pass of its own."""

    def __init__(self, record: Record):
        self.record = record

    def passes(self) -> list[ModulePass]:
        return [self.record]


def test_registered_passes_run_on_the_functions_alone() -> None:
    net = FloatNetwork((2, 4))
    model = net.model(net.relu(net.host(net.relu("x"))))
    record = Record()
    module = vtac.compile(model, codegens=[WithPasses(record)])
    assert record.seen == ["json_0", "json_1"]
    assert_agrees(module, model, net.input())
    with pytest.raises(vtac.CompileError, match="changed its name or its type"):
        vtac.compile(model, codegens=[WithPasses(Record(rename=True))])


def test_the_choice_of_codegens_is_checked() -> None:
    net = FloatNetwork((2, 4))
    model = net.model(net.relu("x"))
    with pytest.raises(
        vtac.CompileError, match=r"(?s)no codegen 'np'.*no codegen 'k'.*c, json, vta"
    ):
        vtac.compile(model, codegens=["np", "json", "k"])
    with pytest.raises(vtac.CompileError, match="named twice: json, json"):
        vtac.compile(model, codegens=["json", JsonCodegen()])


class NoPayload(JsonCodegen):
    """Builds what its engine cannot store."""

    def build(self, function: Operation, ctx: VtacContext) -> Payload:
        assert function.attributes[CODEGEN].data == "json"  # type: ignore[attr-defined]
        return "payload"  # type: ignore[return-value]


def test_what_is_built_must_be_storable() -> None:
    net = FloatNetwork((2, 4))
    with pytest.raises(TypeError, match="must build a Payload"):
        vtac.compile(net.model(net.relu("x")), codegens=[NoPayload()])


def test_the_report_has_regions_shares_and_reasons() -> None:
    net = FloatNetwork((2, 4))
    model = net.model(net.relu(net.gemm(net.host(net.relu("x")))))
    criteria = vtac.Criteria(max_ops=3)
    module = vtac.compile(model, codegens=["json"], criteria=criteria, keep_float=["Relu0"])
    report = module.report.partition
    (region,) = report.regions
    macs = 2 * 4 * net.shapes[net.nodes[2].output[0]][1]
    assert (region.codegen, region.cost.macs, region.cost.cycles) == ("json", macs, None)
    assert (report.nodes, report.macs) == ((4, 2), (macs, macs))
    assert [(op.node, op.reason.kind) for op in report.hosted] == [
        ("Relu0", ReasonKind.USER),
        ("Sin1", ReasonKind.OPERATOR),
    ]
    assert report.hosted[1].types == "f32[2, 4] -> f32[2, 4]"
    alone = vtac.Criteria(min_macs=macs + 1)
    report = vtac.compile(model, codegens=["json"], criteria=alone).report.partition
    assert not report.regions
    assert {op.reason.kind for op in report.hosted} == {ReasonKind.COST, ReasonKind.OPERATOR}


class TakesEverything(JsonCodegen):
    """Would take any operator that only the host knows."""

    def predicates(self, target: Target | None) -> Mapping[type[Operation], Predicate]:
        return {**super().predicates(target), HostOp: lambda _: None}


def test_what_the_user_keeps_is_offered_to_nobody() -> None:
    net = FloatNetwork((2, 4))
    model = net.model(net.relu(net.gemm(net.host("x"))))
    kept = [node.name for node in net.nodes[::2]]
    module = vtac.compile(model, codegens=[TakesEverything()], keep_float=kept)
    hosted = module.report.partition.hosted
    assert [(op.node, op.reason.kind) for op in hosted] == [
        (name, ReasonKind.USER) for name in kept
    ]
    assert [dict(region.ops) for region in module.report.partition.regions] == [{"gemm": 1}]
    assert_agrees(module, model, net.input())


def test_regions_that_would_make_a_cycle_are_two(capsys: pytest.CaptureFixture[str]) -> None:
    net = FloatNetwork((1, 4))
    first = net.relu("x")
    model = net.model(net.add("Add", [first, net.host(first)], (1, 4)))
    report = vtac.compile(model, codegens=["json"]).report.partition
    assert [region.is_apart for region in report.regions] == [True, True]
    Console().print(regions_table(report))
    assert "json_1 *" in (said := capsys.readouterr().out) and "would make a cycle" in said


def test_the_command_takes_choice_and_criteria(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = FloatNetwork((2, 4))
    onnx.save(net.model(net.relu(net.gemm("x"))), tmp_path / "m.onnx")
    arguments = [str(tmp_path / "m.onnx"), "--explain", "--codegen", "json"]
    vta_compile.main([*arguments, "--min-macs", "1000"])
    said = " ".join(capsys.readouterr().out.split())
    assert "0 of 2 nodes offloaded (0.0%)" in said and "not worth it" in said
    vta_compile.main([*arguments, "--host-model", "macs_a_cycle=8", "--max-ops", "3"])
    said = capsys.readouterr().out
    assert "2 of 2 nodes offloaded (100.0%)" in said and "json_0" in said
    for wrong in ("macs_a_cycle=0", "speed=3", "macs_a_cycle=x"):
        with pytest.raises(SystemExit):
            vta_compile.main([*arguments, "--host-model", wrong])
        assert "is not NAME=NUMBER" in capsys.readouterr().err
