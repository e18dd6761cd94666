"""The executor: a plan of host parts and launches, on the simulator and on other devices."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tiny_package import LANES, tiny_package

from vtac.dialects.errors import CompileError
from vtac.dialects.target import Target
from vtac.runtime.casts import cast_fault
from vtac.runtime.device import SimulatorDevice
from vtac.runtime.executor import Module, load
from vtac.runtime.host import attach_blobs, detach_blobs, open_model
from vtac.runtime.sessions import open_session
from vtac.sim import execute

IMAGE = np.arange(LANES, dtype=np.float32)[None]


def test_a_module_runs_and_counts() -> None:
    module = Module(tiny_package())
    result = module.run({"image": IMAGE})["result"]
    assert (result == 0.5 - IMAGE.repeat(100, 0)).all()
    assert module.counters.gemm_micro_ops == 1
    assert module.counters.bytes_moved["wgt"] == LANES * LANES
    assert [launch.function for launch in module.last_run.launches] == ["vta_0"]


def test_runs_do_not_depend_on_each_other_or_on_the_order() -> None:
    module = Module(tiny_package())
    for seed in range(4):
        result = module.run({"image": IMAGE + seed}, order_seed=seed)["result"]
        assert (result[0] == 0.5 - (IMAGE + seed)).all()


def test_a_saved_module_runs_as_before(tmp_path: Path) -> None:
    module = Module(tiny_package())
    module.save(tmp_path / "m.vtapkg")
    again = load(tmp_path / "m.vtapkg")
    assert again.run({"image": IMAGE}).keys() == {"result"}
    assert again.explain == module.explain
    assert again.target == Target.named("pynq")
    assert again.output_names == ("result",)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "input 'image': is missing: tensor(float)[1, 16]"),
        ({"image": IMAGE, "extra": IMAGE}, "the model has no such input"),
        ({"image": IMAGE.astype(str)}, "is of <U32, the model takes tensor(float)"),
        ({"image": np.full((1, 16), 1e300)}, "has values from 1e+300 to 1e+300, the model takes"),
        ({"image": IMAGE[0, :15]}, "has shape [15], the model takes tensor(float)[1, 16]"),
        ({"image": np.concatenate([IMAGE, IMAGE], 1)}, "has shape [1, 32]"),
        ({"image": [[1.0, 2.0], [3.0]]}, "is a list of parts of several shapes"),
        ({"image": np.where(IMAGE[0, 0] == IMAGE, np.nan, IMAGE)}, "that are not finite numbers"),
        ({"image": np.full((1, 16), np.inf).tolist()}, "holds 16 values that are not finite"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(feeds: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(CompileError) as caught:
        Module(tiny_package()).run(feeds)
    assert message in str(caught.value)


def test_launches_are_dumped_as_programs_that_run_alone(tmp_path: Path) -> None:
    Module(tiny_package()).run({"image": IMAGE}, dump=tmp_path / "d")
    (file,) = (tmp_path / "d").iterdir()
    assert file.name == "000_vta_0.npz"
    with np.load(file) as dump:
        assert set(dump) == {"config", "insns", "dram_in", "dram_out"}
        after = execute(Target.named("pynq"), dump["insns"], dump["dram_in"])
        assert (after == dump["dram_out"]).all()
        assert not dump["dram_out"][:4096].any()


def test_a_module_uses_the_device_it_is_given() -> None:
    class Counting(SimulatorDevice):
        written = 0

        def write(self, address: int, data: np.ndarray) -> None:
            self.written += data.size
            super().write(address, data)

    device = Counting(Target.named("pynq"))
    module = Module(tiny_package(), device)
    constants = device.written
    assert constants == LANES * LANES + 4
    for _ in range(3):
        module.run({"image": IMAGE})
    assert device.written == constants + 3 * LANES


def test_device_memory_starts_above_the_first_page_and_is_aligned() -> None:
    device = SimulatorDevice(Target.named("pynq"))
    addresses = [device.allocate(100, 1 << power) for power in range(12)]
    assert addresses[0] == 4096
    assert all(address % (1 << power) == 0 for power, address in enumerate(addresses))
    assert all(a + 100 <= b for a, b in itertools.pairwise(addresses))
    with pytest.raises(CompileError, match="never allocated"):
        device.read(0, 16)


def test_a_device_takes_a_stream_for_each_core() -> None:
    session = Module(tiny_package())
    program = np.frombuffer(session.package.functions["vta_0"].files["program.0.bin"], np.uint64)
    device = SimulatorDevice(Target.named("pynq"))
    for count in (0, 2):
        with pytest.raises(CompileError, match=f"{count} streams of instructions for a machine"):
            device.run([program.reshape(-1, 2)] * count)


def test_a_program_that_breaks_a_rule_is_an_error() -> None:
    module = Module(tiny_package())
    function = module.package.functions["vta_0"]
    words = np.frombuffer(function.files["program.0.bin"], np.uint64).reshape(-1, 2).copy()
    words[4, 0] |= 1 << 4  # one more token popped: a deadlock
    files = {**function.files, "program.0.bin": words.tobytes()}
    broken = dataclasses.replace(
        module.package, functions={"vta_0": dataclasses.replace(function, files=files)}
    )
    with pytest.raises(CompileError, match="simulator"):
        Module(broken).run({"image": IMAGE})


def model_of(node: onnx.NodeProto, domain: str = "") -> onnx.ModelProto:
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "g", [tensor("x", TensorProto.FLOAT, [2])], [tensor("y", TensorProto.FLOAT, [2])]
    )
    opsets = [helper.make_opsetid("", 17)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_what_onnxruntime_lacks_runs_in_the_reference_evaluator() -> None:
    node = helper.make_node("AffineGrid", ["theta", "size"], ["y"])
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [tensor("theta", TensorProto.FLOAT, [1, 2, 3]), tensor("size", TensorProto.INT64, [4])],
        [tensor("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    part = open_model(model, "part")
    theta = np.array([[[1, 0, 0], [0, 1, 0]]], np.float32)
    (grid,) = part.run([theta, np.array([1, 1, 2, 2])])
    assert grid.shape == (1, 2, 2, 2)


def test_what_onnxruntime_cannot_optimise_it_runs_as_it_is() -> None:
    tensor = helper.make_tensor_value_info

    def branch(count: str, *shape: int) -> onnx.GraphProto:
        value = numpy_helper.from_array(np.full(shape, 2, np.int64))
        node = helper.make_node("Constant", [], [count], value=value)
        return helper.make_graph([node], count, [], [tensor(count, TensorProto.INT64, None)])

    # Without the If, Range sees a vector where it wants a scalar.
    scalar, vector = branch("scalar"), branch("vector", 1)
    nodes = [
        helper.make_node("If", ["chosen"], ["n"], then_branch=scalar, else_branch=vector),
        helper.make_node("Range", ["zero", "n", "one"], ["r"]),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    constants = {"chosen": np.array(False), "zero": np.int64(0), "one": np.int64(1)}
    graph = helper.make_graph(
        nodes,
        "g",
        [tensor("x", TensorProto.INT64, [2])],
        [tensor("y", TensorProto.INT64, [2])],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    session = open_session(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    (y,) = session.run(None, {"x": np.array([5, 7])})
    assert y.tolist() == [5, 8]


def test_what_nobody_runs_is_one_error() -> None:
    with pytest.raises(CompileError) as caught:
        open_model(model_of(helper.make_node("Foo", ["x"], ["y"], domain="my"), "my"), "part")
    assert len(caught.value.problems) == 1
    assert "onnxruntime cannot run it" in str(caught.value)
    with pytest.raises(CompileError, match="part"):
        open_model(model_of(helper.make_node("Relu", ["x"], ["y"])), "part").run([np.zeros(3)])


def test_large_constants_leave_the_model_and_come_back() -> None:
    model = model_of(helper.make_node("Add", ["x", "w"], ["y"]))
    weights = np.arange(1000, dtype=np.float32)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [1000], weights))
    blobs = detach_blobs(model)
    assert list(blobs.values()) == [weights.tobytes()]
    assert len(model.SerializeToString()) < 400
    (found,) = attach_blobs(model, blobs, "part").values()
    assert (found == weights).all()
    with pytest.raises(CompileError, match="data of another size"):
        attach_blobs(model, {digest: data[:-1] for digest, data in blobs.items()}, "part")
    with pytest.raises(CompileError, match="data that is not there"):
        attach_blobs(model, {}, "part")


def test_a_host_part_reads_no_files() -> None:
    tensor = helper.make_tensor("value", TensorProto.FLOAT, [2], [1, 2])
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="secret.bin")
    model = model_of(helper.make_node("Constant", [], ["y"], value=tensor))
    with pytest.raises(CompileError, match="files outside the package"):
        attach_blobs(model, {}, "part")


@pytest.mark.parametrize(
    "feeds",
    [
        {"image": IMAGE.astype(np.float64)},
        {"image": IMAGE.astype(np.int32)},
        {"image": IMAGE.tolist()},
        IMAGE,
        IMAGE.astype(np.float64),
        IMAGE.tolist(),
    ],
)
def test_other_numbers_and_the_only_input_without_a_name_are_taken(feeds: object) -> None:
    module = Module(tiny_package())
    is_integer = isinstance(feeds, dict) and getattr(feeds["image"], "dtype", None) == np.int32
    image = IMAGE.astype(np.int32).astype(np.float32) if is_integer else IMAGE
    expected = module.run({"image": image})
    assert (module.run(feeds)["result"] == expected["result"]).all()


@given(
    st.sampled_from("?bhilBHILefd"),
    st.sampled_from("?bhilBHILefd"),
    st.lists(st.floats(-1e6, 1e6), max_size=4),
)
def test_a_cast_that_is_taken_keeps_every_value(
    source: str, target: str, values: list[float]
) -> None:
    with np.errstate(all="ignore"):
        array = np.array(values).astype(source)
    if not np.isfinite(array.astype(np.float64)).all():
        return
    fault = cast_fault(array, np.dtype(target))
    floats, wanted = array.dtype.kind == "f", np.dtype(target).kind
    if source == target or wanted == "f":
        assert not fault or np.dtype(target) == np.float16
    elif wanted == "b" or floats:
        assert fault
    if not fault:
        cast = array.astype(target)
        assert np.isfinite(cast.astype(np.float64)).all()
        if wanted in "iu":
            assert (cast.astype(object) == array.astype(object)).all()


def test_a_module_says_what_it_takes_and_gives() -> None:
    text = repr(Module(tiny_package()))
    assert text.startswith("<Module (image: tensor(float)[1, 16]) -> (result: tensor(")
    assert "1 program on " in text and "pynq" in text
