"""``discrete-1+1``: Nevergrad's portfolio of discrete (1+1) evolution strategies, by ask and tell.

Points that do not fit are told at once, as worse than any other.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from vtac.dialects.te import KnobKind, Knobs, Point, Value
from vtac.tools.tune.explorers.base import BaseExplorer
from vtac.tools.tune.explorers.extras import library
from vtac.tools.tune.protocol import Options, Screen, Trial

TRIES = 4
"""Candidates requested from the optimiser per point wanted: it is slow and repeats itself."""

REFUSED = 100.0
"""The loss of a point that does not fit or was refused; the others are logarithms of cycles."""


class DiscreteOnePlusOne(BaseExplorer):
    """Nevergrad's ``PortfolioDiscreteOnePlusOne``: knobs are choices, ordered ones transitions."""

    name: ClassVar[str] = "discrete-1+1"

    def __init__(self, knobs: Knobs, options: Options, screen: Screen) -> None:
        super().__init__(knobs, options, screen)
        nevergrad = library("nevergrad", self.name)
        parameters = nevergrad.p.Dict(
            **{name: self._parameter(nevergrad, name) for name in self._names()}
        )
        parameters.random_state.seed(options.seed)
        self._optimiser = nevergrad.optimizers.registry["PortfolioDiscreteOnePlusOne"](
            parametrization=parameters, budget=10_000
        )
        self._open: dict[object, Any] = {}

    def propose(self, count: int) -> Sequence[Point]:
        """The optimiser's suggestions that fit and are new, filled up with random points."""
        found: list[Point] = []
        tries = 0
        while len(found) < count and tries < TRIES * count:
            tries += 1
            candidate = self._optimiser.ask()
            point = self._point(candidate.value)
            if self.accepts(point):
                self._open[self.screen.key(point)] = candidate
                found.append(point)
            elif not self.is_known(point):
                self._optimiser.tell(candidate, REFUSED)
        return [*found, *self.at_random(count - len(found))]

    def tell(self, trials: Sequence[Trial]) -> None:
        """Tell the optimiser the logarithms of the cycles."""
        super().tell(trials)
        for trial in trials:
            candidate = self._open.pop(self.screen.key(trial.point), None)
            if candidate is not None:
                loss = REFUSED if trial.cycles is None else math.log(trial.cycles)
                self._optimiser.tell(candidate, loss)

    def _names(self) -> list[str]:
        """The knobs; a permutation has one parameter for each of its places but the last."""
        names = []
        for name, knob in self.knobs.knobs.items():
            if knob.kind is KnobKind.PERMUTATION:
                assert isinstance(knob.default, tuple)
                names += [f"{name}/{place}" for place in range(len(knob.default) - 1)]
            else:
                names.append(name)
        return names

    def _parameter(self, nevergrad: Any, name: str) -> Any:
        knob = self.knobs.knobs.get(name)
        if knob is None:  # a place of a permutation: which of the entries that are left comes next
            knob_name, _, place = name.rpartition("/")
            default = self.knobs.knobs[knob_name].default
            assert isinstance(default, tuple)
            return nevergrad.p.Choice(list(range(len(default) - int(place))))
        places = list(range(len(knob.values)))
        if knob.kind is KnobKind.ORDERED:
            return nevergrad.p.TransitionChoice(places)
        return nevergrad.p.Choice(places)

    def _point(self, chosen: dict[str, int]) -> Point:
        values: dict[str, Value] = {}
        for name, knob in self.knobs.knobs.items():
            if knob.kind is KnobKind.PERMUTATION:
                assert isinstance(knob.default, tuple)
                left = [str(entry) for entry in knob.default]
                order = [left.pop(chosen[f"{name}/{place}"]) for place in range(len(left) - 1)]
                values[name] = (*order, *left)
            else:
                values[name] = knob.values[chosen[name]]
        return self.knobs.with_values({}, values)
