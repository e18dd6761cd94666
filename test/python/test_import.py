"""The ONNX front: what each operator becomes, shapes, and everything a user can do wrong."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from small_models import (
    assert_imports,
    context,
    floats,
    kinds,
    ops_of,
    small_model,
    value_info,
)

from vtac.dialects.context import constant_value
from vtac.dialects.errors import CompileError
from vtac.dialects.graph import ConvOp, HostOp, MaxPoolOp, row_steps, shape_of
from vtac.lowering.onnx_to_graph import import_model

node = helper.make_node


def problems(source, **more) -> list[str]:
    with pytest.raises(CompileError) as caught:
        import_model(source, context(), **more)
    return [str(problem) for problem in caught.value.problems]


# Convolution and pooling.


@st.composite
def windows(draw):
    rank = draw(st.integers(1, 3))
    extents = draw(st.lists(st.integers(3, 8), min_size=rank, max_size=rank))
    kernel = [draw(st.integers(1, min(3, e))) for e in extents]
    strides = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    attributes = {"strides": strides}
    auto = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto.startswith("SAME"):  # onnxruntime refuses the negative pads that it would compute here
        strides = [min(stride, taps) for stride, taps in zip(strides, kernel, strict=True)]
        attributes["strides"] = strides
    if auto != "NOTSET":
        attributes["auto_pad"] = auto
    else:
        attributes["pads"] = [draw(st.integers(0, k - 1)) for k in kernel * 2]
    return extents, kernel, attributes


@given(windows(), st.sampled_from([1, 2]), st.booleans())
def test_conv_has_explicit_pads(window, group, biased):
    extents, kernel, attributes = window
    weights = {"w": floats((4, 4 // group, *kernel), 1), "b": floats((4,), 2)}
    names = ["x", "w", "b"][: 3 if biased else 2]
    model = small_model(
        [node("Conv", names, ["y"], group=group, **attributes)],
        {"x": [2, 4, *extents]},
        ["y"],
        {name: weights[name] for name in names[1:]},
    )
    module = assert_imports(model, {"x": floats((2, 4, *extents))}, "graph.conv")
    conv = ops_of(module)[0]
    assert isinstance(conv, ConvOp) and len(conv.pads.get_values()) == 2 * len(kernel)


@given(windows(), st.sampled_from(["MaxPool", "AveragePool"]), st.booleans(), st.booleans())
def test_pooling_rounds_up_by_pads(window, kind, ceil, count):
    extents, kernel, attributes = window
    if kind == "AveragePool":
        attributes = {**attributes, "count_include_pad": int(count)}
    model = small_model(
        [node(kind, ["x"], ["y"], kernel_shape=kernel, ceil_mode=int(ceil), **attributes)],
        {"x": [1, 2, *extents]},
        ["y"],
    )
    module = assert_imports(model, {"x": floats((1, 2, *extents))})
    if kind == "MaxPool":
        assert kinds(module) == ["graph.max_pool"]


def test_last_window_that_would_start_in_the_pad_is_dropped():
    model = small_model(
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[3], pads=[1, 1], ceil_mode=1)],
        {"x": [1, 1, 5]},
        ["y"],
    )
    module = assert_imports(model, {"x": floats((1, 1, 5))}, "graph.max_pool")
    pool = ops_of(module)[0]
    assert isinstance(pool, MaxPoolOp) and shape_of(pool.result) == (1, 1, 2)


def test_dilated_windows():
    model = small_model(
        [
            node("Conv", ["x", "w"], ["c"], dilations=[2, 3], pads=[1, 2, 3, 4]),
            node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2], dilations=[3, 1]),
        ],
        {"x": [1, 2, 9, 9]},
        ["y"],
        {"w": floats((3, 2, 3, 3))},
    )
    assert_imports(model, {"x": floats((1, 2, 9, 9))}, "graph.conv", "graph.max_pool")


def test_same_pads_of_an_unknown_extent_need_stride_one():
    def conv(stride):
        return small_model(
            [node("Conv", ["x", "w"], ["y"], strides=[stride], auto_pad="SAME_LOWER")],
            {"x": ["N", 1, "W"]},
            ["y"],
            {"w": floats((1, 1, 4))},
        )

    feeds = {"x": floats((2, 1, 7))}
    assert_imports(conv(1), feeds, "graph.conv")
    module = assert_imports(conv(2), feeds, "Conv")
    assert "unknown extent" in str(ops_of(module)[0].attributes["graph.host_reason"])


def test_forms_that_stay_whole():
    weights = {"w": floats((1, 1, 2)), "r": np.array([0, 0, -1], np.int64)}
    model = small_model(
        [
            node("MaxPool", ["x"], ["m", "indices"], kernel_shape=[2]),
            node("Cast", ["m"], ["h"], to=TensorProto.FLOAT16),
            node("Cast", ["x"], ["d"], to=TensorProto.INT32),
            node("Add", ["d", "d"], ["i"]),
            node("Dropout", ["x"], ["p", "mask"]),
            node("Clip", ["x", "x0"], ["c"]),
        ],
        {"x": [1, 1, 5], "x0": []},
        ["h", "indices", "i", "p", "mask", "c"],
        weights,
    )
    for index, kind in ((0, "FLOAT16"), (1, "INT64"), (2, "INT32"), (4, "BOOL")):
        model.graph.output[index].type.tensor_type.elem_type = TensorProto.DataType.Value(kind)
    feeds = {"x": floats((1, 1, 5)), "x0": np.array(0.5, np.float32)}
    assert_imports(model, feeds, "MaxPool", "Cast", "Cast", "Add", "Dropout", "Clip")


# Other operators, and their forms in older opsets.


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 15, 18])
def test_every_operator_in_every_opset(opset):
    c = np.array
    weights = {
        "w": floats((4, 3, 3, 3)),
        "scale": floats((4,), 1),
        "bias": floats((4,), 2),
        "mean": floats((4,), 3),
        "variance": np.abs(floats((4,), 4)),
        "shape": c([0, 4, -1], np.int64),
        "m": floats((9, 5), 5),
        "g": floats((20, 3), 6),
        "v": floats((1, 3), 7),
    }
    clip = (
        [node("Clip", ["n"], ["c"], min=-0.5, max=0.5)]
        if opset < 11
        else [node("Clip", ["n", "lo", "hi"], ["c"])]
    )
    if opset >= 11:
        weights |= {"lo": c(-0.5, np.float32), "hi": c(0.5, np.float32)}
    model = small_model(
        [
            node("Identity", ["x"], ["x1"]),
            node("Conv", ["x1", "w"], ["y"]),
            node("BatchNormalization", ["y", "scale", "bias", "mean", "variance"], ["n"]),
            *clip,
            node("Dropout", ["c"], ["p", "unread"]),
            node("Relu", ["p"], ["r"]),
            node("AveragePool", ["r"], ["a"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Reshape", ["a", "shape"], ["f"]),
            node("MatMul", ["f", "m"], ["mm"]),
            node("Flatten", ["mm"], ["ff"]),
            node("Gemm", ["ff", "g", "v"], ["y1"], alpha=0.5, beta=2.0),
            node("GlobalAveragePool", ["r"], ["y2"]),
        ],
        {"x": [2, 3, 8, 8]},
        ["y1", "y2"],
        weights,
        opset=opset,
    )
    graph = "conv batch_norm clip relu average_pool reshape matmul reshape gemm"
    expected = [f"graph.{kind}" for kind in [*graph.split(), "global_average_pool"]]
    assert_imports(model, {"x": floats((2, 3, 8, 8))}, *expected)


def test_constants_of_every_form_and_type():
    model = small_model(
        [
            node("Constant", [], ["a"], value_floats=[1.0, 2.0]),
            node("Constant", [], ["b"], value=numpy_helper.from_array(floats((70, 2)), "t")),
            node("Constant", [], ["s"], value_string=b"caf\xc3\xa9"),
            node("Add", ["x", "a"], ["y"]),
            node("Add", ["y", "b"], ["z"]),
            node("Identity", ["s"], ["t"]),
        ],
        {"x": [70, 2]},
        ["z", "t"],
    )
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.STRING
    module = import_model(model, context())
    assert kinds(module) == ["Constant", "graph.add", "graph.add"]


def test_shape_arithmetic_is_folded():
    model = small_model(
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["n"]),
            node("Unsqueeze", ["n", "axes"], ["u"]),
            node("Concat", ["u", "rest"], ["shape"], axis=0),
            node("Reshape", ["x", "shape"], ["y"]),
        ],
        {"x": ["N", 2, 3]},
        ["y"],
        {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])},
    )
    module = import_model(model, context(), shapes={"x": [4, 2, 3]})
    assert kinds(module) == ["graph.reshape"]
    assert shape_of(ops_of(module)[0].results[0]) == (4, 6)


def test_quantised_weights_are_constants_on_a_grid():
    model = small_model(
        [
            node("DequantizeLinear", ["q", "scale"], ["w"]),
            node("Conv", ["x", "w"], ["y"]),
        ],
        {"x": [1, 1, 4]},
        ["y"],
        {"q": np.ones((1, 1, 2), np.int8), "scale": np.array(0.5, np.float32)},
    )
    module = assert_imports(model, {"x": floats((1, 1, 4))}, "graph.conv")
    (conv,) = ops_of(module)
    assert row_steps(conv.operands[1], 1) == [0.5]


def test_weights_are_shared_and_exact():
    w = floats((3, 2, 5, 5))
    model = small_model(
        [node("Conv", ["x", "w1"], ["a"]), node("Conv", ["x", "w2"], ["b"])],
        {"x": [1, 2, 9, 9]},
        ["a", "b"],
        {"w1": w, "w2": w},
    )
    ctx = context()
    module = import_model(model, ctx)
    conv = ops_of(module)[1]
    assert isinstance(conv, ConvOp)
    value = constant_value(ctx, conv.w.owner.properties["value"], conv.w.type)
    np.testing.assert_array_equal(value, w)
    assert len(ctx.resources) == 1


# The graph around the nodes.


def test_inputs_and_outputs_of_every_kind():
    model = small_model(
        [node("Relu", ["x"], ["y"]), node("Identity", ["w"], ["k"])],
        {"x": ["N", 2], "w": [2], "unused": ["N", "M"]},
        ["y", "x", "w", "k"],
        {"w": floats((2,))},
    )
    module = import_model(model, context())
    main = next(iter(module.body.block.ops))
    assert [a.data for a in main.attributes["graph.inputs"].data] == ["x", "unused"]
    assert [a.data for a in main.attributes["graph.outputs"].data] == ["y", "x", "w", "k"]
    assert 'graph.symbols = ["N", "M"]' in str(module)
    assert_imports(model, {"x": floats((3, 2)), "unused": floats((3, 1))}, "graph.relu")


def test_nodes_out_of_order_and_without_names():
    model = small_model(
        [node("Relu", ["a"], ["y"]), node("Exp", ["x"], ["a"]), node("Exp", ["x"], ["b"])],
        {"x": [2]},
        ["y", "b"],
    )
    # onnx.checker wants nodes sorted; onnxruntime does not, and neither do we.
    model.graph.node[0].name = "last"
    sorted_model = onnx.ModelProto()
    sorted_model.CopyFrom(model)
    sorted_model.graph.ClearField("node")
    sorted_model.graph.node.extend([model.graph.node[i] for i in (1, 0, 2)])
    module = import_model(sorted_model, context())
    assert [op.location.desc.data for op in ops_of(module)] == ["Exp_0", "last", "Exp_1"]


def test_local_functions_are_inlined():
    double = helper.make_function(
        "local", "Double", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    model = small_model(
        [node("Double", ["x"], ["y"], domain="local")], {"x": [2]}, ["y"], functions=[double]
    )
    model.opset_import.append(helper.make_opsetid("local", 1))
    assert kinds(import_model(model, context())) == ["graph.add"]


def test_names_that_are_no_identifiers():
    model = small_model(
        [node("Relu", ["1/x:0"], ["_12"]), node("Exp", ["_12"], ['a "b"'])],
        {"1/x:0": [2]},
        ['a "b"'],
    )
    assert_imports(model, {"1/x:0": floats((2,))}, "graph.relu", "Exp")


# Shapes from the user.


def test_shapes_fix_symbols_everywhere():
    model = small_model([node("Add", ["a", "b"], ["y"])], {"a": ["N", 2], "b": ["N", "M"]}, ["y"])
    module = import_model(model, context(), shapes={"a": [3, 2]})
    main = next(iter(module.body.block.ops))
    assert str(main.function_type).startswith("(tensor<3x2xf32>, tensor<3x?xf32>)")


def test_shapes_that_contradict():
    model = small_model([node("Add", ["a", "b"], ["y"])], {"a": ["N", 2], "b": ["N", 2]}, ["y"])
    assert problems(model, shapes={"z": [1], "a": [3, 4]}) == [
        "shape of 'z': the model has no such input\n  Inputs: a, b.",
        "shape of 'a': [3, 4] does not fit the model's [N, 2]",
    ]
    assert problems(model, shapes={"a": [3, 2], "b": [4, 2]}) == [
        "shape of 'b': dimension 'N' is 4 here and 3 in 'a'"
    ]
    assert "is not positive" in problems(model, shapes={"a": [0, 2]})[0]
    assert "does not fit" in problems(model, shapes={"a": [3]})[0]


# What is wrong with a model.


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
            node("Foo", ["x"], ["d"], domain="com.microsoft"),
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
        "imports no opset for domain 'com.microsoft'",
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


# Whole models.


def test_shared_models_import(shared: Path):
    for path in sorted((shared / "models").glob("*/model.onnx")):
        module = import_model(path, context())
        module.verify()
        assert len(ops_of(module)) > 5, path


def test_resnet18_imports_whole(root: Path, tmp_path: Path):
    path = tmp_path / "resnet18.onnx"
    script = root / "test" / "benchmarks" / "resnet18.py"
    subprocess.run([sys.executable, script, path], check=True)
    module = import_model(path, context())
    assert not [op for op in ops_of(module) if isinstance(op, HostOp)]


def test_value_info_of_an_input_without_a_shape():
    model = small_model([node("Relu", ["x"], ["y"])], {}, ["y"])
    model.graph.input.append(value_info("x", None))
    module = import_model(model, context())
    assert kinds(module) == ["Relu"]
    module = import_model(model, context(), shapes={"x": [2, 3]})
    assert kinds(module) == ["graph.relu"]
