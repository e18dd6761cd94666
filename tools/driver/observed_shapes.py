"""Takes shapes from samples, for values behind operators that shape inference does not know.

Such an operator would keep everything behind it on the host. The model runs on a few samples. A
value has a static shape if its shape is the same for all of them and does not depend on the
contents of any value.
"""

from itertools import islice

import numpy as np
from onnx import ModelProto, TypeProto, ValueInfoProto, helper
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp

from vtac.dialects.errors import CompileError
from vtac.dialects.graph import is_static
from vtac.lowering.onnx_to_graph import values_of_unknown_shape
from vtac.lowering.onnx_to_graph.shapes import Shapes
from vtac.lowering.onnx_to_graph.weights import without_weights
from vtac.runtime.calibration import open_float_model
from vtac.runtime.samples import Samples, tensor_specs
from vtac.runtime.sessions import FAILURES
from vtac.tools.driver.planner import main_function

_FAILURES: tuple[type[Exception], ...] = (CompileError, *FAILURES)

BATCHES = 3
"""The number of batches that are run."""

ROUNDS = 16
"""The most rounds: a shape that becomes known may lead to further operators without shapes."""


def observed_types(
    module: ModuleOp, model: ModelProto, shapes: Shapes, samples: Samples
) -> dict[str, TypeProto]:
    """Types of values of the main graph that onnx's inference does not find, by name.

    module: the imported model. Empty where everything is known, and where onnxruntime does not run
    the model: that is told by whoever needs it to run.
    """
    known: dict[str, TypeProto] = {}
    results = (value for op in main_function(module).body.block.ops for value in op.results)
    if all(is_static(value) for value in results):
        return known
    for _ in range(ROUNDS):
        names = [n for n in values_of_unknown_shape(model, shapes, known) if n not in known]
        found = _run(model, names, samples) if names else {}
        if not found:
            break
        known |= found
    return known


def _run(model: ModelProto, names: list[str], samples: Samples) -> dict[str, TypeProto]:
    """The types of some values, of those that are the same tensors' on all batches."""
    extended, weights = without_weights(model)
    outputs = {output.name for output in model.graph.output}
    extended.graph.output.extend(ValueInfoProto(name=n) for n in names if n not in outputs)
    seen: dict[str, set[tuple[int, tuple[int, ...]]]] = {name: set() for name in names}
    try:
        session = open_float_model(extended, weights)
        for batch in islice(samples, BATCHES):
            for name, value in zip(names, session.run(names, dict(batch)), strict=True):
                seen[name].add(_kind(value))
    except _FAILURES:
        return {}
    return {
        name: helper.make_tensor_type_proto(*kinds.pop())
        for name, kinds in seen.items()
        if len(kinds) == 1 and _NO_TENSOR not in kinds
    }


_NO_TENSOR = (0, ())


def _kind(value: object) -> tuple[int, tuple[int, ...]]:
    """Element type and shape of a tensor of numbers."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        return _NO_TENSOR
    return helper.np_dtype_to_tensor_dtype(value.dtype), value.shape


def unknown_dimensions(module: ModuleOp) -> list[str]:
    """A warning for each input of a network that has dimensions which nothing tells."""
    found = []
    for spec in tensor_specs(main_function(module)):
        if DYNAMIC_INDEX in spec.shape:
            extents = ", ".join("?" if e == DYNAMIC_INDEX else str(e) for e in spec.shape)
            found.append(
                f"input '{spec.name}' has unknown dimensions, [{extents}]: what depends on them"
                f" runs on the host. Fix them: shapes={{'{spec.name}': ...}} (vta-compile:"
                f" --shape {spec.name}=...)."
            )
    return found
