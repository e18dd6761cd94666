"""An exploration: machines of a space are evaluated, and those that no other beats are found."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.explore_machines.design import Design
from vtac.tools.explore_machines.evaluation import Evaluator
from vtac.tools.explore_machines.front import FieldOnFront, fields_on_front, front_of
from vtac.tools.explore_machines.outcome import Outcome, comparable
from vtac.tools.explore_machines.processes import Evaluate
from vtac.tools.explore_machines.space import Candidate, FieldValue, MachineSpace
from vtac.tools.explore_machines.store import StudyStore


@dataclass(frozen=True)
class ExploredMachine:
    """A machine of an exploration. values: of the fields that vary."""

    candidate: Candidate
    values: dict[str, FieldValue]
    outcome: Outcome

    @property
    def cycles(self) -> int:
        """The cycles of the network. Only for machines that have a program."""
        assert self.outcome.cycles is not None
        return self.outcome.cycles


@dataclass(frozen=True)
class Exploration:
    """What came of an exploration.

    rows: the machines in the order in which they were asked for. base: what became of the machine
    that gives the fields that do not vary. refused: how many points are no machines, by reason.
    is_whole: whether the rows are all machines of the space.
    """

    network: str
    space: MachineSpace
    base: Outcome
    rows: Sequence[ExploredMachine]
    refused: dict[str, int] = field(default_factory=dict)
    is_whole: bool = False

    @cached_property
    def compared(self) -> list[ExploredMachine]:
        """The machines whose cycles can be compared (`comparable`)."""
        return [self.rows[place] for place in comparable([row.outcome for row in self.rows])]

    @cached_property
    def front(self) -> list[ExploredMachine]:
        """The machines that no other beats in cycles and cost, by rising cost."""
        figures = [(row.cycles, row.candidate.cost) for row in self.compared]
        return [self.compared[place] for place in front_of(figures)]

    @property
    def failed(self) -> list[ExploredMachine]:
        """The machines for which there is no program."""
        return [row for row in self.rows if row.outcome.cycles is None]

    @property
    def incomplete(self) -> list[ExploredMachine]:
        """The machines that leave layers to the host which other machines compute."""
        kept = set(map(id, self.compared))
        return [r for r in self.rows if r.outcome.cycles is not None and id(r) not in kept]

    @cached_property
    def fields(self) -> list[FieldOnFront]:
        """What each field does on the front, over all machines that are compared."""
        names = self.space.names
        tried = [[row.values[name] for name in names] for row in self.compared]
        places = {id(row): place for place, row in enumerate(self.compared)}
        return fields_on_front(names, tried, [places[id(row)] for row in self.front])


Progress = Callable[[int, Candidate, Outcome, bool], None]
"""Called for each machine with the number of those done, the machine, what became of it, and
whether that was known before."""


@dataclass(frozen=True)
class Base:
    """A space with what became of the machine from which it starts."""

    space: MachineSpace
    outcome: Outcome


def base_of(space: MachineSpace, store: StudyStore, evaluator: Evaluator) -> Base:
    """Evaluate the machine from which a space starts, in this process.

    Raises `CompileError` if the network cannot be compiled for any machine.
    """
    outcome = store.outcome(space.base)
    if outcome is None:
        outcome = evaluator(space.base)
        store.keep(space.base, outcome)
    return Base(space, outcome)


def explore(
    network: str,
    base: Base,
    design: Design,
    store: StudyStore,
    evaluate: Evaluate,
    progress: Progress = lambda done, candidate, outcome, known: None,
) -> Exploration:
    """Evaluate the machines that a design asks for.

    network: its name. evaluate: evaluates machines that the store does not know. Raises
    `CompileError` if there are no machines, or none with a program.
    """
    run = _Run(store, evaluate, progress)
    rows: list[ExploredMachine] = []
    while candidates := design.ask():
        told = list(zip(candidates, run.outcomes(candidates), strict=True))
        design.tell(told)
        rows += [
            ExploredMachine(each, base.space.values(each.point), outcome) for each, outcome in told
        ]
    _verify(rows, design)
    return Exploration(network, base.space, base.outcome, rows, design.refused, design.is_grid)


class _Run:
    """Finds out what becomes of machines: by the store, else by evaluation."""

    def __init__(self, store: StudyStore, evaluate: Evaluate, progress: Progress) -> None:
        self._store, self._evaluate, self._progress = store, evaluate, progress
        self._done = 0

    def outcomes(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """What becomes of machines, in their order. Results are kept as soon as they are there."""
        found: dict[int, Outcome] = {}
        for place, candidate in enumerate(candidates):
            if (known := self._store.outcome(candidate.machine)) is not None:
                found[place] = known
                self._tell(candidate, known, True)
        unknown = [place for place in range(len(candidates)) if place not in found]

        def finished(number: int, outcome: Outcome) -> None:
            candidate = candidates[unknown[number]]
            self._store.keep(candidate.machine, outcome)
            found[unknown[number]] = outcome
            self._tell(candidate, outcome, False)

        if unknown:
            self._evaluate([candidates[place].machine for place in unknown], finished)
        return [found[place] for place in range(len(candidates))]

    def _tell(self, candidate: Candidate, outcome: Outcome, known: bool) -> None:
        self._done += 1
        self._progress(self._done, candidate, outcome, known)


def _verify(rows: Sequence[ExploredMachine], design: Design) -> None:
    """Raise `CompileError` with the reasons if there is nothing to show."""
    if not rows:
        what = "has no machine"
        hint = most_frequent(design.refused)
        raise CompileError(Problem("the space", what, hint and f"Most often: {hint}."))
    if all(row.outcome.cycles is None for row in rows):
        why = Counter(row.outcome.why for row in rows)
        what = f"there is a program for none of {len(rows)} machines"
        raise CompileError(Problem("", what, f"Most often: {most_frequent(why)}."))


def most_frequent(reasons: Mapping[str, int]) -> str:
    """The most frequent reason with its count; empty if there is none."""
    if not reasons:
        return ""
    why = max(reasons, key=lambda reason: reasons[reason])
    return f"{why} ({reasons[why]:,} times)"
