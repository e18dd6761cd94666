"""Nests of loops in C over tensors with strides.

Axes of one element are left out, and neighbouring axes become one loop where every operand visits
them in one sweep, so that most nodes become one or two loops.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class PositionTable:
    """Positions along an axis: for index i of ``axis``, element ``stride * name[i]`` further."""

    name: str
    axis: int
    stride: int


@dataclass(frozen=True)
class Visit:
    """How an operand is visited: element ``offset + sum(strides[k] * i[k])`` of a pointer.

    strides: one for each axis of the nest, in elements; 0 where the operand does not move. table:
    adds the position that a table has for one of the axes.
    """

    name: str
    strides: tuple[int, ...]
    offset: int = 0
    table: PositionTable | None = None


Body = Callable[[Sequence[str]], Sequence[str]]
"""The lines inside all loops. They get an expression for each operand's element: ``x[4 * i0]``."""


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor in C order, in elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def broadcast(shape: Sequence[int], result: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor that broadcasts to a shape as in NumPy."""
    strides = (0,) * (len(result) - len(shape)) + row_major(shape)
    extents = (1,) * (len(result) - len(shape)) + tuple(shape)
    return tuple(
        0 if extent == 1 else stride for extent, stride in zip(extents, strides, strict=True)
    )


def nest(
    extents: Sequence[int], accesses: Sequence[Visit], body: Body, index: str = "i"
) -> list[str]:
    """The loops over all points of a box. index: the letter of the loops' variables.

    Nothing comes out where an extent is 0.
    """
    if 0 in extents:
        return []
    extents, accesses = simplified(extents, accesses)
    variables = [f"{index}{number}" for number in range(len(extents))]
    lines = [
        f"{'    ' * depth}for (size_t {variable} = 0; {variable} < {extent}; {variable}++)"
        for depth, (variable, extent) in enumerate(zip(variables, extents, strict=True))
    ]
    inner = list(body([f"{a.name}[{_place(a, variables)}]" for a in accesses]))
    if len(inner) == 1 and inner[0].endswith(";"):
        return [*lines, "    " * len(extents) + inner[0]]
    if not lines:
        return ["{", *("    " + line for line in inner), "}"]
    indent = "    " * (len(extents) - 1)
    lines[-1] += " {"
    return [*lines, *(f"{indent}    {line}" for line in inner), indent + "}"]


def simplified(extents: Sequence[int], accesses: Sequence[Visit]) -> tuple[list[int], list[Visit]]:
    """The same visits in the same order with as few axes as possible."""
    groups: list[list[int]] = []
    for axis, extent in enumerate(extents):
        if extent == 1 and all(a.table is None or a.table.axis != axis for a in accesses):
            continue
        if groups and _sweeps(groups[-1][-1], axis, extent, accesses):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    joined = [
        Visit(
            a.name,
            tuple(a.strides[group[-1]] for group in groups),
            a.offset,
            None if a.table is None else _moved(a.table, groups),
        )
        for a in accesses
    ]
    return [prod(extents[axis] for axis in group) for group in groups], joined


def _sweeps(outer: int, inner: int, extent: int, accesses: Sequence[Visit]) -> bool:
    """Whether each operand visits two neighbouring axes as it would visit one."""
    return all(
        a.strides[outer] == a.strides[inner] * extent
        and (a.table is None or a.table.axis not in (outer, inner))
        for a in accesses
    )


def _moved(table: PositionTable, groups: Sequence[Sequence[int]]) -> PositionTable:
    (axis,) = (number for number, group in enumerate(groups) if table.axis in group)
    return PositionTable(table.name, axis, table.stride)


def _place(access: Visit, variables: Sequence[str]) -> str:
    """The index of an element as an expression."""
    terms = [str(access.offset)] if access.offset else []
    terms += [
        _times(stride, variable)
        for stride, variable in zip(access.strides, variables, strict=True)
        if stride
    ]
    if access.table is not None:
        position = f"(size_t){access.table.name}[{variables[access.table.axis]}]"
        terms.append(_times(access.table.stride, position))
    return (" + ".join(terms) or "0").replace("+ -", "- ")


def _times(factor: int, what: str) -> str:
    return what if factor == 1 else f"{factor} * {what}"


def copy(extents: Sequence[int], target: Visit, source: Visit, item: int) -> list[str]:
    """Copies a box element by element, or piece by piece where pieces lie densely in both.

    item: the bytes of an element.
    """
    extents, (target, source) = simplified(extents, [target, source])
    dense = extents and target.strides[-1] == 1 and source.strides[-1] == 1
    pinned = dense and any(
        a.table is not None and a.table.axis == len(extents) - 1 for a in (target, source)
    )
    if not dense or pinned or 0 in extents:
        return nest(extents, [target, source], lambda at: [f"{at[0]} = {at[1]};"])
    size = extents[-1] * item
    rows = [Visit(a.name, a.strides[:-1], a.offset, a.table) for a in (target, source)]
    return nest(extents[:-1], rows, lambda at: [f"memcpy(&{at[0]}, &{at[1]}, {size});"])
