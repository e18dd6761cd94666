"""Processes of this machine of which each can be ended alone, by pebble.

A process is started anew (spawn) and runs one call after the other. A call that takes too long is
ended with its process, which is replaced; the others go on. The call of a process that died is run
once more.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from vtac.dialects.errors import CompileError, Problem

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables by which each process keeps to one thread."""

Start = tuple[Callable[..., None], tuple[Any, ...]]
"""A function that prepares a process, and its arguments."""


class LostProcessError(Exception):
    """The process of a call ended twice. exitcode: that of the second one."""

    def __init__(self, exitcode: int | None) -> None:
        super().__init__(f"its process ended with {exitcode}, twice")
        self.exitcode = exitcode


class Call:
    """A call that runs in another process, or waits for one."""

    def __init__(self, begin: Callable[[], "Future[Any]"], died: type[Exception]) -> None:
        self._begin, self._died, self._is_second = begin, died, False
        self.future = begin()

    def settles(self) -> bool:
        """Whether the call, whose future is done, has a result; else it begins once more."""
        if self._is_second or not isinstance(self.future.exception(), self._died):
            return True
        self._is_second = True
        self.future = self._begin()
        return False

    def result(self) -> Any:
        """What the call returned or raised; waits for it.

        Raises `concurrent.futures.TimeoutError` where it took too long, and `LostProcessError`.
        """
        while True:
            try:
                return self.future.result()
            except self._died as error:
                if self.settles():
                    exitcode = getattr(error, "exitcode", None)
                    raise LostProcessError(exitcode) from None


class Processes:
    """A pool of processes.

    start: prepares each process. Raises `CompileError` where pebble is missing; hint: what to do
    then.
    """

    def __init__(self, jobs: int, hint: str, start: Start | None = None) -> None:
        try:
            import pebble
        except ModuleNotFoundError:
            what = "several processes need pebble, which is not installed"
            raise CompileError(Problem("", what, hint)) from None
        self._died: type[Exception] = pebble.ProcessExpired
        self._threads = {name: os.environ.get(name) for name in _THREADS}
        os.environ.update({name: "1" for name, value in self._threads.items() if value is None})
        self._pool: Any = pebble.ProcessPool(
            jobs,
            initializer=_started,
            initargs=(start,),
            context=multiprocessing.get_context("spawn"),
        )

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], seconds: float) -> Call:
        """Begin a call, which may take so long (wall time)."""
        return Call(
            lambda: self._pool.schedule(function, args=list(arguments), timeout=seconds), self._died
        )

    def close(self) -> None:
        """End all processes, whatever they do."""
        self._pool.stop()
        self._pool.join()
        for name, value in self._threads.items():
            if value is None:
                os.environ.pop(name, None)


def finished(calls: Sequence[Call]) -> Iterator[int]:
    """The places of calls, in the order in which they end."""
    left = {call.future: place for place, call in enumerate(calls)}
    while left:
        done, _ = wait(left, return_when=FIRST_COMPLETED)
        for future in done:
            place = left.pop(future)
            if calls[place].settles():
                yield place
            else:
                left[calls[place].future] = place


def _started(start: Start | None) -> None:
    """Prepare a process. Ctrl-C is its parent's business: a terminal sends it to all of them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if start is not None:
        function, arguments = start
        function(*arguments)
