"""Expressions: indices, scalars and tensors. They describe a computation without running it.

A tensor is int8 or int32. Arithmetic is that of the machine: operands are extended to int32,
results wrap around. ``compute`` takes a function of indices; its parameters name the axes:

    x, w = placeholder((1, 20, 9, 9), "x"), placeholder((24, 20, 3, 3), "w")
    ci, kh, kw = reduce_axes(ci=20, kh=3, kw=3)
    acc = compute((1, 24, 9, 9), lambda n, co, h, v: total(
        x.outside(0)[n, ci, h + kh - 1, v + kw - 1] * w[co, ci, kh, kw], ci, kh, kw))
    y = compute(acc.shape, lambda n, co, h, v: saturate(acc[n, co, h, v] >> 7))
"""

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from vtac.dialects.errors import CompileError, Problem

Array = np.ndarray[Any, np.dtype[Any]]

INT8, INT32 = np.dtype(np.int8), np.dtype(np.int32)

LOWEST, HIGHEST = -128, 127
"""The numbers of int8."""


class Index:
    """An affine expression of axes: ``2 * h + kh - 1``, or such an expression divided by a number.

    Division does not round: where ``(h - kh) / 2`` leaves a remainder, the read lies outside the
    tensor. Transposed convolutions use this.
    """

    def __init__(self, terms: Mapping["Axis", int], constant: int = 0, divisor: int = 1):
        self.terms, self.constant, self.divisor = dict(terms), constant, divisor

    @staticmethod
    def of(value: "IndexLike") -> "Index":
        """An index from an argument of a user."""
        if isinstance(value, Index):
            return value
        if isinstance(value, int | np.integer):
            return Index({}, int(value))
        raise _problem(f"{value!r} is no index", "Indices are sums of axes and integers.")

    def __add__(self, other: "IndexLike") -> "Index":
        other = Index.of(other)
        if self.divisor != 1 or other.divisor != 1:
            raise _problem("a quotient is added to an index", "Divide the whole index.")
        terms = dict(self.terms)
        for axis, coefficient in other.terms.items():
            terms[axis] = terms.get(axis, 0) + coefficient
        return Index(terms, self.constant + other.constant)

    __radd__ = __add__

    def __mul__(self, factor: int) -> "Index":
        if not isinstance(factor, int | np.integer) or self.divisor != 1:
            raise _problem(
                f"an index is multiplied by {factor!r}", "Indices are affine: 2 * h + kh."
            )
        terms = {axis: coefficient * int(factor) for axis, coefficient in self.terms.items()}
        return Index(terms, self.constant * int(factor))

    __rmul__ = __mul__

    def __neg__(self) -> "Index":
        return self * -1

    def __sub__(self, other: "IndexLike") -> "Index":
        return self + -Index.of(other)

    def __rsub__(self, other: "IndexLike") -> "Index":
        return -self + other

    def __truediv__(self, divisor: int) -> "Index":
        if not isinstance(divisor, int | np.integer) or divisor < 1 or self.divisor != 1:
            raise _problem(f"an index is divided by {divisor!r}", "Divide by a positive number.")
        return Index(self.terms, self.constant, int(divisor))


class Axis(Index):
    """An axis: its name, and its extent; it takes the values from 0 to extent - 1."""

    def __init__(self, name: str, extent: int):
        super().__init__({self: 1})
        self.name, self.extent = name, extent

    def __repr__(self) -> str:
        return f"{self.name} = {self.extent}"


IndexLike: TypeAlias = Index | int


def reduce_axes(**extents: int) -> Any:
    """Axes to reduce over: ``ci, kh = reduce_axes(ci=20, kh=3)``; a single axis, not in a tuple."""
    axes = tuple(Axis(name, _extent(name, extent)) for name, extent in extents.items())
    return axes[0] if len(axes) == 1 else axes


class Scalar:
    """A scalar expression over axes; int32, unless it is narrowed or an int8 element."""

    @property
    def parts(self) -> "tuple[Scalar, ...]":
        """The scalars of which it consists."""
        return ()

    @property
    def dtype(self) -> "np.dtype[Any]":
        """int8 or int32."""
        return INT32

    @staticmethod
    def of(value: "ScalarLike") -> "Scalar":
        """A scalar from an argument of a user."""
        if isinstance(value, Scalar):
            return value
        if isinstance(value, int | np.integer) and -(1 << 31) <= value < 1 << 31:
            return Number(int(value))
        raise _problem(f"{value!r} is no scalar", "Scalars are elements of tensors and integers.")

    def __add__(self, other: "ScalarLike") -> "Scalar":
        return Apply("add", (self, Scalar.of(other)))

    def __radd__(self, other: "ScalarLike") -> "Scalar":
        return Scalar.of(other) + self

    def __sub__(self, other: "ScalarLike") -> "Scalar":
        return self + -Scalar.of(other)  # The machine has no subtraction.

    def __rsub__(self, other: "ScalarLike") -> "Scalar":
        return -self + other

    def __neg__(self) -> "Scalar":
        return self * -1

    def __mul__(self, other: "ScalarLike") -> "Scalar":
        return Apply("mul", (self, Scalar.of(other)))

    def __rmul__(self, other: "ScalarLike") -> "Scalar":
        return self * other

    def __rshift__(self, amount: "ScalarLike") -> "Scalar":
        return Apply("shr", (self, _amount(amount)))

    def __lshift__(self, amount: int) -> "Scalar":
        return Apply("shl", (self, _amount(amount)))


ScalarLike: TypeAlias = Scalar | int


@dataclass(frozen=True, eq=False)
class Number(Scalar):
    """A constant in an expression."""

    value: int

    def __neg__(self) -> Scalar:
        return Number(-self.value)


@dataclass(frozen=True, eq=False)
class Apply(Scalar):
    """An operation: ``add``, ``mul``, ``max``, ``min``, ``shr``, ``shl``, or unary ``narrow``."""

    head: str
    operands: tuple[Scalar, ...]

    @property
    def parts(self) -> tuple[Scalar, ...]:
        """The operands."""
        return self.operands

    @property
    def dtype(self) -> "np.dtype[Any]":
        """int8 for ``narrow``, int32 for everything else."""
        return INT8 if self.head == "narrow" else INT32


@dataclass(frozen=True, eq=False)
class Element(Scalar):
    """An element of a tensor. outside: the value of reads outside its shape, or None."""

    tensor: "Tensor"
    indices: tuple[Index, ...]
    outside: int | None

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The type of the tensor's elements."""
        return self.tensor.dtype


@dataclass(frozen=True, eq=False)
class Reduction(Scalar):
    """A reduction by ``add``, ``max`` or ``min`` over axes. start: the initial accumulator."""

    head: str
    operand: Scalar
    axes: tuple[Axis, ...]
    start: int

    @property
    def parts(self) -> tuple[Scalar, ...]:
        """The scalar that is reduced."""
        return (self.operand,)


def total(value: ScalarLike, *axes: Axis) -> Scalar:
    """The sum of a scalar over axes."""
    return Reduction("add", Scalar.of(value), _distinct(axes), 0)


def largest(value: ScalarLike, *axes: Axis, least: int | None = None) -> Scalar:
    """The maximum over axes. least: a lower bound of all values; int8 has one by itself."""
    return _extreme("max", value, axes, least, LOWEST, "least")


def smallest(value: ScalarLike, *axes: Axis, most: int | None = None) -> Scalar:
    """The minimum over axes. most: an upper bound of all values; int8 has one by itself."""
    return _extreme("min", value, axes, most, HIGHEST, "most")


def maximum(a: ScalarLike, b: ScalarLike) -> Scalar:
    """The larger of two scalars."""
    return Apply("max", (Scalar.of(a), Scalar.of(b)))


def minimum(a: ScalarLike, b: ScalarLike) -> Scalar:
    """The smaller of two scalars."""
    return Apply("min", (Scalar.of(a), Scalar.of(b)))


def clip(value: ScalarLike, low: int, high: int) -> Scalar:
    """The number between ``low`` and ``high`` that is nearest to a scalar."""
    return minimum(maximum(value, low), high)


def narrow(value: ScalarLike) -> Scalar:
    """The low byte of a scalar, as int8."""
    return Apply("narrow", (Scalar.of(value),))


def saturate(value: ScalarLike) -> Scalar:
    """The int8 number that is nearest to a scalar."""
    return narrow(clip(value, LOWEST, HIGHEST))


_numbers = itertools.count()


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor: an input (`Placeholder`), a `Constant` or `Computed`.

    ``t[n, h + 1]`` is an element. ``t.outside(0)[...]`` may read outside the shape, which yields 0.
    """

    name: str
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    number: int = field(default_factory=lambda: next(_numbers), init=False)

    def __getitem__(self, indices: IndexLike | tuple[IndexLike, ...]) -> Element:
        return _element(self, indices, None)

    def outside(self, value: int) -> "PaddedTensor":
        """The tensor surrounded by ``value``: reads may lie outside its shape."""
        return PaddedTensor(self, value)


@dataclass(frozen=True)
class PaddedTensor:
    """A tensor with a value for reads outside its shape."""

    tensor: Tensor
    value: int

    def __getitem__(self, indices: IndexLike | tuple[IndexLike, ...]) -> Element:
        return _element(self.tensor, indices, self.value)


@dataclass(frozen=True, eq=False)
class Placeholder(Tensor):
    """An input."""


@dataclass(frozen=True, eq=False)
class Constant(Tensor):
    """A tensor whose elements are known when the program is built."""

    array: Array


@dataclass(frozen=True, eq=False)
class Computed(Tensor):
    """A tensor whose elements are an expression over its axes."""

    axes: tuple[Axis, ...]
    value: Scalar


def placeholder(shape: Sequence[int], name: str = "x", dtype: Any = np.int8) -> Placeholder:
    """An input of the given shape, int8 or int32."""
    shape = tuple(_extent(f"of dimension {d} of {name}", size) for d, size in enumerate(shape))
    return Placeholder(name, shape, _dtype(dtype))


def constant(array: Array, name: str = "c") -> Constant:
    """A constant tensor, int8 or int32; the compiler may store it in the layout of the machine."""
    array = np.array(array)
    return Constant(name, array.shape, _dtype(array.dtype), array)


def compute(
    shape: Sequence[int], element: Callable[..., ScalarLike], name: str | None = None
) -> Computed:
    """The tensor whose element at (i, j, ...) is ``element(i, j, ...)``.

    The parameters of ``element`` name the axes; ``*axes`` stands for any number of them. The tensor
    is int8 if the expression is a `narrow`, a `saturate` or an element of an int8 tensor, else
    int32. The expression may contain reductions.
    """
    names = _axis_names(element, len(shape))
    axes = tuple(Axis(n, _extent(n, size)) for n, size in zip(names, shape, strict=True))
    value = Scalar.of(element(*axes))
    return computed(axes, value, name or "compute")


def computed(axes: tuple[Axis, ...], value: Scalar, name: str) -> Computed:
    """The tensor of a scalar expression over axes.

    Parts of the expression that the machine computes as a whole become tensors of their own:
    reductions (of an element or a product), and products of int8 values, for the GEMM core.
    """
    if isinstance(value, Reduction):
        operand = value.operand
        if not isinstance(operand, Element) and not (value.head == "add" and is_product(operand)):
            every = (*axes, *value.axes)
            operand = computed(every, operand, f"{name}_terms")[every]
        value = Reduction(value.head, operand, value.axes, value.start)
    elif not is_product(value):
        value = _with_parts_apart(value, axes, name)
    result = Computed(name, tuple(axis.extent for axis in axes), value.dtype, axes, value)
    _check(result)
    return result


def is_product(value: Scalar) -> bool:
    """Whether it is a product of two int8 elements, or of one and an int8 constant."""
    if not isinstance(value, Apply) or value.head != "mul":
        return False
    small = [isinstance(v, Number) and LOWEST <= v.value <= HIGHEST for v in value.operands]
    int8 = [isinstance(v, Element) and v.dtype == INT8 for v in value.operands]
    return any(int8) and all(a or b for a, b in zip(small, int8, strict=True))


def _with_parts_apart(value: Scalar, axes: tuple[Axis, ...], name: str) -> Scalar:
    if isinstance(value, Reduction) or (isinstance(value, Apply) and is_product(value)):
        return computed(axes, value, f"{name}_{value.head}")[axes]
    if isinstance(value, Apply):
        operands = [_with_parts_apart(v, axes, name) for v in value.operands]
        return Apply(value.head, tuple(map(_loaded, operands)))
    return value


def _loaded(operand: Scalar) -> Scalar:
    """A number that is no immediate of the ALU, as the element of a constant tensor."""
    if not isinstance(operand, Number) or -(1 << 15) <= operand.value < 1 << 15:
        return operand
    return constant(np.array([operand.value], np.int32), "number")[0]


def _check(tensor: Computed) -> None:
    """Raise `CompileError` if an axis belongs neither to the tensor nor to its reduction."""
    known = set(tensor.axes)
    value = tensor.value
    if isinstance(value, Reduction):
        known |= set(value.axes)
        if set(value.axes) & set(tensor.axes):
            raise _problem(f"{tensor.name} is reduced over an axis of its own")
    for element in elements(value):
        for index in element.indices:
            for axis in set(index.terms) - known:
                raise _problem(
                    f"{tensor.name} uses axis {axis.name}, which is none of its own",
                    f"Reduce over it: total(..., {axis.name}).",
                )


def elements(value: Scalar) -> list[Element]:
    """The elements of tensors in a scalar expression, in order and without duplicates."""
    found: dict[Element, None] = {}
    stack = [value]
    while stack:
        scalar = stack.pop()
        if isinstance(scalar, Element):
            found[scalar] = None
        stack += reversed(scalar.parts)
    return list(found)


def _axis_names(element: Callable[..., ScalarLike], rank: int) -> list[str]:
    parameters = list(inspect.signature(element).parameters.values())
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return [f"i{d}" for d in range(rank)]
    if len(parameters) != rank:
        raise _problem(
            f"the element of a tensor of {rank} dimensions is a function of {len(parameters)} axes"
        )
    return [p.name.strip("_") or f"i{d}" for d, p in enumerate(parameters)]


def _element(
    tensor: Tensor, indices: IndexLike | tuple[IndexLike, ...], outside: int | None
) -> Element:
    given = indices if isinstance(indices, tuple) else (indices,)
    if len(given) != len(tensor.shape):
        raise _problem(
            f"{tensor.name} has {len(tensor.shape)} dimensions and is read at {len(given)} indices"
        )
    return Element(tensor, tuple(map(Index.of, given)), outside)


def _extreme(
    head: str, value: ScalarLike, axes: Sequence[Axis], start: int | None, of_int8: int, word: str
) -> Scalar:
    scalar = Scalar.of(value)
    if start is None:
        if scalar.dtype != INT8:
            raise _problem(
                f"the {head}imum of int32 values needs a number to start from",
                f"Give {word}=..., which must fit 16 bits.",
            )
        start = of_int8
    if not -(1 << 15) <= start < 1 << 15:
        raise _problem(f"{word}={start} does not fit 16 bits", "That is what an immediate holds.")
    return Reduction(head, scalar, _distinct(axes), start)


def _distinct(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    found = tuple(axes)
    if not found or len(set(found)) != len(found):
        raise _problem("a reduction needs axes, each once")
    return found


def _amount(amount: ScalarLike) -> Scalar:
    if isinstance(amount, int | np.integer) and not 0 <= amount <= 31:
        raise _problem(f"a shift by {amount}", "Shift by 0 to 31.")
    return Scalar.of(amount)


def _extent(what: str, extent: int) -> int:
    if not isinstance(extent, int | np.integer) or extent < 1:
        raise _problem(f"the extent {what} is {extent!r}", "Extents are positive integers.")
    return int(extent)


def _dtype(dtype: Any) -> "np.dtype[Any]":
    found: np.dtype[Any] = np.dtype(dtype)
    if found not in (INT8, INT32):
        raise _problem(f"a tensor of {found}", "Tensors are int8 or int32.")
    return found


def _problem(what: str, hint: str = "") -> CompileError:
    return CompileError(Problem("tensor expression", what, hint))
