"""Products of matrices: exact for integers; for floats in double precision, rounded once."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vtac.runtime.c_project.body import Body
from vtac.runtime.c_project.loops import Visit, broadcast, nest, row_major
from vtac.runtime.c_project.node import ProgramNode
from vtac.runtime.c_project.tensors import NotExportedError, ProgramTensor, literal


def _product(
    node: ProgramNode,
    body: Body,
    operands: Mapping[str, ProgramTensor],
    accesses: Sequence[Visit],
    inner: tuple[int, int, int],
    terms: tuple[str, str],
    end: str = "sum",
) -> list[ProgramTensor]:
    """Sums over one axis of products of elements of ``a`` and ``b``.

    accesses: of ``a``, ``b`` and what else ``end`` names, over the result's shape. inner: the
    extent of the axis, and the strides of both along it. terms: the factors, from ``p[..]``.
    """
    y = node.result(body)
    count, left, right = inner
    a, b = operands["a"], operands["b"]
    integer = a.dtype.kind != "f"
    start = "uint32_t sum = 0;" if integer else "double sum = 0;"
    cast = "(uint32_t)" if integer else "(double)"
    p, q = terms[0].format(f"p[k * {left}]"), terms[1].format(f"q[k * {right}]")
    update = f"sum += {cast}({p} * {q});" if integer else f"sum += {cast}{p} * {q};"

    def lines(at: Sequence[str]) -> list[str]:
        return [
            f"const {a.c_type} *p = &{at[1]};",
            f"const {b.c_type} *q = &{at[2]};",
            start,
            f"for (int k = 0; k < {count}; k++)",
            f"    {update}",
            f"{at[0]} = ({y.c_type})({end.format(*at)});",
        ]

    loops = nest(y.shape, [Visit("y", row_major(y.shape)), *accesses], lines)
    body.step(node.title(), list(operands.values()), [y], [*body.operands(**operands, y=y), *loops])
    return [y]


def _matmul(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    """MatMul and MatMulInteger: matrices of batches that broadcast."""
    a, b, y = node.input(0), node.input(1), node.shape
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise NotExportedError("multiplies vectors", "Reshape them to matrices.")
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    batch = y[:-2]
    left = tuple(stride * rows * inner for stride in broadcast(a.shape[:-2], batch))
    right = tuple(stride * inner * columns for stride in broadcast(b.shape[:-2], batch))
    accesses = [Visit("a", (*left, inner, 0)), Visit("b", (*right, 0, 1))]
    operands, terms = {"a": a, "b": b}, ["{}", "{}"]
    for number in (2, 3) if node.op == "MatMulInteger" else ():
        zero = node.optional(number)
        if zero is None or (zero.array is not None and not zero.array.any()):
            continue
        if zero.size != 1:
            raise NotExportedError("has zero points for rows or columns")
        operands[f"z{number}"] = zero
        terms[number - 2] = f"({{}} - z{number}[0])"
    return _product(node, body, operands, accesses, (inner, 1, columns), (terms[0], terms[1]))


def _gemm(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    a, b, c = node.input(0), node.input(1), node.optional(2)
    if a.dtype.kind != "f":
        raise NotExportedError(f"Gemm of {a.dtype}")
    wide = np.dtype(np.float64)
    alpha, beta = (
        literal(np.float32(node.attributes.get(name, 1.0)), wide) for name in ("alpha", "beta")
    )
    rows, inner = reversed(a.shape) if node.attributes.get("transA") else a.shape
    columns = b.shape[0] if node.attributes.get("transB") else b.shape[1]
    left = (1, rows) if node.attributes.get("transA") else (inner, 1)
    right = (inner, 1) if node.attributes.get("transB") else (1, columns)
    accesses = [Visit("a", (left[0], 0)), Visit("b", (0, right[0]))]
    operands, end = {"a": a, "b": b}, "sum" if alpha == "1.0" else f"{alpha} * sum"
    if c is not None:
        operands["c"] = c
        accesses.append(Visit("c", broadcast(c.shape, node.shape)))
        end += " + {3}" if beta == "1.0" else f" + {beta} * {{3}}"
    return _product(node, body, operands, accesses, (inner, left[1], right[1]), ("{}", "{}"), end)


CONVERTERS: Mapping[str, Callable[[ProgramNode, Body], Sequence[ProgramTensor]]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
}
