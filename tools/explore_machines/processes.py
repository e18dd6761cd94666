"""Evaluates machines in several processes (`vtac.runtime.processes`), each of which can be ended.

A process prepares the network once, and evaluates one machine after the other.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import closing, contextmanager

from vtac.dialects.errors import CompileError
from vtac.dialects.target import Target
from vtac.runtime.processes import LostProcessError, Processes
from vtac.runtime.processes import finished as in_order_of_end
from vtac.tools.explore_machines.evaluation import ComparedNetwork, Evaluator
from vtac.tools.explore_machines.outcome import Outcome

Finished = Callable[[int, Outcome], None]
"""Called with the place of a machine and what became of it, in the order in which they finish."""

Evaluate = Callable[[Sequence[Target], Finished], None]
"""Evaluates machines, and calls the function for each of them before it returns."""


@contextmanager
def evaluating(evaluator: Evaluator, jobs: int, seconds: float) -> Iterator[Evaluate]:
    """Something that evaluates machines: here for one job, else in so many processes.

    seconds: the most for one machine, in processes of its own. Raises `CompileError` if the package
    for processes is not installed.
    """
    if jobs == 1:
        yield lambda machines, finished: _here(evaluator, machines, finished)
        return
    hint = "Install it: pip install 'vtac[explore]'; or say --jobs 1."
    with closing(Processes(jobs, hint, (_start, (evaluator.network,)))) as processes:
        yield lambda machines, finished: _there(processes, seconds, machines, finished)


def _here(evaluator: Evaluator, machines: Sequence[Target], finished: Finished) -> None:
    for place, machine in enumerate(machines):
        finished(place, evaluator(machine))


def _there(
    processes: Processes, seconds: float, machines: Sequence[Target], finished: Finished
) -> None:
    calls = [processes.call(_evaluated, [machine], seconds) for machine in machines]
    for place in in_order_of_end(calls):
        try:
            outcome = calls[place].result()
        except FutureTimeout:
            why = f"took longer than {seconds:g} s"
            outcome = Outcome(None, why, millis=round(seconds * 1000), is_lasting=False)
        except LostProcessError as error:
            why = f"the process that compiled for it ended with {error.exitcode}, twice"
            outcome = Outcome(None, why, is_lasting=False)
        finished(place, outcome)


_evaluators: list[Evaluator] = []
"""The evaluator of a process that `evaluating` started."""


def _start(network: ComparedNetwork) -> None:
    """Prepare a process."""
    _evaluators.append(Evaluator(network))


def _evaluated(machine: Target) -> Outcome:
    try:
        return _evaluators[-1](machine)
    except CompileError as error:  # the files of the network are gone, or have changed
        return Outcome(None, str(error), is_lasting=False)
