"""HardSwish and gates by a hard sigmoid in one launch: products, or lines without a multiplier."""

import numpy as np
import pytest
from onnx import helper, numpy_helper
from small_models import floats, run, value_info

from vtac.tools.driver.compiler import compile_model

node = helper.make_node
TARGETS = ("sim", "pynq", "chisel-pynq")
FORMS = {
    "hard swish": [node("HardSwish", ["c"], ["t"])],
    "gate": [
        node("HardSigmoid", ["c"], ["h"], alpha=1 / 6, beta=0.5),
        node("Mul", ["c", "h"], ["t"]),
    ],
    "two hard swishes": [
        node("HardSwish", ["c"], ["s"]),
        node("Conv", ["s", "v"], ["d"], pads=[1] * 4),
        node("HardSwish", ["d"], ["t"]),
    ],
}


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("form", "target"),
    [(form, target) for target in TARGETS for form in FORMS if target == "sim" or "swish" in form],
)
def test_gates_are_one_launch(form: str, target: str, biased: bool) -> None:
    weights = {"w": floats((8, 3, 3, 3), 1) / 3, "v": floats((8, 8, 3, 3), 2) / 3}
    weights |= {"b": floats((8,), 3)} if biased else {}
    graph = helper.make_graph(
        [
            node("Conv", ["x", "w", *(["b"] if biased else [])], ["c"], pads=[1] * 4),
            *FORMS[form],
            node("Conv", ["t", "v"], ["y"], pads=[1] * 4),
        ],
        "g",
        [value_info("x", [1, 3, 8, 8])],
        [value_info("y", None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = np.stack([floats((3, 8, 8), seed) for seed in range(6)])
    module = compile_model(model, target, {"x": samples})
    assert {p.where for p in module.explain} == {"vta_0"}
    notes = [p.reason for p in module.explain if "hard_swish" in p.op]
    assert all(("lines, at most" in note) == (target != "sim") for note in notes)
    assert len(module.profile().launches) == 1
    expected, found = run(model, {"x": samples[:1]})[0], module.run({"x": samples[:1]})["y"]
    assert np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean()) < 0.06
