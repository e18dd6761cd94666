"""Scales of int8 values, tied so that every rescaling is a shift.

A tensor's smallest scale is ``max(|lo| / 128, |hi| / 127)`` of its range. Values that meet in one
accumulator must differ by powers of two only: they form a class that shares one factor, and each
member takes the smallest power of two of it that covers its range. The factor is chosen among the
members' own, for the smallest loss of resolution over the class. A pooling divides its sums by an
area, whose odd part stays in the scale, exactly, as a fraction.

A value that the network rounds itself has the given scale. A class holds at most one such factor;
where values with different ones meet, weights or a multiplier carry the change of scale.

A value alone in its class has exactly the scale of its range, so that a range of [-128, 127] gives
scale 1 and integer networks stay exact. Values that are never negative have the zero point -128
where their readers allow it (``zero_points``); [0, hi] then needs the scale hi / 255.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from math import frexp, isinf

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects.graph import Given
from vtac.passes.graph.float_groups.contractions import Contraction, given_constant
from vtac.passes.graph.float_groups.forms import Form
from vtac.passes.graph.float_groups.groups import Group, PassThrough, Sum
from vtac.passes.graph.float_groups.network import Network
from vtac.passes.graph.quantize.fine_operands import find_fine
from vtac.passes.graph.quantize.zero_points import LOWEST, find_shifted
from vtac.passes.graph.reasons import Reason, ReasonKind

SMALLEST_SCALE = 2.0**-100
"""No scale is smaller: float32 must hold it, and its products with weight scales."""

_TOLERANCE = 2.0**-20
"""Relative amount by which a scale may be smaller than its range requires."""


_FINEST_ADDEND = 2.0**-10
"""Smallest ratio of an addend's step to that of the sum, if only this sum reads the addend."""


class Obstacle(Exception):  # noqa: N818 (it is found and dealt with, not reported)
    """A group has no integer form; the planner leaves it, or part of it, float."""

    def __init__(self, group: Group, reason: str):
        super().__init__(reason)
        self.group = group
        self.reason = reason if isinstance(reason, Reason) else Reason(reason, ReasonKind.NUMBERS)


@dataclass(frozen=True)
class Scale:
    """``factor * odd * 2^exponent``: the real value of one step, and the integer that means 0.

    factor: of the class, in [1, 2), a float32. odd: a fraction of odd numbers. low_bits: bits of
    the integers below those of int8, which a second plane holds; 0 where int8 is all
    (`fine_operands`).
    """

    factor: float
    odd: Fraction
    exponent: int
    zero_point: int = 0
    low_bits: int = 0

    @property
    def value(self) -> float:
        """As a float64; exact unless ``odd`` is no power of two."""
        return float(np.ldexp(self.factor * float(self.odd), self.exponent))

    @staticmethod
    def of(given: Given) -> "Scale":
        """A scale that the network gives."""
        fraction, exponent = frexp(given.scale)
        return Scale(2 * fraction, Fraction(1), exponent - 1, given.zero_point)

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest integer that is stored."""
        return -128 << self.low_bits, (128 << self.low_bits) - 1

    def is_tied(self, other: "Scale") -> bool:
        """Whether two scales differ by a power of two only."""
        return (self.factor, self.odd) == (other.factor, other.odd)

    def divided(self, area: int) -> "Scale":
        """The scale that makes sums over ``area`` elements of this scale their means.

        A stored sum is read as the mean: as itself, divided by ``area``.
        """
        odd, exponent = odd_part(area)
        return Scale(self.factor, self.odd / odd, self.exponent - exponent)

    def stored(self, real: float, otherwise: int) -> int:
        """The integer nearest to a real number, within int8; ``otherwise`` for an infinite one."""
        if isinf(real):
            return otherwise
        return int(np.clip(np.rint(real / self.value) + self.zero_point, -128, 127))

    def bounds(self, lo: float, hi: float) -> tuple[int, int]:
        """Real bounds as integers."""
        return self.stored(lo, -128), self.stored(hi, 127)

    def doublings_from(self, other: "Scale") -> int:
        """k where self = other * 2^k; both must belong to one class."""
        assert self.is_tied(other), "scales of two classes"
        return self.exponent - other.exponent


def odd_part(number: int) -> tuple[int, int]:
    """``(odd, k)`` where number = odd * 2^k."""
    exponent = (number & -number).bit_length() - 1
    return number >> exponent, exponent


def choose_scales(network: Network, groups: Sequence[Group]) -> dict[SSAValue, Scale]:
    """A scale for each value that an integer group reads or makes as int8.

    Raises `Obstacle` where a group demands contradicting ratios between scales.
    """
    return _Choice(network, groups).scales()


class _Choice:
    """Classes of tied values (union-find; each member knows its odd factor to its parent)."""

    def __init__(self, network: Network, groups: Sequence[Group]):
        self.network = network
        self.groups = groups
        self.same: dict[SSAValue, SSAValue] = {}
        self.parent: dict[SSAValue, tuple[SSAValue, Fraction]] = {}
        self.needs: dict[SSAValue, float] = {}
        self.shifted: set[SSAValue] = set()
        self.given: dict[SSAValue, Given] = {}
        self.fixed: dict[SSAValue, float] = {}
        self._read_alone: dict[tuple[Sum, SSAValue], bool] = {}
        self.fine = find_fine(network, groups)
        self.products: set[SSAValue] = set()
        """Results of products of activations: scales follow from those of the operands."""

    def scales(self) -> dict[SSAValue, Scale]:
        self.products = {
            group.root.results[0] for group in self.groups if isinstance(group, Contraction)
        }
        for group in self.groups:
            result = group.root.results[0]
            if isinstance(group, PassThrough) or group.keeps_scale:
                self.same[result] = self._variable(group.inputs[0])
        self._take_given()
        self.shifted = find_shifted(self.network, self.groups, self._variable)
        for group in self.groups:
            self._read(group)
        forms = [
            (group, form)
            for group in self.groups
            if isinstance(group, Sum) and not group.leaves_int32 and group.is_homogeneous
            for form in group.forms
        ]
        for group, form in forms:
            if form.plain:
                self._tie(group, form)
        for group, form in forms:
            if not form.plain and form.is_exact_when_tied:
                with suppress(Obstacle):  # weights carry the change of scale
                    self._tie(group, form)
        factors = self._factors()
        chosen: dict[SSAValue, Scale] = {}
        for group in self.groups:
            for value in group.inputs:
                self._assign(value, chosen, factors, self.needs[self._variable(value)])
            if isinstance(group, Sum) and not group.leaves_int32 and not group.keeps_scale:
                result = group.root.results[0]
                least = max(self.needs[result], _least_scale(self.network, group, chosen))
                self._assign(result, chosen, factors, least)
            elif isinstance(group, Contraction):
                if not group.leaves_int32:
                    self._assign_product(group, chosen)
            elif isinstance(group, PassThrough) or group.keeps_scale:
                chosen[group.root.results[0]] = chosen[group.inputs[0]]
        return chosen

    def _take_given(self) -> None:
        """Record the scales that the network itself gives, and the factors of their classes."""
        for group in self.groups:
            for value in (*group.inputs, group.root.results[0]):
                given = self.network.given(value)
                if given is None and isinstance(group, Contraction):
                    given = given_constant(value, self.network)
                if given is not None:
                    self.given[self._variable(value)] = given
        self.fixed = {variable: Scale.of(given).factor for variable, given in self.given.items()}

    def _variable(self, value: SSAValue) -> SSAValue:
        return self.same.get(value, value)

    def _read(self, group: Group) -> None:
        """Record the scale that the range of each value of a group requires."""
        for value in group.inputs:
            self._need(self._variable(value), value)
        for form in group.forms if isinstance(group, Sum) else ():
            self._need_range(self._variable(form.operand), form.outside, form.outside)
        result = group.root.results[0]
        if isinstance(group, PassThrough) or group.keeps_scale:
            self._need(self.same[result], result)
        elif not group.leaves_int32:
            self._need(result, result)

    def _need(self, variable: SSAValue, value: SSAValue) -> None:
        self._need_range(variable, *(self.network.range_of(value) or (0.0, 0.0)))

    def _need_range(self, variable: SSAValue, lo: float, hi: float) -> None:
        if variable in self.given:
            need = self.given[variable].scale
        elif variable in self.shifted:
            need = hi / 255
        elif variable in self.fine:
            need = hi / ((128 << self.fine[variable]) - 1)
        else:
            need = max(abs(lo) / 128 if lo < 0 else 0.0, hi / 127)
        self.needs[variable] = max(self.needs.get(variable, 0.0), need)

    def _tie(self, group: Sum, form: Form) -> None:
        """Let the scales of an operand and of the result differ by a power of two only."""
        result, operand = self._variable(group.root.results[0]), self._variable(form.operand)
        is_free = form.divisor == 1 and operand not in self.given
        largest = float(np.abs(form.factor).max(initial=0.0))  # 0: the sum does without the operand
        if is_free and largest and self._is_read_here(group, form.operand):
            # It has no other reader, so steps finer than the result's (in a sum, much finer) would
            # be lost.
            finest = self.needs[result] / largest
            finest *= _FINEST_ADDEND if form.plain else 1
            self.needs[operand] = max(self.needs[operand], finest)
        self._union(group, result, operand, Fraction(1, odd_part(form.divisor)[0]))

    def _is_read_here(self, group: Sum, value: SSAValue) -> bool:
        """Whether a group alone reads a value. A sum may have the same addend many times."""
        key = group, value
        if key not in self._read_alone:
            users = (use.operation for use in value.uses)
            self._read_alone[key] = all(user in group.covered for user in users)
        return self._read_alone[key]

    def _root(self, variable: SSAValue) -> tuple[SSAValue, Fraction]:
        """The class of a variable, and its odd factor relative to the class."""
        path = []
        while variable in self.parent:
            path.append(variable)
            variable = self.parent[variable][0]
        odd = Fraction(1)
        for member in reversed(path):  # each now points to the root
            odd *= self.parent[member][1]
            self.parent[member] = variable, odd
        return variable, odd

    def _union(self, group: Sum, a: SSAValue, b: SSAValue, odd: Fraction) -> None:
        """Tie a to ``odd`` times b, up to a power of two; not where the factors of both are given.

        The root of a class whose factor is given is the value that gives it.
        """
        if not self.products.isdisjoint((a, b)):
            return  # weights carry the change of scale
        (root_a, odd_a), (root_b, odd_b) = self._root(a), self._root(b)
        if root_a is not root_b:
            if root_a not in self.fixed:
                self.parent[root_a] = (root_b, odd * odd_b / odd_a)
            elif root_b not in self.fixed:
                self.parent[root_b] = (root_a, odd_a / (odd * odd_b))
        elif root_a in self.fixed:
            return
        elif odd_a != odd * odd_b:
            reason = "the scales of its addends cannot differ by powers of two only"
            raise Obstacle(group, reason)

    def _factors(self) -> dict[SSAValue, float]:
        """The factor of each class, in [1, 2): that of the member which costs least resolution."""
        classes: dict[SSAValue, list[float]] = {}
        for variable, need in self.needs.items():
            root, odd = self._root(variable)
            classes.setdefault(root, []).append(need / float(odd))
        for variable in self.needs:
            root, odd = self._root(variable)
            if self.needs[variable] < SMALLEST_SCALE:
                # A value that is always nearly 0 follows the others, or has scale 1.
                others = [need for need in classes[root] if need >= SMALLEST_SCALE]
                self.needs[variable] = min(others, default=1.0) * float(odd)
        best = {root: _best_factor(needs) for root, needs in classes.items()}
        return best | self.fixed

    def _assign_product(self, group: Contraction, chosen: dict[SSAValue, Scale]) -> None:
        """The scale of the accumulators, times the power of two that the range needs."""
        result = group.root.results[0]
        if result in self.given:
            chosen[result] = Scale.of(self.given[result])
            return
        a, b = (chosen[value].value for value in group.inputs)
        step = a * b * group.factor
        doublings = max(0, ceil_log2(max(self.needs[result], step) / step))
        zero_point = LOWEST if result in self.shifted else 0
        chosen[result] = Scale.of(Given(float(np.ldexp(step, doublings)), zero_point))

    def _assign(
        self,
        value: SSAValue,
        chosen: dict[SSAValue, Scale],
        factors: dict[SSAValue, float],
        need: float,
    ) -> None:
        if value in chosen:
            return
        if self._variable(value) in self.given:
            chosen[value] = Scale.of(self.given[self._variable(value)])
            return
        root, odd = self._root(self._variable(value))
        factor = factors[root]
        zero_point = LOWEST if self._variable(value) in self.shifted else 0
        exponent = ceil_log2(need / (factor * float(odd)))
        low_bits = self.fine.get(value, 0)
        chosen[value] = Scale(factor, odd, exponent, zero_point, low_bits)


def _best_factor(needs: Sequence[float]) -> float:
    """The factor in [1, 2), out of those of the needs, for which the scales exceed them least.

    The loss of a factor is the sum of ``ceil_log2(need / factor) - log2(need / factor)``: an octave
    for each need of a larger factor, and what the logarithms of the factors differ by.
    """
    needs = [need for need in needs if need >= SMALLEST_SCALE] or [1.0]
    own = np.sort([2 * frexp(need)[0] for need in needs])
    candidates = np.array([float(np.float32(2 * frexp(need)[0])) for need in needs])
    met = own * (1 - _TOLERANCE)
    larger = len(own) - np.searchsorted(met, candidates, "right")
    smaller = np.searchsorted(met, candidates / 2, "right")
    losses = larger - smaller + len(own) * np.log2(candidates) - np.log2(own).sum()
    # Losses that differ by rounding only count as equal, so that the first candidate wins.
    return float(candidates[np.round(losses, 9).argmin()])


def ceil_log2(ratio: float) -> int:
    """The smallest k with ratio <= 2^k, forgiving the tolerance above."""
    fraction, exponent = frexp(ratio * (1 - _TOLERANCE))
    return exponent - 1 if fraction == 0.5 else exponent


def _least_scale(network: Network, group: Sum, chosen: dict[SSAValue, Scale]) -> float:
    """The scale below which a core would have to shift to the left."""
    least = 0.0
    for form in group.forms if group.is_homogeneous else ():
        if form.is_pooling:
            least = max(least, chosen[form.operand].value / form.divisor)
        elif not form.plain:
            weights = network.weights(form)
            largest = max(float(weights.max()), -float(weights.min()))
            least = max(least, chosen[form.operand].value * largest / 127)
    return least
