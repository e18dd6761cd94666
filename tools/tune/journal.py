"""A journal of searches in the database: trials as they come, and the best points once proved."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import lru_cache

from vtac.tools.tune.database import Database, new_run
from vtac.tools.tune.keys import (
    Key,
    constants_in,
    kernel_digest,
    kernel_text,
    oracle_digest,
    parsed_kernel,
    target_digest,
    target_text,
)
from vtac.tools.tune.protocol import Best, Run, Task, Trial
from vtac.tools.tune.records import Record, RunRow


class DatabaseJournal:
    """Keeps the trials of runs in a database, and goes on with runs that are there.

    compiler: the version of vtac. fresh: begin every run anew. note: is told, in one line each,
    what a user should know.
    """

    def __init__(
        self,
        database: Database,
        compiler: str,
        *,
        fresh: bool = False,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._database, self._compiler = database, compiler
        self._fresh, self._note = fresh, note
        self._runs: dict[str, tuple[int, RunRow]] = {}

    def recorded(self, run: Run) -> Sequence[Trial]:
        """The trials of the newest run with the same task, method and options."""
        options = asdict(run.options)
        seed = options.pop("seed")
        key, text = key_of(run.task)
        row = new_run(
            key, text, target_text(run.task.target), run.method, options, seed, self._compiler
        )
        number, trials = self._database.start(row, fresh=self._fresh)
        self._runs[_name(run)] = number, row
        return trials

    def append(self, run: Run, first: int, trials: Sequence[Trial]) -> None:
        """Write a batch; it is kept for later if the file cannot be written."""
        self._database.write(self._runs[_name(run)][0], first, trials)

    def finish(self, run: Run, best: Best) -> None:
        """Write the best point if it is proved and no worse than the default, and end the run."""
        number, row = self._runs[_name(run)]
        cycles = best.trial.cycles
        if best.problem or not best.proved:
            why = best.problem or "it was not executed"
            self._note(f"{run.task.name}: its best point is not recorded: {why}")
        elif cycles is not None and cycles <= run.task.default_cycles:
            record = Record(
                row.key,
                row.text,
                row.target_text,
                best.trial.point,
                cycles,
                run.task.default_cycles,
                best.bound,
                best.proved,
                self._compiler,
            )
            self._database.write(number, 0, (), record)
        self._database.end(number)


def _name(run: Run) -> str:
    """What tells the runs of one search apart."""
    return json.dumps([key_of(run.task)[0].kernel, run.task.template, run.method])


def key_of(task: Task) -> tuple[Key, str]:
    """The key of a task's records, and the text of its kernel."""
    digest, text = _kernel_of(task.module)
    target = target_digest(task.target)
    oracle = oracle_digest(task.target.timing)
    return Key(digest, target, oracle, task.template, task.version), text


@lru_cache(maxsize=1024)
def _kernel_of(module: str) -> tuple[str, str]:
    kernel = parsed_kernel(module)
    constants = constants_in(kernel)
    return kernel_digest(kernel, constants), kernel_text(kernel, constants)
