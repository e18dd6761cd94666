"""Proves that a scalar statement equals an intrinsic, for the primitive tensorize.

A statement in a nest of loops equals a sequence of intrinsics if
- the bodies have the same normal form, once sources and immediates of the intrinsics are bound to
  operands and constants of the statement (`expressions`), and all operands are bound;
- an operand that is an immediate is the same for all lanes, and comes from a table: a parameter of
  the kernel whose values are known when it is called;
- the last dimensions of each access are subscripted by loops of their own over [0, extent), the
  same loop wherever the declaration has the same lane axis; axes of extent 1 may be missing;
- scopes and element types agree;
- a read outside an operand's shape yields what the declaration says (the pads of a transfer), or
  would leave the accumulator as it is, so it may be left out.

The order of loops does not matter. This module only looks; the rewrite is in ``primitives``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, SSAValue

from vtac.dialects import te

from .expressions import (
    DESTINATION,
    Binding,
    Expression,
    constant,
    difference,
    expression_of,
    unify,
)


class Mismatch(Exception):  # noqa: N818 - it is an answer, not an accident
    """Where a statement differs from the intrinsics, and what may help."""

    def __init__(self, what: str, hint: str = ""):
        self.what, self.hint = what, hint
        super().__init__(what)


@dataclass(frozen=True)
class IntrinsicCall:
    """One intrinsic with its operands, subscripted without their lanes.

    immediate: a number, or the element of a table.
    """

    intrinsic: te.IntrinsicOp
    write: te.Access
    reads: tuple[te.Access, ...]
    immediate: int | te.Access | None


@dataclass(eq=False)
class IntrinsicCover:
    """What replaces a nest of loops: calls of intrinsics.

    lanes: the innermost loops of the nest, which each call runs by itself, as lanes of a block.
    """

    invocations: list[IntrinsicCall] = field(default_factory=list)
    lanes: list[te.ForOp] = field(default_factory=list)


def match(
    update: te.UpdateOp,
    intrinsics: Sequence[te.IntrinsicOp],
    never_outside: Sequence[bool],
    identity: int | None,
) -> IntrinsicCover:
    """Prove that a statement equals some intrinsics in a row. Raises `Mismatch`.

    never_outside: for each operand, whether all of its reads are known to be inside its shape.
    identity: what a reduction starts from, if it is a constant.
    """
    statement = _statement(update)
    pattern = DESTINATION
    for number, intrinsic in enumerate(intrinsics):
        pattern = _applied(intrinsic, number, _sources(intrinsics, number), pattern)
    names = ", ".join(f"@{intrinsic.sym_name.data}" for intrinsic in intrinsics)
    failures: list[Mismatch] = []
    for binding in unify(pattern, statement, {}):
        try:
            return _checked(update, intrinsics, binding, never_outside, identity, statement)
        except Mismatch as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
    hint = ""
    if pattern.contains(DESTINATION) and not statement.contains(DESTINATION):
        hint = "the intrinsic updates its destination: share the operand's buffer first (in_place)"
    what = f"the statement is {statement}, but {names} is {pattern}"
    wanted, found = difference(pattern, statement)
    if found != statement:
        what += f"; it has {found} for {wanted}"
    raise Mismatch(what, hint)


def _statement(update: te.UpdateOp) -> Expression:
    """The statement's value; an operand that is the element itself is ``destination``."""
    write = update.write
    arguments = [DESTINATION] if update.accumulate is not None else []
    for number, read in enumerate(update.reads):
        in_place = read.buffer is write.buffer and read.subscripts == write.subscripts
        arguments.append(DESTINATION if in_place else Expression("operand", (), number))
    return expression_of(update.body, arguments)


def _sources(intrinsics: Sequence[te.IntrinsicOp], number: int) -> list[Expression]:
    """The sources of one of the intrinsics; they are numbered through all of them."""
    first = sum(len(intrinsic.lanes) - 1 for intrinsic in intrinsics[:number])
    count = len(intrinsics[number].lanes) - 1
    return [Expression("source", (), first + position) for position in range(count)]


def _applied(
    intrinsic: te.IntrinsicOp, number: int, sources: Sequence[Expression], old: Expression
) -> Expression:
    """The destination's value after the intrinsic, where ``old`` was its value before."""
    arguments = [old] if intrinsic.updates is not None else []
    arguments += sources
    if intrinsic.immediate is not None:
        arguments.append(Expression("immediate", (), number))
    return expression_of(intrinsic.body, arguments)


def _checked(
    update: te.UpdateOp,
    intrinsics: Sequence[te.IntrinsicOp],
    binding: Binding,
    never_outside: Sequence[bool],
    identity: int | None,
    statement: Expression,
) -> IntrinsicCover:
    """The match for one choice of operands, if lanes, scopes and left-out reads agree too."""
    result = IntrinsicCover()
    reads = update.reads
    for number, intrinsic in enumerate(intrinsics):
        chosen = [reads[binding[source].value] for source in _sources(intrinsics, number)]
        immediate = _immediate(intrinsic, number, binding, reads)
        accesses = _without_lanes(intrinsic, [update.write, *chosen], result.lanes)
        result.invocations.append(
            IntrinsicCall(intrinsic, accesses[0], tuple(accesses[1:]), immediate)
        )
    _check_tables(result)
    for number, read in enumerate(reads):
        if read.outside is None or never_outside[number]:
            continue
        filling = _filling(intrinsics, binding, number)
        if filling is None:
            _check_left_out(update, number, read.outside, identity, statement)
        elif filling.outside != read.outside:
            raise Mismatch(
                f"operand {number} yields {read.outside} outside its shape, the instruction"
                f" {filling.outside}"
            )
    return result


def _filling(
    intrinsics: Sequence[te.IntrinsicOp], binding: Binding, operand: int
) -> te.Lanes | None:
    """The source that an operand is, if its declaration says what lies outside of its tensor."""
    for number, intrinsic in enumerate(intrinsics):
        for source, lanes in zip(_sources(intrinsics, number), intrinsic.lanes[1:], strict=True):
            if binding[source].value == operand and lanes.outside is not None:
                return lanes
    return None


def _immediate(
    intrinsic: te.IntrinsicOp, number: int, binding: Binding, reads: Sequence[te.Access]
) -> int | te.Access | None:
    bounds = intrinsic.immediate_bounds
    if bounds is None:
        return None
    bound = binding[Expression("immediate", (), number)]
    if bound.head == "operand":
        return reads[bound.value]
    value = bound.value
    if not bounds[0] <= value <= bounds[1]:
        raise Mismatch(
            f"the constant {value} is not within {bounds[0]} to {bounds[1]}, the immediates of"
            f" @{intrinsic.sym_name.data}"
        )
    return value


def _check_tables(found: IntrinsicCover) -> None:
    """Check that immediates from tables are known when the kernel is called, and equal in all
    lanes."""
    lanes = {loop.index for loop in found.lanes}
    for invocation in found.invocations:
        table = invocation.immediate
        if not isinstance(table, te.Access):
            continue
        name = f"the immediate of @{invocation.intrinsic.sym_name.data}"
        if not isinstance(table.buffer.owner, Block) or table.outside is not None:
            raise Mismatch(
                f"{name} is neither a constant nor an element of a table",
                "a table is a parameter of the kernel, read where it lies",
            )
        if te.shaped(table.buffer).element_type != i32:
            raise Mismatch(f"{name} is {te.shaped(table.buffer).element_type} instead of i32")
        if any(index in lanes for terms, _ in table.subscripts for index, _ in terms):
            raise Mismatch(f"{name} differs between lanes", "use the intrinsic with two operands")


def _without_lanes(
    intrinsic: te.IntrinsicOp, accesses: Sequence[te.Access], covered: list[te.ForOp]
) -> list[te.Access]:
    """The accesses without their lane subscripts; adds the loops of the lanes to ``covered``."""
    axes: dict[int, te.ForOp] = {}
    extents = intrinsic.extents
    for number, (access, lanes) in enumerate(zip(accesses, intrinsic.lanes, strict=True)):
        what = f"operand {number} of @{intrinsic.sym_name.data}"
        _check_place(access, lanes, what)
        shape = te.shaped(access.buffer).get_shape()[-len(lanes.rows) :]
        if shape != intrinsic.lane_shape(number):
            raise Mismatch(
                f"{what} has lanes of {intrinsic.lane_shape(number)}, the buffer ends in {shape}"
            )
        subscripts = access.subscripts[-len(lanes.rows) :]
        for row, subscript in zip(lanes.rows, subscripts, strict=True):
            axis = row.variable
            assert axis is not None
            loop = _lane_loop(subscript, extents[axis], what)
            if loop is None:
                continue
            if extents[axis] > 1 and axes.setdefault(axis, loop) is not loop:
                raise Mismatch(
                    f'{what} is subscripted by "{loop.label.data}" where another operand has'
                    f' "{axes[axis].label.data}"'
                )
            if loop not in covered:
                covered.append(loop)
    leading = [
        te.Access(access.buffer, access.subscripts[: -len(lanes.rows)])
        for access, lanes in zip(accesses, intrinsic.lanes, strict=True)
    ]
    indices = {loop.index for loop in covered}
    for access in leading:
        for terms, _ in access.subscripts:
            if any(index in indices for index, _ in terms):
                raise Mismatch(
                    f"a lane loop also chooses the element of @{intrinsic.sym_name.data}"
                )
    return leading


def _check_place(access: te.Access, lanes: te.Lanes, what: str) -> None:
    scope, element = te.scope_of(access.buffer), te.shaped(access.buffer).element_type
    if element != lanes.element:
        raise Mismatch(f"{what} is {lanes.element}, the buffer holds {element}")
    if scope is not lanes.scope:
        name = f" %{access.buffer.name_hint}" if access.buffer.name_hint else ""
        raise Mismatch(
            f"{what} is in {lanes.scope.value}, the buffer{name} is in {scope.value}",
            "choose scopes by set_scope and cache_read before",
        )


def _lane_loop(
    subscript: tuple[tuple[tuple[SSAValue, int], ...], int], extent: int, what: str
) -> te.ForOp | None:
    """The loop that runs over a lane dimension; none where the only lane is 0."""
    terms, offset = subscript
    if extent == 1 and not terms and offset == 0:
        return None
    if len(terms) == 1 and terms[0][1] == 1 and offset == 0:
        owner = terms[0][0].owner
        loop = owner.parent_op() if isinstance(owner, Block) else None
        if isinstance(loop, te.ForOp) and loop.tile_step == 1 and loop.over.bounds == (0, extent):
            return loop
    raise Mismatch(
        f"a lane dimension of {what} is not subscripted by one loop over [0, {extent})",
        "do not split or move the loops of the last two dimensions",
    )


def _check_left_out(
    update: te.UpdateOp, number: int, outside: int, identity: int | None, statement: Expression
) -> None:
    """Prove that the accumulator stays as it is where the operand would yield ``outside``."""
    value = statement.replaced({Expression("operand", (), number): constant(outside)})
    value = _times_zero(value)
    if update.accumulate is not None and value == DESTINATION:
        return
    if identity is not None:
        fold = {"max": max, "min": min}.get(value.head)
        parts = set(value.operands)
        if fold is not None and parts == {DESTINATION, constant(outside)}:
            if fold(identity, outside) == identity:
                return
            raise Mismatch(
                f"operand {number} yields {outside} outside its shape, but the reduction starts"
                f" from {identity}, so the read cannot be left out"
            )
    raise Mismatch(
        f"operand {number} yields {outside} outside its shape, which would change the destination"
        f" to {value}, so the read cannot be left out"
    )


def _times_zero(value: Expression) -> Expression:
    """The value with products by zero simplified."""
    if value.head != "add":
        return value
    zero = constant(0)
    kept = [part for part in value.operands if not (part.head == "mul" and zero in part.operands)]
    return kept[0] if len(kept) == 1 else Expression("add", tuple(kept))
