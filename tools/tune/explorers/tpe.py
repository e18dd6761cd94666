"""``tpe``: Optuna's tree-structured Parzen estimator (Bergstra et al., 2011), by ask and tell.

Optuna's storage is not used. Points that do not fit are told as failures at once.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from vtac.dialects.te import KnobKind, Knobs, Point, Value
from vtac.tools.tune.explorers.base import BaseExplorer
from vtac.tools.tune.explorers.extras import library
from vtac.tools.tune.protocol import Options, Screen, Trial

TRIES = 8
"""Suggestions that the sampler is asked for each point."""


class Tpe(BaseExplorer):
    """Optuna's TPE over the places of ordered values, choices, and the ranks of permutations."""

    name: ClassVar[str] = "tpe"

    def __init__(self, knobs: Knobs, options: Options, screen: Screen) -> None:
        super().__init__(knobs, options, screen)
        self._optuna = optuna = library("optuna", self.name)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=options.seed, constant_liar=True)
        self._study = optuna.create_study(sampler=sampler)
        self._open: dict[object, Any] = {}

    def propose(self, count: int) -> Sequence[Point]:
        """What the sampler suggests, as far as it fits and is new."""
        found: list[Point] = []
        tries = 0
        while len(found) < count and tries < TRIES * count:
            tries += 1
            trial = self._study.ask()
            point = self.knobs.with_values({}, {n: self._value(trial, n) for n in self.knobs.knobs})
            if self.accepts(point):
                self._open[self.screen.key(point)] = trial
                found.append(point)
            else:
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        return [*found, *self.at_random(count - len(found))]

    def tell(self, trials: Sequence[Trial]) -> None:
        """Tell the study the logarithms of the cycles."""
        super().tell(trials)
        for trial in trials:
            asked = self._open.pop(self.screen.key(trial.point), None)
            if asked is None:
                continue
            if trial.cycles is None:
                self._study.tell(asked, state=self._optuna.trial.TrialState.FAIL)
            else:
                self._study.tell(asked, math.log(trial.cycles))

    def _value(self, trial: Any, name: str) -> Value:
        knob = self.knobs.knobs[name]
        if knob.kind is KnobKind.PERMUTATION:
            assert isinstance(knob.default, tuple)
            ranks = {
                str(entry): trial.suggest_float(f"{name}/{entry}", 0, 1) for entry in knob.default
            }
            return tuple(sorted(ranks, key=ranks.__getitem__))
        places = range(len(knob.values))
        if knob.kind is KnobKind.ORDERED:
            place: int = trial.suggest_int(name, 0, places[-1])
        else:
            place = trial.suggest_categorical(name, list(places))
        return knob.values[place]
