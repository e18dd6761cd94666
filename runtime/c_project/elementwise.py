"""Operators on each element by itself.

Sums, differences, products, quotients, roots, comparisons and roundings of floats are IEEE
operations, so they equal onnxruntime's to the bit. Other functions are computed in double precision
and rounded once; onnxruntime approximates some of them in single precision. Sums and products of
integers wrap.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vtac.runtime.c_project.body import Body
from vtac.runtime.c_project.loops import Visit, broadcast, nest, row_major
from vtac.runtime.c_project.node import ProgramNode
from vtac.runtime.c_project.tensors import DType, NotExportedError, ProgramTensor, literal

Expression = Callable[..., str]

_FUNCTIONS = {
    "Acos": "acos({})",
    "Asin": "asin({})",
    "Atan": "atan({})",
    "Cos": "cos({})",
    "Elu": "({0} < 0 ? {alpha} * expm1({0}) : {0})",
    "Erf": "erf({})",
    "Exp": "exp({})",
    "Log": "log({})",
    "Mish": "({0} * tanh(softplus({0})))",
    "Pow": "pow({}, {})",
    "Selu": "({gamma} * ({0} < 0 ? {alpha} * expm1({0}) : {0}))",
    "Sigmoid": "logistic({})",
    "Sin": "sin({})",
    "Softplus": "softplus({})",
    "Softsign": "({0} / (1 + fabs({0})))",
    "Tan": "tan({})",
    "Tanh": "tanh({})",
}
"""Functions of floats, computed in double precision. Names in braces are attributes."""

_DEFAULTS = {
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "HardSwish": {"alpha": 1 / 6, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "Selu": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    "ThresholdedRelu": {"alpha": 1.0},
}

_EXACT = {
    "Abs": "fabs({})",
    "Ceil": "ceil({})",
    "Div": "{} / {}",
    "Floor": "floor({})",
    "HardSigmoid": "fmin(fmax({alpha} * {0} + {beta}, {zero}), {one})",
    "HardSwish": "{0} * fmin(fmax({alpha} * {0} + {beta}, {zero}), {one})",
    "Reciprocal": "{one} / {}",
    "Round": "nearbyint({})",
    "Sqrt": "sqrt({})",
}
"""Functions of floats in the precision of the operands: IEEE operations, each rounded once."""

_ANY = {
    "LeakyRelu": "{0} < 0 ? {alpha} * {0} : {0}",
    "Neg": "-{}",
    "PRelu": "{0} < 0 ? {1} * {0} : {0}",
    "Relu": "{0} > 0 ? {0} : 0",
    "Sign": "({0} > 0) - ({0} < 0)",
    "ThresholdedRelu": "{0} > {alpha} ? {0} : 0",
    "Where": "{} ? {} : {}",
    "Equal": "{} == {}",
    "Greater": "{} > {}",
    "GreaterOrEqual": "{} >= {}",
    "Less": "{} < {}",
    "LessOrEqual": "{} <= {}",
    "And": "{} && {}",
    "Or": "{} || {}",
    "Xor": "{} != {}",
    "Not": "!{}",
}
"""Expressions that mean the same for all element types they are defined for."""

_SIGNED_ONLY = {"Neg", "Sign", "LeakyRelu", "PRelu"}

_FOLDS = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Sum": "+",
}
_CHOICES = {"Max": ">", "Min": "<"}


def _single(name: str, dtype: DType) -> str:
    """C's functions of floats have another name for single precision."""
    if dtype != np.float32:
        return name
    for function in ("fabs", "ceil", "fmin", "fmax", "floor", "nearbyint", "sqrt"):
        name = name.replace(f"{function}(", f"{function}f(")
    return name


def _attributes(node: ProgramNode, dtype: DType) -> dict[str, str]:
    values = {**_DEFAULTS.get(node.op, {}), "zero": 0.0, "one": 1.0}
    values |= {k: v for k, v in node.attributes.items() if isinstance(v, float)}
    return {name: literal(np.float32(value), dtype) for name, value in values.items()}


def _expression(node: ProgramNode, dtype: DType, names: Sequence[str]) -> str:
    """The value of an element of the result, from the elements of the operands of this type."""
    op, floating = node.op, dtype.kind == "f"
    if op in _FUNCTIONS and floating:
        wide = [f"(double){name}" for name in names]
        attributes = _attributes(node, np.dtype(np.float64))
        return _FUNCTIONS[op].format(*(f"({name})" for name in wide), **attributes)
    if op in _EXACT and floating:
        return _single(_EXACT[op].format(*names, **_attributes(node, dtype)), dtype)
    if op == "Abs" and dtype.kind == "i":
        return f"{names[0]} < 0 ? -{names[0]} : {names[0]}"
    if op == "Abs" and dtype.kind == "u":
        return names[0]
    if op in _FOLDS:
        return _fold(op, dtype, names)
    if op in _CHOICES:
        result = names[0]
        for name in names[1:]:
            result = f"({result} {_CHOICES[op]} {name} ? {result} : {name})"
        return result
    if op in _ANY and not (op in _SIGNED_ONLY and dtype.kind == "u"):
        return _ANY[op].format(*names, **(_attributes(node, dtype) if floating else {}))
    raise NotExportedError(f"{op} of {dtype} is not among the exported operators")


def _fold(op: str, dtype: DType, names: Sequence[str]) -> str:
    if dtype.kind in "iu":
        wide = "uint64_t" if dtype.itemsize == 8 else "uint32_t"
        names = [f"({wide}){name}" for name in names]
    result = names[0]
    for name in names[1:]:
        result = f"{result} {_FOLDS[op]} {name}"
    return result


def apply(
    node: ProgramNode,
    body: Body,
    operands: Sequence[ProgramTensor],
    expression: Callable[[Sequence[str]], str],
) -> list[ProgramTensor]:
    """The result of an expression of the elements of operands, which broadcast to its shape."""
    y = node.result(body)
    inlined = {
        number: literal(t.array.reshape(-1)[0], t.dtype)
        for number, t in enumerate(operands)
        if t.array is not None and t.size == 1
    }
    named = {f"x{n}": t for n, t in enumerate(operands) if n not in inlined}
    accesses = [Visit("y", row_major(y.shape))]
    accesses += [Visit(name, broadcast(t.shape, y.shape)) for name, t in named.items()]

    def line(at: Sequence[str]) -> list[str]:
        places = iter(at[1:])
        names = [inlined[n] if n in inlined else next(places) for n in range(len(operands))]
        return [f"{at[0]} = ({y.c_type})({expression(names)});"]

    lines = [*body.operands(**named, y=y), *nest(y.shape, accesses, line)]
    body.step(node.title(), list(named.values()), [y], lines)
    return [y]


def _plain(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    operands = [tensor for tensor in node.inputs if tensor is not None]
    dtype = operands[1 if node.op == "Where" else 0].dtype
    return apply(node, body, operands, lambda names: _expression(node, dtype, names))


def _mean(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    operands = [tensor for tensor in node.inputs if tensor is not None]
    count = literal(len(operands), operands[0].dtype)
    if operands[0].dtype.kind != "f":
        raise NotExportedError(f"Mean of {operands[0].dtype}")
    return apply(node, body, operands, lambda names: f"({' + '.join(names)}) / {count}")


def _clip(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x = node.input(0)
    bounds = [node.known(number, name) for number, name in ((1, "min"), (2, "max"))]

    def expression(names: Sequence[str]) -> str:
        result = names[0]
        for sign, bound in zip("<>", bounds, strict=True):
            if bound is not None:
                number = literal(bound.reshape(-1)[0], x.dtype)
                result = f"({result} {sign} {number} ? {number} : {result})"
        return result

    return apply(node, body, [x], expression)


def cast_to(dtype: DType, source: DType, name: str) -> str:
    """A value in another type: floats become integers towards zero, and saturate."""
    if dtype.kind == "b":
        return f"{name} != 0"
    if dtype.kind in "iu" and source.kind == "f":
        if dtype == np.uint64:
            return f"(uint64_t){name}"
        limits = np.iinfo(dtype)
        low, high = (literal(v, np.dtype(np.int64)) for v in (limits.min, limits.max))
        return f"truncated({name}, {low}, {high})"
    return name


def _cast(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x, (_, dtype, _) = node.input(0), node.results[0]
    return apply(node, body, [x], lambda names: cast_to(dtype, x.dtype, names[0]))


def _along(node: ProgramNode, tensor: ProgramTensor, body: Body) -> ProgramTensor:
    """A vector of quantisation parameters in the shape that broadcasts along its axis."""
    if node.attributes.get("block_size"):
        raise NotExportedError("quantises in blocks")
    if tensor.size == 1:
        return body.view(tensor, ())
    rank = len(node.shape)
    axis = node.attributes.get("axis", 1) % rank
    return body.view(tensor, tuple(tensor.size if a == axis else 1 for a in range(rank)))


def _quantize(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x, (_, dtype, _) = node.input(0), node.results[0]
    operands = [x, _along(node, node.input(1), body)]
    if x.dtype != np.float32 or operands[1].dtype != np.float32 or dtype.itemsize > 2:
        raise NotExportedError(f"quantises {x.dtype} to {dtype}")
    zero = node.optional(2)
    if zero is not None:
        operands.append(_along(node, zero, body))
    limits = np.iinfo(dtype)

    def expression(names: Sequence[str]) -> str:
        point = names[2] if len(names) > 2 else "0"
        return f"quantised({names[0]}, {names[1]}, {point}, {limits.min}, {limits.max})"

    return apply(node, body, operands, expression)


def _dequantize(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x, (_, dtype, _) = node.input(0), node.results[0]
    operands = [x, _along(node, node.input(1), body)]
    if dtype != np.float32 or x.dtype.itemsize > 4:
        raise NotExportedError(f"dequantises {x.dtype} to {dtype}")
    zero = node.optional(2)
    if zero is not None and (zero.array is None or zero.array.any()):
        if x.dtype.itemsize > 2:
            raise NotExportedError(f"dequantises {x.dtype} with a zero point")
        operands.append(_along(node, zero, body))

    def expression(names: Sequence[str]) -> str:
        integer = f"({names[0]} - {names[2]})" if len(names) > 2 else names[0]
        return f"(float){integer} * {names[1]}"

    return apply(node, body, operands, expression)


def _batch_norm(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` in double precision."""
    x = node.input(0)
    if len(node.results) > 1 or x.dtype.kind != "f" or node.attributes.get("training_mode"):
        raise NotExportedError("normalises a batch for training")
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))
    vectors = [body.view(node.input(number), shape) for number in range(1, 5)]
    epsilon = literal(node.attributes.get("epsilon", 1e-5), np.dtype(np.float64))

    def expression(names: Sequence[str]) -> str:
        value, scale, bias, mean, variance = (f"(double){name}" for name in names)
        return f"({value} - {mean}) / sqrt({variance} + {epsilon}) * {scale} + {bias}"

    return apply(node, body, [x, *vectors], expression)


CONVERTERS: Mapping[str, Callable[[ProgramNode, Body], Sequence[ProgramTensor]]] = {
    **dict.fromkeys([*_FUNCTIONS, *_EXACT, *_ANY, *_FOLDS, *_CHOICES], _plain),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Clip": _clip,
    "DequantizeLinear": _dequantize,
    "Mean": _mean,
    "QuantizeLinear": _quantize,
}
