"""``vtac.te``: tensor computations in Python, compiled and run.

    from vtac import te

    a, x = te.placeholder((30, 50), "a"), te.placeholder((50,), "x")
    k = te.reduce_axes(k=50)
    y = te.compute((30,), lambda i: te.saturate(te.total(a[i, k] * x[k], k) >> 8), "y")
    run = te.build(y, target="pynq")
    run(a=matrix, x=vector)         # an int8 array of 30
    print(run.ir("te"))             # or "expressions", "loops", "vta"

Extents, strides and pads are what you write; lanes, tiles and instructions are found.
``te.convolution`` and its like are ready made (`vtac.lowering.python_to_te.kinds`).
"""

from vtac.lowering.python_to_te.expressions import (
    Axis,
    Computed,
    Constant,
    Index,
    Placeholder,
    Scalar,
    Tensor,
    clip,
    compute,
    constant,
    largest,
    maximum,
    minimum,
    narrow,
    placeholder,
    reduce_axes,
    saturate,
    smallest,
    total,
)
from vtac.lowering.python_to_te.kinds import (
    average_factor,
    average_pool,
    bilinear,
    convolution,
    depthwise_convolution,
    grouped_convolution,
    matrix_product,
    matrix_vector,
    max_pool,
    requantise,
    transposed_convolution,
)
from vtac.runtime.tensor_program import TensorProgram
from vtac.tools.tensor_expressions.compiler import build, lowered

__all__ = [
    "Axis",
    "Computed",
    "Constant",
    "Index",
    "Placeholder",
    "Scalar",
    "Tensor",
    "TensorProgram",
    "average_factor",
    "average_pool",
    "bilinear",
    "build",
    "clip",
    "compute",
    "constant",
    "convolution",
    "depthwise_convolution",
    "grouped_convolution",
    "largest",
    "lowered",
    "matrix_product",
    "matrix_vector",
    "max_pool",
    "maximum",
    "minimum",
    "narrow",
    "placeholder",
    "reduce_axes",
    "requantise",
    "saturate",
    "smallest",
    "total",
    "transposed_convolution",
]
