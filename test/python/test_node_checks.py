"""Operands that do not fit together are found at import, and the node is named."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from small_models import context, floats, run, small_model

from vtac.dialects.errors import CompileError
from vtac.lowering.onnx_to_graph import import_model

node = helper.make_node
IMAGE = [1, 4, 5, 5]

WRONG = {
    "groups that do not divide channels": ("Conv", {"w": (4, 2, 3, 3)}, {"group": 3}, "4 channels"),
    "channels": ("Conv", {"w": (4, 2, 3, 3)}, {}, "its input has 4 channels"),
    "filters": ("Conv", {"w": (3, 2, 3, 3)}, {"group": 2}, "in each of 2 groups"),
    "bias": ("Conv", {"w": (4, 4, 3, 3), "b": (3,)}, {}, r"its bias is \[3\]"),
    "rank": ("Conv", {"w": (4, 4, 3)}, {}, "differ in rank"),
    "window": ("Conv", {"w": (4, 4, 7, 3)}, {}, "its window spans 7 along axis 2"),
    "dilated window": ("Conv", {"w": (4, 4, 3, 3)}, {"dilations": [1, 3]}, "spans 7 along axis 3"),
    "kernel": ("Conv", {"w": (4, 4, 3, 3)}, {"kernel_shape": [2, 2]}, "its kernel_shape is"),
    "transposed groups": ("ConvTranspose", {"w": (4, 2, 3, 3)}, {"group": 3}, "in 3 groups"),
    "transposed channels": ("ConvTranspose", {"w": (6, 2, 3, 3)}, {"group": 2}, "take 6"),
    "transposed bias": ("ConvTranspose", {"w": (4, 4, 3, 3), "b": (3,)}, {}, "its bias is"),
    "norm": ("BatchNormalization", dict.fromkeys("sbmv", (3,)), {}, r"its scale is \[3\]"),
    "slope": ("PRelu", {"w": (3, 1, 1)}, {}, "does not broadcast"),
    "automatic pads": ("Conv", {"w": (4, 4, 3, 3)}, {"auto_pad": "SAME"}, "auto_pad is 'SAME'"),
    "output padding": ("ConvTranspose", {"w": (4, 2, 3, 3)}, {"output_padding": [0, 1]}, "1 more"),
    "pads of a pooling": (
        "MaxPool",
        {},
        {"kernel_shape": [2, 2], "pads": [2, 0, 0, 0]},
        "not smaller than its window",
    ),
    "window of a pooling": ("LpPool", {}, {"kernel_shape": [8, 2]}, "spans 8 along axis 2"),
    "dilated pooling": (
        "MaxPool",
        {},
        {"kernel_shape": [2, 4], "dilations": [1, 3], "strides": [1, 2]},
        "its window spans 10 along axis 3, where its input has 5",
    ),
    "even neighbourhood": ("LRN", {}, {"size": 4}, "its size is 4, which must be odd"),
    "no neighbourhood": ("LRN", {}, {"size": 0}, "its size is 0"),
    "order": ("Transpose", {}, {"perm": [0, 2, 1]}, r"\[0, 2, 1\] is no permutation"),
    "instance norm": ("InstanceNormalization", dict.fromkeys("sb", (3,)), {}, "its scale is"),
    "layer norm": ("LayerNormalization", {"s": (5,)}, {"axis": 4}, "its axis is 4"),
    "layer norm's scale": ("LayerNormalization", {"s": (4,)}, {}, r"its scale is \[4\]"),
    "depth": ("DepthToSpace", {}, {"blocksize": 3}, r"no multiple of 3 \* 3"),
    "addend": ("Add", {"w": (4, 3)}, {}, r"operands \[1, 4, 5, 5\], \[4, 3\]"),
    "product": ("MatMul", {"w": (4, 3)}, {}, r"operands \[1, 4, 5, 5\], \[4, 3\]"),
}


def wrong_model(*kinds: str) -> onnx.ModelProto:
    """Each of these nodes on ``x`` [1, 4, 5, 5]."""
    nodes, weights = [], {}
    for number, kind in enumerate(kinds):
        operator, shapes, attributes, _ = WRONG[kind]
        names = {name: f"{name}{number}" for name in shapes}
        weights |= {names[name]: floats(shape, number) for name, shape in shapes.items()}
        operands = ["x", *names.values()]
        nodes.append(node(operator, operands, [f"y{number}"], f"node{number}", **attributes))
    return small_model(nodes, {"x": IMAGE}, [f"y{n}" for n in range(len(kinds))], weights)


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("calibrated", [False, True])
def test_the_node_is_named(kind, calibrated):
    """Also where operators would be written as others for the quantiser."""
    model = wrong_model(kind)
    with pytest.raises(Exception, match=r"."):  # nor does onnxruntime run it
        run(model, {"x": floats(IMAGE)})
    with pytest.raises(CompileError, match=WRONG[kind][3]) as error:
        import_model(model, context(), calibrated=calibrated)
    assert f"node 'node0' ({WRONG[kind][0]})" in str(error.value)


def test_all_are_told_at_once():
    kinds = [*WRONG]
    with pytest.raises(CompileError) as error:
        import_model(wrong_model(*kinds), context())
    for number, kind in enumerate(kinds):
        assert f"node 'node{number}' ({WRONG[kind][0]})" in str(error.value), kind


PLACES = {
    "elements": ("Reshape", [[4, 26]], {}, r"has 100 elements, and its result \[4, 26\] 104"),
    "more elements": ("Reshape", [[0, 4, 7, 4]], {}, "has 100 elements"),
    "indices": ("Gather", [[0, 4]], {"axis": 1}, r"from 0 to 4, axis 1 of its input .* has 4"),
    "negative indices": ("Gather", [[[-6]]], {"axis": -1}, "indices go from -6 to -6"),
    "pads": ("Pad", [[0, 0, -3, 0, 0, 0, -3, 0]], {}, "cut off more than its input"),
    "reflection": ("Pad", [[0, 0, 5, 0, 0, 0, 0, 0]], {"mode": "reflect"}, "reflect more than"),
    "reflection of what is left": (
        "Pad",
        [[0, 0, -2, 0, 0, 0, 3, 0]],
        {"mode": "reflect"},
        "reflect more than its input",
    ),
    "scales": ("Resize", ["", [1.0, 1.0, 0.0, 2.0]], {}, "must be above 0"),
    "negative scales": ("Resize", ["", [1.0, 1.0, 2.0, -2.0]], {}, "must be above 0"),
    "sizes": ("Resize", ["", "", [1, 4, 0, 5]], {}, "must be above 0"),
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("as_node", [False, True])
@pytest.mark.parametrize("calibrated", [False, True])
def test_constants_that_name_no_place(kind, as_node, calibrated):
    """As initialisers and as Constant nodes."""
    operator, operands, attributes, message = PLACES[kind]
    arrays = {
        f"c{number}": np.array(given, np.float32 if isinstance(given[-1], float) else np.int64)
        for number, given in enumerate(operands)
        if given != ""
    }
    names = [f"c{number}" if f"c{number}" in arrays else "" for number in range(len(operands))]
    nodes = [node(operator, ["x", *names], ["y"], "it", **attributes)]
    if as_node:
        made = [
            node("Constant", [], [name], value=numpy_helper.from_array(array))
            for name, array in arrays.items()
        ]
        nodes, arrays = [*made, *nodes], {}
    model = small_model(nodes, {"x": IMAGE}, ["y"], arrays)
    with pytest.raises(Exception, match=r"."):
        run(model, {"x": floats(IMAGE)})
    with pytest.raises(CompileError, match=message) as error:
        import_model(model, context(), calibrated=calibrated)
    assert f"node 'it' ({operator})" in str(error.value)


RECURRENT = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.mark.parametrize("operator", RECURRENT)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("fault", ["", "W", "R"])
def test_weights_of_recurrent_layers(operator, direction, fault):
    count = 2 if direction == "bidirectional" else 1
    gates = RECURRENT[operator] * 6
    shapes = {"W": (count, gates, 5), "R": (count, gates, 6)}
    weights = {
        name: floats((*shape[:2], shape[2] + (name == fault)), 1) for name, shape in shapes.items()
    }
    layer = node(operator, ["x", "W", "R"], ["y"], "it", hidden_size=6, direction=direction)
    model = small_model([layer], {"x": [3, 1, 5]}, ["y"], weights)
    if not fault:
        import_model(model, context())
        return
    with pytest.raises(CompileError, match=f"node 'it' .* its {fault} is"):
        import_model(model, context())


def test_third_operands_of_gemm():
    model = small_model(
        [node("Gemm", ["x", "w", "c"], ["y"], "dense", transB=1)],
        {"x": [2, 4]},
        ["y"],
        {"w": floats((3, 4)), "c": floats((5,))},
    )
    with pytest.raises(CompileError, match=r"third operand is \[5\] and its result \[2, 3\]"):
        import_model(model, context())


@pytest.mark.parametrize(
    ("operator", "weights", "attributes"),
    [
        ("Conv", {"w": (6, 2, 3, 3), "b": (6,)}, {"group": 2}),
        ("Conv", {"w": (4, 1, 5, 5)}, {"group": 4, "dilations": [2, 1], "pads": [2, 0, 2, 0]}),
        ("Conv", {"w": (4, 4, 7, 7)}, {"auto_pad": "SAME_UPPER"}),
        ("ConvTranspose", {"w": (4, 3, 3, 3), "b": (6,)}, {"group": 2}),
        ("PRelu", {"w": (1, 5, 1)}, {}),
        ("BatchNormalization", dict.fromkeys("sbmv", (4,)), {}),
    ],
)
def test_what_fits_is_not_refused(operator, weights, attributes):
    arrays = {name: np.abs(floats(shape, 1)) for name, shape in weights.items()}
    nodes = [node(operator, ["x", *arrays], ["y"], **attributes)]
    model = small_model(nodes, {"x": IMAGE}, ["y"], arrays)
    assert run(model, {"x": floats(IMAGE)})
    import_model(model, context())


@settings(max_examples=100)
@given(st.randoms(use_true_random=False))
def test_what_onnxruntime_runs_is_let_pass_and_nothing_else(random):
    """Windows, pads and neighbourhoods, small and large, against what onnxruntime says."""
    operator = random.choice(["MaxPool", "AveragePool", "LpPool", "Pad", "LRN"])
    extents, inputs, weights, attributes = [random.randint(1, 5) for _ in "hw"], ["x"], {}, {}
    if operator == "LRN":
        attributes["size"] = random.randint(0, 6)
    elif operator == "Pad":
        attributes["mode"] = random.choice(["reflect", "edge", "constant"])
        pads = [0, 0, random.randint(-2, 5), 0, 0, 0, random.randint(-2, 5), 0]
        inputs, weights = ["x", "p"], {"p": np.array(pads)}
    else:
        attributes["kernel_shape"] = [random.randint(1, 6), random.randint(1, 3)]
        attributes["pads"] = [random.randint(0, 2) for _ in range(4)]
        attributes["strides"] = [random.randint(1, 3), 1]
        if operator == "MaxPool":
            attributes["dilations"] = [random.randint(1, 2), 1]
        if operator != "LpPool":
            attributes["ceil_mode"] = random.randint(0, 1)
    layer = node(operator, inputs, ["y"], "it", **attributes)
    model = small_model([layer], {"x": [1, 2, *extents]}, ["y"], weights)
    try:
        run(model, {"x": floats((1, 2, *extents))})
    except Exception:
        with pytest.raises(CompileError, match="node 'it'"):
            import_model(model, context(), calibrated=random.random() < 0.5)
    else:
        import_model(model, context(), calibrated=random.random() < 0.5)


@pytest.mark.parametrize("pads", [(-2, 1), (3, -3), (-4, 4), (-2, 2)])
def test_a_constant_fills_what_is_cut_off_beyond_the_end(pads):
    before, after = pads
    weights = {"p": np.array([0, 0, before, 0, 0, 0, after, 0])}
    model = small_model([node("Pad", ["x", "p"], ["y"], "it")], {"x": [1, 2, 1, 3]}, ["y"], weights)
    assert run(model, {"x": floats((1, 2, 1, 3))})
    import_model(model, context())
