"""``vtac.tune``: searches the schedules of kernels, records the best, and says what was gained."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version

from vtac.dialects.arguments import (
    FLAG,
    FUNCTION,
    NONE,
    PATH,
    SAMPLES,
    TEXT,
    Kind,
    instance,
    number,
    several,
    takes,
    whole,
)
from vtac.dialects.target import Target
from vtac.runtime.samples import Source
from vtac.tools.driver.options import OPTIONS, CompileOptions
from vtac.tools.tune.database import Database, verify_writable
from vtac.tools.tune.journal import DatabaseJournal, key_of
from vtac.tools.tune.measure import Measurer
from vtac.tools.tune.methods import DEFAULT_METHOD, method_named
from vtac.tools.tune.networks import TUNABLE, Tunable, is_model, kernels_of, tasks
from vtac.tools.tune.pool import measurer as local_measurer
from vtac.tools.tune.protocol import Journal, NoJournal, Options, Progress, Result, Stops, Task
from vtac.tools.tune.records import Record
from vtac.tools.tune.selection import TunedModel, useful_records, write_lines
from vtac.tools.tune.tuner import tune as search


@dataclass(frozen=True)
class TunedKernel:
    """A kernel after a search.

    layers: what calls it, ``calls`` times. default, cycles: of one call with the default schedule
    and with the best one. bound: a lower bound of the default program. trials: clocked or failed
    points. proved: whether the best program was executed and compared with the reference. stopped:
    why the search over it ended early, if it did. problem: why its best point is not recorded.
    """

    name: str
    layers: tuple[str, ...]
    summary: str
    calls: int
    default: int
    cycles: int
    bound: int
    trials: int
    replayed: int
    proved: bool
    stopped: str
    problem: str

    @property
    def gain(self) -> float:
        """How many times fewer cycles it takes now."""
        return self.default / self.cycles


@dataclass(frozen=True)
class Tuned:
    """What a search found. database: the file that holds it.

    network: cycles of the whole model with default schedules, and with the records; None if
    no model was tuned, or the search was interrupted. Kernels overlap in a network, so that its
    gain is not the sum of theirs.
    """

    kernels: tuple[TunedKernel, ...]
    database: str | None
    interrupted: bool = False
    network: tuple[int, int] | None = None

    @property
    def default(self) -> int:
        """Cycles of all calls of all kernels with the default schedules, added up."""
        return sum(kernel.calls * kernel.default for kernel in self.kernels)

    @property
    def cycles(self) -> int:
        """The same with the best schedules."""
        return sum(kernel.calls * kernel.cycles for kernel in self.kernels)

    @property
    def timed(self) -> bool:
        """Whether any point could be timed."""
        return any(kernel.trials or kernel.replayed for kernel in self.kernels)


def _is_measurer(value: object) -> bool:
    return not isinstance(value, type) and hasattr(value, "submit")


def _is_progress(value: object) -> bool:
    """Whether a value has the methods of `Progress`."""
    return all(callable(getattr(value, name, None)) for name in ("told", "finished"))


@takes(
    source=TUNABLE,
    target=PATH | instance("a Target", Target),
    calibration=SAMPLES | NONE,
    database=PATH | NONE,
    method=TEXT,
    trials=whole(1) | NONE,
    seconds=number(above=0) | NONE,
    patience=whole(1) | NONE,
    jobs=whole(1),
    measurer=Kind("a Measurer", _is_measurer) | NONE,
    layers=several(TEXT),
    options=instance("an Options", Options) | NONE,
    compile_options=OPTIONS | NONE,
    fresh=FLAG,
    select=PATH | NONE,
    prove_all=FLAG,
    progress=Kind("a Progress", _is_progress) | NONE,
    interrupted=FUNCTION,
    note=FUNCTION,
)
def tune(
    source: Tunable,
    target: str | os.PathLike[str] | Target = "pynq",
    calibration: Source | None = None,
    database: str | os.PathLike[str] | None = None,
    *,
    method: str = DEFAULT_METHOD,
    trials: int | None = 200,
    seconds: float | None = None,
    patience: int | None = None,
    jobs: int = 1,
    measurer: Measurer | None = None,
    layers: Sequence[str] = (),
    options: Options | None = None,
    compile_options: CompileOptions | None = None,
    fresh: bool = False,
    select: str | os.PathLike[str] | None = None,
    prove_all: bool = False,
    progress: Progress | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    note: Callable[[str], None] = lambda _: None,
) -> Tuned:
    """Search the schedules of all kernels of a model, a module or tensor expressions.

    source: an ONNX model (path, bytes or ModelProto), a `Module` that keeps its IR of the level te,
    that IR, or a tensor of `vtac.te` or several. target: as for `vtac.compile`. database: the file
    in which trials and best points are kept, made if there is none; with the same arguments a
    search that was interrupted goes on. method: how points are chosen. trials, seconds: when to
    stop; None for never. patience: leave a kernel after so many trials without a better one. jobs:
    processes that measure. measurer: who measures instead, such as a `RemotePool`, and stays open;
    ``jobs`` then does not count. layers: patterns of names of layers; all if there are none.
    options: of the method, its seed among them. compile_options: those of `vtac.compile`. fresh:
    begin anew. select: a file to which the records are written by which the whole model gets
    quicker. prove_all: execute the program of every clocked point, not only of each kernel's best.
    progress, note: are told how it goes. interrupted: asked between batches whether to stop.

    Raises `CompileError` where nothing runs on the accelerator, and on arguments that make no
    sense.
    """
    machine = Target.of(target)
    _verify(method, database)
    found = tasks(kernels_of(source, machine, calibration, compile_options), layers)
    with _journal(database, fresh, note) as journal, _measuring(jobs, measurer) as pool:
        results = search(
            found,
            method,
            options or Options(),
            stops=Stops(trials=trials, seconds=seconds, patience=patience),
            measurer=pool,
            journal=journal,
            progress=progress,
            interrupted=interrupted,
            prove_all=prove_all,
        )
    kernels = tuple(map(_kernel, results))
    if database is None or not is_model(source) or interrupted():
        return Tuned(kernels, _path(database), interrupted())
    whole = TunedModel(source, machine, calibration, compile_options or CompileOptions())
    cycles = _whole_cycles(whole, found, database, select, note)
    return Tuned(kernels, _path(database), False, cycles)


def _whole_cycles(
    whole: TunedModel,
    found: Sequence[Task],
    database: str | os.PathLike[str],
    select: str | os.PathLike[str] | None,
    note: Callable[[str], None],
) -> tuple[int, int]:
    """Cycles of a model without records and with those found, of which it may select the useful."""
    if select is not None:
        write_lines(select, useful_records(whole, _records(database, found), note))
    return whole.cycles(None), whole.cycles([database if select is None else select])


@contextmanager
def _measuring(jobs: int, measurer: Measurer | None) -> Iterator[Measurer]:
    """Who measures: processes that end with the body, or those that the caller has."""
    if measurer is not None:
        yield measurer
        return
    with closing(local_measurer(jobs)) as pool:
        yield pool


def _path(database: str | os.PathLike[str] | None) -> str | None:
    return None if database is None else os.fspath(database)


@contextmanager
def _journal(
    database: str | os.PathLike[str] | None, fresh: bool, note: Callable[[str], None]
) -> Iterator[Journal]:
    """Where trials are kept: in the database, or nowhere."""
    if database is None:
        yield NoJournal()
        return
    with Database.open(database, note) as stored:
        yield DatabaseJournal(stored, version("vtac"), fresh=fresh, note=note)


def _records(database: str | os.PathLike[str], found: Sequence[Task]) -> list[Record]:
    """The best records of some kernels."""
    with Database.read(database) as opened:
        return [
            record
            for task in found
            for key in [key_of(task)[0]]
            for record in opened.best(key.kernel, key.target, key.oracle)[:1]
        ]


def _kernel(result: Result) -> TunedKernel:
    standing, best = result.standing, result.best
    task = standing.task
    return TunedKernel(
        name=task.name,
        layers=task.layers,
        summary=task.summary,
        calls=task.multiplicity,
        default=task.default_cycles,
        cycles=standing.cycles,
        bound=task.bound,
        trials=standing.trials,
        replayed=standing.replayed,
        proved=best is not None and best.proved,
        stopped=standing.stopped,
        problem=_refusals(result) if best is None else best.problem,
    )


def _refusals(result: Result) -> str:
    """The most frequent reason why points of a kernel have no cycles, and how often it came."""
    reasons = Counter(trial.why for trial in result.trials if trial.cycles is None)
    return "".join(f"{count} times: {why}" for why, count in reasons.most_common(1))


def _verify(method: str, database: str | os.PathLike[str] | None) -> None:
    """Raise `CompileError` on methods and files with which no search can begin."""
    method_named(method)
    if database is not None:
        verify_writable(database)
