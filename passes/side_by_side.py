"""Independent computations in two processes, where that is possible.

Schedules of kernels, for example, know nothing of each other. A forked child computes every second
result and sends it back; whatever it does not send, this process computes itself. So the results
are those of a plain loop, whether there is a child or not.
"""

import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from vtac.dialects.errors import CompileError

_Result = TypeVar("_Result")

FEWEST = 6
"""Fewer computations than this are not worth a process."""


def side_by_side(computations: Sequence[Callable[[], _Result]]) -> list[_Result | CompileError]:
    """What each computation returns, or the `CompileError` that it raises, in their order.

    The computations must not change anything that others read, and their results are pickled.
    """
    share = range(1, len(computations), 2)
    child = _fork(computations, share) if _may_fork() and len(computations) >= FEWEST else None
    own = [number for number in range(len(computations)) if child is None or number not in share]
    found = {number: _outcome(computations[number]) for number in own}
    if child is not None:
        found.update(child.results())
    return [
        found[number] if number in found else _outcome(computation)
        for number, computation in enumerate(computations)
    ]


def begun_beside(computation: Callable[[], _Result]) -> Callable[[], _Result]:
    """Begin a computation in a child, if there can be one; the function that waits for its result.

    Call that function once, since the child ends with it. Where the child sends nothing, also
    because the computation fails there, that function computes the result. As for `side_by_side`,
    the computation must not change anything, and its result is pickled.
    """
    child = _fork([computation], [0]) if _may_fork() else None

    def result() -> _Result:
        found = dict(child.results()) if child is not None else {}
        return found[0] if 0 in found else computation()

    return result


def _outcome(computation: Callable[[], _Result]) -> _Result | CompileError:
    try:
        return computation()
    except CompileError as error:
        return error


def _may_fork() -> bool:
    """Whether a child may be forked, and runs beside this process.

    A lock that another thread of Python holds would stay locked in the child.
    """
    if not sys.platform.startswith("linux") or threading.active_count() > 1:
        return False
    return len(os.sched_getaffinity(0)) > 1


class _Child(Generic[_Result]):
    """A forked process, and the end of the pipe from which its results are read."""

    def __init__(self, process: int, pipe: int):
        self._process, self._pipe = process, pipe

    def results(self) -> list[tuple[int, _Result]]:
        """Wait for the child process and return the results that it sent; none if it failed."""
        with os.fdopen(self._pipe, "rb") as pipe:
            sent = pipe.read()
        with suppress(ChildProcessError):
            os.waitpid(self._process, 0)
        with suppress(pickle.UnpicklingError, EOFError):
            return list(pickle.loads(sent))
        return []


def _fork(
    computations: Sequence[Callable[[], _Result]], share: Sequence[int]
) -> _Child[_Result] | None:
    """A child that computes its share, or None if there can be none."""
    readable, writable = os.pipe()
    try:
        with warnings.catch_warnings():
            # Threads of onnxruntime and of NumPy hold no lock that the computations take.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
    except OSError:
        os.close(readable)
        os.close(writable)
        return None
    if process:
        os.close(writable)
        return _Child(process, readable)
    try:
        outcomes = [(number, _outcome(computations[number])) for number in share]
        good = [each for each in outcomes if not isinstance(each[1], CompileError)]
        with os.fdopen(writable, "wb") as pipe:
            pipe.write(pickle.dumps(good))
    finally:
        os._exit(0)
