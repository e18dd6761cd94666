"""Networks as C projects: their outputs are those of ``module.run``, on every kind of machine."""

import dataclasses
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from c_projects import COMPILERS, TOLERANCE, any_compiler, assert_equal, build, found_compiler
from host_operators import package_of
from hypothesis import HealthCheck, Phase, given, settings
from onnx import TensorProto, helper, numpy_helper
from random_networks import Network, networks
from tiny_package import tiny_package

import vtac
from vtac.dialects.target import Target
from vtac.runtime.c_project import c_project_of
from vtac.runtime.c_project.memory import ALIGNMENT, MemoryPlan
from vtac.runtime.executor import Module

TARGETS = {name: Target.named(name) for name in ("sim", "pynq", "chisel-pynq")}
FEW = settings(
    max_examples=1,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=[Phase.generate],
)
"""A network takes seconds to compile and to build: ``bench_export.py`` tries a hundred."""


def assert_plan_holds(plan: MemoryPlan) -> None:
    """No two values that live at the same time share a byte."""
    for number, one in enumerate(plan.places):
        assert one.offset % ALIGNMENT == 0 and one.first <= one.last
        for other in plan.places[:number]:
            together = one.first <= other.last and other.first <= one.last
            apart = (
                one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset
            )
            assert apart or not together, (one, other)
    assert plan.peak <= plan.bytes <= plan.sum + ALIGNMENT * len(plan.places)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_package_of_one_launch(compiler: str, tmp_path: Path) -> None:
    batches = [
        {"image": np.random.default_rng(seed).integers(-99, 99, (1, 16)).astype(np.float32)}
        for seed in range(3)
    ]
    module = Module(tiny_package())
    project = assert_equal(
        module, tmp_path, batches, compiler=found_compiler(compiler), sanitize=True
    )
    assert_plan_holds(project.memory)


@pytest.mark.parametrize("target", TARGETS)
@FEW
@given(network=networks(exact=True))
def test_exact_networks(
    target: str, network: Network, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Small integers: nothing is rounded, whatever runs where."""
    folder = tmp_path_factory.mktemp("exact")
    module = vtac.compile(network.model, TARGETS[target], network.samples)
    project = assert_equal(module, folder, [network.inputs], sanitize=True)
    assert_plan_holds(project.memory)


@pytest.mark.parametrize("target", TARGETS)
@FEW
@given(network=networks(exact=False))
def test_general_networks(
    target: str, network: Network, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Everything on the accelerator, so that floats are only quantised and dequantised."""
    folder = tmp_path_factory.mktemp("general")
    module = vtac.compile(
        network.model,
        TARGETS[target],
        network.samples,
        criteria=vtac.Criteria(compare=False),
    )
    assert_equal(module, folder, [network.inputs], sanitize=True)


def two_branches() -> onnx.ModelProto:
    """Two inputs and three outputs, a softmax between two convolutions."""
    rng = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.2, shape).astype(np.float32), name)
        for name, shape in (("v", (16, 16, 3, 3)), ("w", (24, 16, 1, 1)))
    ]
    nodes = [
        helper.make_node("Conv", ["left", "v"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Softmax", ["a"], ["soft"], name="soft", axis=1),
        helper.make_node("Add", ["soft", "right"], ["sum"], name="sum"),
        helper.make_node("Conv", ["sum", "w"], ["b"], name="second"),
        helper.make_node("Identity", ["right"], ["copy"], name="copy"),
    ]
    shape, wide = [2, 16, 6, 6], [2, 24, 6, 6]
    graph = helper.make_graph(
        nodes,
        "branches",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name in ("left", "right")
        ],
        [
            helper.make_tensor_value_info("soft", TensorProto.FLOAT, shape),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, wide),
            helper.make_tensor_value_info("copy", TensorProto.FLOAT, shape),
        ],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compiled_branches() -> tuple[Module, list[dict[str, np.ndarray]]]:
    rng = np.random.default_rng(5)
    samples = {n: rng.normal(0, 1, (8, 16, 6, 6)).astype(np.float32) for n in ("left", "right")}
    module = vtac.compile(two_branches(), "pynq", samples, criteria=vtac.Criteria(compare=False))
    return module, [{n: a[i : i + 2] for n, a in samples.items()} for i in (0, 2, 4)]


def test_several_inputs_outputs_and_launches(tmp_path: Path) -> None:
    module, batches = compiled_branches()
    assert len(module.package.functions) == 2
    project = assert_equal(module, tmp_path, batches, sanitize=True, tolerance=TOLERANCE)
    assert_plan_holds(project.memory)


def test_another_base_gives_the_same(tmp_path: Path) -> None:
    """Programs move to where the area of the network is."""
    project = c_project_of(tiny_package())
    project.write(tmp_path)
    image = np.arange(16, dtype=np.float32).tobytes()
    (tmp_path / "in").write_bytes(image)
    results = []
    for base in (project.device.base, project.device.base + 5 * project.device.alignment):
        flags = f"VTA_DRAM_BASE={base}u"
        command = ["make", "-s", "-B", "-C", str(tmp_path), f"CC={any_compiler()}", flags]
        subprocess.run(command, check=True)
        subprocess.run([tmp_path / "model", tmp_path / "in", tmp_path / "out"], check=True)
        results.append((tmp_path / "out").read_bytes())
    assert results[0] == results[1]
    expected = Module(tiny_package()).run(np.frombuffer(image, np.float32).reshape(1, 16))
    assert results[0] == expected["result"].tobytes()


def test_the_files_depend_on_the_package_alone() -> None:
    assert c_project_of(tiny_package()).files == c_project_of(tiny_package()).files


def test_all_that_has_no_c_is_told_at_once() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="fine"),
        helper.make_node("TopK", ["r", "k"], ["v", "i"], name="best"),
        helper.make_node("Det", ["x"], ["d"], name="volume"),
        helper.make_node("CumSum", ["r", "axis"], ["y"], name="sums"),
        helper.make_node("Reshape", ["x", "i"], ["z"], name="shape"),
        helper.make_node("Add", ["z", "y"], ["w"], name="after"),
    ]
    weights = [
        numpy_helper.from_array(np.array([2], np.int64), "k"),
        numpy_helper.from_array(np.array(0, np.int64), "axis"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    package = package_of(model, dict.fromkeys("xy", (TensorProto.FLOAT, (2, 2))))
    with pytest.raises(vtac.CompileError) as caught:
        c_project_of(package)
    said = {problem.where: problem for problem in caught.value.problems}
    assert set(said) == {
        "node 'best' (TopK)",
        "node 'volume' (Det)",
        "node 'sums' (CumSum)",
        "node 'shape' (Reshape)",
    }
    assert "not known before it runs" in said["node 'shape' (Reshape)"].what
    assert all(problem.hint for problem in said.values())


def test_values_that_c_cannot_hold_are_told() -> None:
    package = tiny_package()
    values = [dataclasses.replace(v, shape=(None, 16)) for v in package.values[:1]]
    values += [dataclasses.replace(v, type="tensor(string)") for v in package.values[-1:]]
    broken = dataclasses.replace(package, values=(*values, *package.values[1:-1]))
    with pytest.raises(vtac.CompileError) as caught:
        c_project_of(broken)
    assert [p.where for p in caught.value.problems] == ["value 'image'", "value 'result'"]
    assert "--shape" in caught.value.problems[0].hint


def test_other_codegens_are_told() -> None:
    package = tiny_package()
    function = dataclasses.replace(package.functions["vta_0"], codegen="json")
    other = dataclasses.replace(package, functions={"vta_0": function})
    with pytest.raises(vtac.CompileError, match="codegen 'json'"):
        c_project_of(other)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of a package with one input and one output."""
    folder = tmp_path_factory.mktemp("program")
    c_project_of(tiny_package()).write(folder)
    return build(folder, any_compiler())


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)


def test_the_program_describes_itself(program: Path) -> None:
    for option in ("--help", "-h"):
        said = run(program, option)
        assert said.returncode == 0 and not said.stderr
        assert "image " in said.stdout and "float32[1,16], 64 bytes" in said.stdout
        assert "result " in said.stdout and "float32[100,16], 6400 bytes" in said.stdout


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (bytes(63), "is no multiple"),
        (bytes(64 + 1), "is no multiple"),
        (np.array([np.nan] * 16, np.float32).tobytes(), "not finite"),
        (np.array([np.inf] * 16, np.float32).tobytes(), "not finite"),
    ],
)
def test_bad_inputs_leave_outputs_alone(
    content: bytes, what: str, program: Path, tmp_path: Path
) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(content)
    target.write_bytes(b"old")
    said = run(program, source, target)
    assert said.returncode == 1 and what in said.stderr and str(source) in said.stderr
    assert target.read_bytes() == b"old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in", "out"]


def test_files_that_are_missing_or_too_many(program: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(bytes(64))
    said = run(program, tmp_path / "absent", tmp_path / "out")
    assert said.returncode == 1 and "cannot read it" in said.stderr
    said = run(program, tmp_path / "in", tmp_path / "absent" / "out")
    assert said.returncode == 1 and "cannot write it" in said.stderr
    said = run(program, tmp_path / "in")
    assert said.returncode == 1 and "result: has no file" in said.stderr
    said = run(program, tmp_path / "in", tmp_path / "out", "more")
    assert said.returncode == 1 and "too many" in said.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["in"]


def test_files_by_name_in_any_order(program: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(np.arange(16, dtype=np.float32).tobytes())
    named = [f"result={tmp_path / 'one'}", f"image={tmp_path / 'in'}"]
    assert run(program, *named).returncode == 0
    assert run(program, tmp_path / "in", tmp_path / "two").returncode == 0
    assert run(program, named[1], tmp_path / "three").returncode == 0
    one, two, three = ((tmp_path / name).read_bytes() for name in ("one", "two", "three"))
    assert one == two == three and len(one) == 6400
