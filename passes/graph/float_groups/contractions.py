"""Products of two activations: which float ops become one integer product.

These are MatMul, and Gemm without constant weights, as in attention. A constant whose layout is not
that of a dense layer's weights is treated as an activation. Ops next to the product that only
reorder dimensions or scale all elements alike become part of it at no cost: the host lays out the
operands anyway (``graph.batch_matmul`` needs the inner extent last in both), and a factor becomes
part of the scale.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    DivOp,
    FakeQuantizeOp,
    GemmOp,
    Given,
    MatMulOp,
    MulOp,
    TransposeOp,
    broadcast,
    grid_of,
    shape_of,
)
from vtac.passes.graph.float_groups.network import Network, is_matrix_product, producer

SourceOp = MatMulOp | GemmOp
"""Ops that multiply matrices."""


@dataclass(frozen=True, eq=False)
class Operand:
    """A value that is read as matrices of rows, each as long as the inner extent.

    order: for each dimension of [batch..., rows, inner], the dimension of the value that it is.
    """

    value: SSAValue
    order: Sequence[int]

    @property
    def shape(self) -> tuple[int, ...]:
        """[batch..., rows, inner]; a vector is one row."""
        shape = shape_of(self.value) or ()
        return (1, *shape) if len(shape) == 1 else tuple(shape[axis] for axis in self.order)

    @property
    def batch(self) -> tuple[int, ...]:
        """The extents of the batch dimensions."""
        return self.shape[:-2]


@dataclass(frozen=True, eq=False)
class Contraction:
    """Ops that become one product of int8 matrices and one requantisation.

    root: the last op, whose result the group computes. source: the product. a, b: its operands, b
    transposed. order: for each dimension of the result, the dimension of the product that it is.
    factor: the number above 0 that multiplies all elements. bias: one number per column, or None.
    covered: all ops it replaces, root first. leaves_int32: the accumulators themselves are the
    result.
    """

    root: Operation
    source: SourceOp
    a: Operand
    b: Operand
    order: Sequence[int]
    factor: float
    bias: Array | None
    covered: Sequence[Operation]
    leaves_int32: bool = False
    keeps_scale: ClassVar[bool] = False
    lo: ClassVar[float] = -inf
    hi: ClassVar[float] = inf

    @property
    def inputs(self) -> list[SSAValue]:
        """The values read as int8."""
        return [self.a.value, self.b.value]

    @property
    def is_rounded(self) -> bool:
        """Whether the network itself rounds the result, at a scale of its own."""
        return isinstance(self.root, FakeQuantizeOp)

    @property
    def inner(self) -> int:
        """How many products each accumulator sums."""
        return self.a.shape[-1]

    @property
    def batch(self) -> list[int]:
        """The batch dimensions of the product."""
        return broadcast(self.a.batch, self.b.batch)


def given_constant(value: SSAValue, network: Network) -> Given | None:
    """The given scale of a constant, with a zero point for storage as int8."""
    array, grid = network.constant(value), grid_of(value)
    if array is None or grid is None or len(set(grid.steps.get_values())) > 1:
        return None
    step = grid.steps.get_values()[0]
    whole = np.rint(array.astype(np.float64) / step)
    least, most = int(whole.min(initial=0)), int(whole.max(initial=0))
    zero_point = 0 if least >= -128 and most <= 127 else -128 - least
    return Given(step, zero_point) if most + zero_point <= 127 else None


def contraction_at(
    root: Operation,
    network: Network,
    reasons: Mapping[Operation, str],
    kept: Mapping[Operation, str],
) -> Contraction | None:
    """The product whose result, perhaps scaled, reordered and rounded, ``root`` computes.

    reasons: why ops have no integer form. kept: ops that stay float in any case.
    """
    covered, order, factor = [root], list(range(len(shape_of(root.results[0]) or ()))), 1.0
    op = root
    while not is_matrix_product(op, network):
        if op in kept:
            return None
        if isinstance(op, TransposeOp):
            permutation, value = op.permutation.get_values(), op.x
            order = [permutation[axis] for axis in order]
        elif isinstance(op, MulOp | DivOp) and (scaled := _scaled(op, network)) is not None:
            value, more = scaled
            factor *= more
        elif isinstance(op, FakeQuantizeOp) and op is root and network.multiplies:
            value = op.x
        else:
            return None
        inner = producer(value)
        if inner is None or not value.has_one_use():
            return None
        covered.append(inner)
        op = inner
    assert isinstance(op, SourceOp)
    if op in reasons:
        return None
    bias = _bias(op, network)
    bias = None if bias is None else bias * factor
    a, b, more = _operands(op, network, kept, covered)
    factor *= more
    if isinstance(op, GemmOp):
        factor *= op.alpha.value.data
    return Contraction(root, op, a, b, order, factor, bias, covered)


def _scaled(op: MulOp | DivOp, network: Network) -> tuple[SSAValue, float] | None:
    """The operand of a product with one constant number above 0, and that number."""
    pairs = [(op.a, op.b)] if isinstance(op, DivOp) else [(op.a, op.b), (op.b, op.a)]
    for value, other in pairs:
        number = network.constant(other)
        if number is None or number.size != 1 or shape_of(value) != shape_of(op.result):
            continue
        factor = float(number.reshape(()))
        if 0 < factor < inf:
            return value, 1 / factor if isinstance(op, DivOp) else factor
    return None


def _operands(
    op: SourceOp, network: Network, kept: Mapping[Operation, str], covered: list[Operation]
) -> tuple[Operand, Operand, float]:
    """Both operands as rows of the inner extent, and the factor of the product.

    Ops that only reorder or scale an operand are added to ``covered``.
    """
    swapped, factor = (False, True), 1.0
    if isinstance(op, GemmOp):
        swapped = bool(op.trans_a.value.data), not op.trans_b.value.data
    found = []
    for value, swap in zip((op.a, op.b), swapped, strict=True):
        order = list(range(len(shape_of(value) or ())))
        if swap:
            order[-2:] = order[:-3:-1]
        while (maker := producer(value)) is not None and maker not in kept:
            if any(use.operation not in covered for use in value.uses):
                break
            if isinstance(maker, TransposeOp):
                permutation, value = maker.permutation.get_values(), maker.x
                order = [permutation[axis] for axis in order]
            elif isinstance(maker, MulOp | DivOp) and (scaled := _scaled(maker, network)):
                value, more = scaled
                factor *= more
            else:
                break
            if maker not in covered:
                covered.append(maker)
        found.append(Operand(value, order))
    return found[0], found[1], factor


def _bias(op: SourceOp, network: Network) -> Array | None:
    if not isinstance(op, GemmOp) or op.c is None:
        return None
    columns = (shape_of(op.result) or ())[1]
    return network.channel_vector(op.c, columns) * op.beta.value.data
