"""Evaluates machines in several processes, each of which can be killed.

A process is started anew (spawn), prepares the network once, and evaluates one machine after the
other. One that takes longer than the limit is killed. One that dies is replaced, and its machine
is tried once more.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import TimeoutError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.tools.explore_machines.evaluation import Evaluator, Network
from vtac.tools.explore_machines.outcome import Outcome

if TYPE_CHECKING:
    from pebble import ProcessPool

Finished = Callable[[int, Outcome], None]
"""Called with the place of a machine and what became of it, in the order in which they finish."""

Evaluate = Callable[[Sequence[Target], Finished], None]
"""Evaluates machines, and calls the function for each of them before it returns."""

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables by which each process keeps to one thread."""


@contextmanager
def evaluating(evaluator: Evaluator, jobs: int, seconds: float) -> Iterator[Evaluate]:
    """Something that evaluates machines: here for one job, else in so many processes.

    seconds: the most for one machine, in processes of its own. Raises `CompileError` if the package
    for processes is not installed.
    """
    if jobs == 1:
        yield lambda machines, finished: _here(evaluator, machines, finished)
        return
    try:
        from pebble import ProcessPool
    except ImportError:
        hint = "Install it: pip install 'vtac[explore]'; or say --jobs 1."
        raise CompileError(Problem("--jobs", "needs the package pebble", hint)) from None
    import multiprocessing

    with _one_thread_each():
        pool = ProcessPool(
            max_workers=jobs,
            initializer=_start,
            initargs=(evaluator.network,),
            context=multiprocessing.get_context("spawn"),
        )
        with pool:
            try:
                yield lambda machines, finished: _there(pool, seconds, machines, finished)
            finally:
                pool.stop()  # type: ignore[no-untyped-call]
                pool.join()


def _here(evaluator: Evaluator, machines: Sequence[Target], finished: Finished) -> None:
    for place, machine in enumerate(machines):
        finished(place, evaluator(machine))


def _there(
    pool: "ProcessPool", seconds: float, machines: Sequence[Target], finished: Finished
) -> None:
    from concurrent.futures import FIRST_COMPLETED, Future, wait

    from pebble import ProcessExpired

    def scheduled(machine: Target) -> "Future[Any]":
        return pool.schedule(_evaluated, args=(machine,), timeout=seconds)

    under_way = {scheduled(machine): place for place, machine in enumerate(machines)}
    again: set[int] = set()
    while under_way:
        done, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for future in done:
            place = under_way.pop(future)
            try:
                finished(place, future.result())
            except TimeoutError:
                why = f"took longer than {seconds:g} s"
                finished(place, Outcome(None, why, millis=round(seconds * 1000), is_lasting=False))
            except ProcessExpired as error:
                if place not in again:
                    again.add(place)
                    under_way[scheduled(machines[place])] = place
                    continue
                why = f"the process that compiled for it ended with {error.exitcode}, twice"
                finished(place, Outcome(None, why, is_lasting=False))


@contextmanager
def _one_thread_each() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update({name: "1" for name, value in before.items() if value is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


_evaluators: list[Evaluator] = []
"""The evaluator of a process that `evaluating` started."""


def _start(network: Network) -> None:
    """Prepare a process: Ctrl-C is its parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _evaluators.append(Evaluator(network))


def _evaluated(machine: Target) -> Outcome:
    try:
        return _evaluators[-1](machine)
    except CompileError as error:  # the files of the network are gone, or have changed
        return Outcome(None, str(error), is_lasting=False)
