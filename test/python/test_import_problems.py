"""What is wrong with a model, or with what is asked of it: all of it is told, with a way out.

A node that is wrong by itself is carried whole, with the reason: the host judges it.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from small_models import context, floats, ops_of, small_model

from vtac.dialects.context import constant_value
from vtac.dialects.errors import CompileError
from vtac.dialects.graph import HostOp
from vtac.lowering.onnx_to_graph import import_model, importer, prepare
from vtac.passes.graph.reasons import host_reason

node = helper.make_node


def problems(source, **more) -> list[str]:
    with pytest.raises(CompileError) as caught:
        import_model(source, context(), **more)
    return [str(problem) for problem in caught.value.problems]


def test_shapes_that_contradict():
    model = small_model([node("Add", ["a", "b"], ["y"])], {"a": ["N", 2], "b": ["N", 2]}, ["y"])
    assert problems(model, shapes={"z": [1], "a": [3, 4]}) == [
        "shape of 'z': the model has no such input\n  Inputs: a, b.",
        "shape of 'a': [3, 4] does not fit the model's [N, 2]",
    ]
    assert problems(model, shapes={"a": [-1, 2]}) == ["shape of 'a': [-1, 2] is negative"]
    assert "does not fit" in problems(model, shapes={"a": [3]})[0]


def test_files_that_are_no_models(tmp_path: Path):
    missing = tmp_path / "missing.onnx"
    assert "cannot be read" in problems(missing)[0]
    assert "cannot be read" in problems(tmp_path)[0]
    model = small_model([node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"], {"w": floats((500,))})
    data = model.SerializeToString()
    for bad in (b"", b"not a model at all", data[: len(data) // 2]):
        (tmp_path / "bad.onnx").write_bytes(bad)
        assert str(tmp_path / "bad.onnx") in problems(tmp_path / "bad.onnx")[0]
        assert problems(bad)


@pytest.mark.parametrize("fraction", [i / 40 for i in range(40)])
def test_a_truncated_model_is_refused(fraction):
    model = small_model(
        [node("Conv", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])],
        {"x": [1, 2, 4]},
        ["y"],
        {"w": floats((3, 2, 3))},
    )
    data = model.SerializeToString()
    assert problems(data[: int(fraction * len(data))])


def test_every_problem_at_once():
    model = small_model(
        [
            node("Relu", ["nowhere"], ["a"], name="first"),
            node("Foo", ["x"], ["b"], domain="my.domain"),
            node("Bar", ["x"], ["c"]),
            node("Relu", ["x"], ["a"]),
            node("Add", ["p", "x"], ["q"], name="one"),
            node("Add", ["q", "x"], ["p"], name="two"),
            node("Relu", ["p"], ["behind"], name="behind"),
        ],
        {"x": [2]},
        ["y"],
    )
    found = "\n".join(problems(model))
    for words in (
        "node 'first' (Relu): its input 'nowhere' is defined nowhere\n  Make it an input",
        "node '-> b' (Foo): unknown operator domain 'my.domain'",
        "node '-> c' (Bar): opset 17 of domain 'ai.onnx' has no such operator\n  Perhaps",
        "node '-> a' (Relu): 'a' is defined a second time",
        "output 'y': it is defined nowhere",
        "depend on themselves: node 'one' (Add), node 'two' (Add)",
    ):
        assert words in found
    assert "node 'behind' (Relu)" not in found


def test_opsets_out_of_range():
    model = small_model([node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"], opset=999)
    assert "opset 999 is newer than" in problems(model)[0]
    model.opset_import[0].version = 6
    assert "opset 6 is older than 7" in problems(model)[0]
    del model.opset_import[:]
    assert "does not say which opset" in problems(model)[0]


def external_model(folder: Path) -> Path:
    model = small_model(
        [node("Conv", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["y"])],
        {"x": [1, 2, 4]},
        ["y"],
        {"w": floats((3, 2, 3)), "b": floats((3, 1))},
    )
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_external_data_is_read(tmp_path: Path):
    ctx = context()
    module = import_model(external_model(tmp_path), ctx)
    conv = ops_of(module)[0]
    value = constant_value(ctx, conv.operands[1].owner.properties["value"], conv.operands[1].type)
    np.testing.assert_array_equal(value, floats((3, 2, 3)))


def test_external_data_that_is_missing_or_short(tmp_path: Path):
    path = external_model(tmp_path)
    found = problems(path.read_bytes())
    assert len(found) == 2 and "has no folder" in found[0]
    weights = tmp_path / "weights.bin"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:40])
    found = problems(path)
    assert "initialiser 'w'" in found[0]
    assert "72 bytes needed at offset 0, 40 found" in found[0]
    assert "initialiser 'b'" in found[1] and "0 found" in found[1]
    weights.unlink()
    assert "cannot be read: No such file or directory (72 bytes needed" in problems(path)[0]
    assert f"Put the file into {tmp_path}" in problems(path)[0]


def test_every_problem_says_what_to_do() -> None:
    model = small_model(
        [
            node("Relu", ["x_"], ["y"], name="misspelt"),
            node("Mish", ["x"], ["a"], name="too new"),
            node("Add", ["p", "x"], ["q"], name="one"),
            node("Add", ["q", "x"], ["p"], name="two"),
            node("Foo", ["x"], ["b"], domain="my.domain"),
        ],
        {"x": [2]},
        ["y"],
    )
    with pytest.raises(CompileError) as caught:
        import_model(model, context())
    assert [(p.where, p.hint.split(":")[0]) for p in caught.value.problems] == [
        ("node 'too new' (Mish)", "Other opsets have it"),
        ("node '-> b' (Foo)", "Known ones"),
        ("node 'misspelt' (Relu)", "Did 'x' become 'x_'?"),
        ("graph", "Feed a value back as the state of a Loop or a Scan."),
    ]


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "", "a/../../b"])
def test_external_data_elsewhere_is_refused(tmp_path: Path, location):
    path = external_model(tmp_path)
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    path.write_bytes(model.SerializeToString())
    assert "must lie beside the model" in problems(path)[0]


def test_an_initialiser_of_the_wrong_size():
    model = small_model([node("Add", ["x", "w"], ["y"])], {"x": [2]}, ["y"], {"w": floats((2,))})
    model.graph.initializer[0].raw_data = b"1234"
    (found,) = problems(model)
    assert found.startswith("initialiser 'w': shape [2] needs 8 bytes, found 4\n")


LISTS = {
    "zero": np.array([0]),
    "two": np.array([2]),
    "more": np.array([0, 1]),
    "far": np.array([9]),
}


@pytest.mark.parametrize(
    ("made", "extents", "reason"),
    [
        (node("Slice", ["x", "more", "two"], ["y"]), [4, 4], "not as many starts as ends"),
        (node("Transpose", ["x"], ["y"], perm=[0, 7]), [4, 4], "[0, 7] is no permutation"),
        (node("Flatten", ["x"], ["y"], axis=9), [4, 4], "axis 9 is none of its input"),
        (node("ReduceSum", ["x", "far"], ["y"]), [1, 2, 3, 4], "axis 9 is none of its input"),
        (node("ReduceMean", ["x"], ["y"], axes=[0]), [], "axis 0 is none of its input"),
        (node("Pad", ["x", "more"], ["y"]), [], "its input is a scalar"),
        (node("Conv", ["x", "w"], ["y"], strides=[0, 1], auto_pad="SAME_UPPER"), [1, 2, 5, 5],
         "not all positive"),
        (node("MaxPool", ["x"], ["y"], strides=[0], kernel_shape=[2], ceil_mode=1), [1, 2, 5],
         "not all positive"),
    ],
    ids=lambda made: made.op_type if isinstance(made, onnx.NodeProto) else None,
)  # fmt: skip
def test_a_node_that_is_wrong_is_named(
    made: onnx.NodeProto, extents: list[int], reason: str, monkeypatch: pytest.MonkeyPatch
):
    weights = {**LISTS, "w": floats((2, 2, 3, 3))}
    model = small_model([made], {"x": extents}, ["y"], weights)
    (problem,) = problems(model)
    assert problem.startswith(f"node '-> y' ({made.op_type}): ")
    # Where neither onnx's inference nor our checks say anything, the host judges the whole node.
    for room, check in ((importer, "inferred_problems"), (prepare, "layer_problems")):
        monkeypatch.setattr(room, check, lambda model, types: [])
    module = import_model(model, context())
    (op,) = ops_of(module)
    found = host_reason(op)
    assert isinstance(op, HostOp) and found is not None and reason in found.text


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (["x", "s", "z", "x", "s", "z", "s", "z"], []),
        (["", "s", "z", "x", "s", "z", "s", "z"], ["y"]),
    ],
)
def test_a_quantised_operator_that_lacks_something_stays_whole(inputs, outputs):
    model = small_model(
        [node("QLinearAdd", inputs, outputs, domain="com.microsoft")],
        {"x": [4]},
        outputs or ["x"],
        {"s": np.array(1, np.float32), "z": np.array(0, np.uint8)},
    )
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    (op,) = ops_of(import_model(model, context()))
    assert isinstance(op, HostOp) and op.op_type.data == "QLinearAdd"


def test_a_refused_node_leaves_no_readers_behind():
    """A refusal comes before anything is made that would read the node's operands."""
    bad = helper.make_tensor("z", onnx.TensorProto.UINT8, [], [9])
    wide = np.full((1, 1 << 16), 255, np.uint8)
    model = small_model(
        [
            node("Split", ["x", "uneven"], ["a", "b"], axis=1),
            node("Relu", ["x"], ["y"]),
            node("MatMulInteger", ["q", "w", "z"], ["m"]),
        ],
        {"x": [1, 4], "q": [1, 1 << 16]},
        ["a", "y", "m"],
        {"uneven": np.array([4, 0]), "w": wide.reshape(-1, 1)},
    )
    model.graph.initializer.append(bad)
    model.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    model.graph.output[2].type.tensor_type.elem_type = onnx.TensorProto.INT32
    module = import_model(model, context())
    for argument in module.body.block.first_op.body.block.args:
        assert all(use.operation.parent is not None for use in argument.uses)
