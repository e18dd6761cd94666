"""Computations in two processes return what a loop returns, whatever happens to the child."""

import os
import threading
from collections.abc import Callable
from functools import partial

import pytest

from vtac.dialects.errors import CompileError, Problem
from vtac.passes import side_by_side as module
from vtac.passes.side_by_side import FEWEST, begun_beside, side_by_side


@pytest.fixture(params=[True, False], ids=["forked", "alone"])
def forked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether there is a child."""
    is_forked = bool(request.param)
    monkeypatch.setattr(module, "_may_fork", lambda: is_forked)
    return is_forked


def squared(number: int) -> int:
    return number * number


@pytest.mark.parametrize("count", [0, 1, FEWEST - 1, FEWEST, FEWEST + 1, 40])
def test_results_come_in_the_order_of_the_computations(count: int, forked: bool) -> None:
    computations = [partial(squared, number) for number in range(count)]
    assert side_by_side(computations) == [number * number for number in range(count)]


def test_a_child_takes_a_share(forked: bool) -> None:
    processes = side_by_side([os.getpid] * 10)
    assert (len(set(processes)) == 2) == forked
    assert processes[0] == os.getpid()


@pytest.mark.parametrize("failing", range(4))
def test_errors_are_returned_in_place_of_results(failing: int, forked: bool) -> None:
    def fail() -> int:
        raise CompileError(Problem("layer", f"does not fit {failing}"))

    computations: list[Callable[[], int]] = [partial(squared, number) for number in range(10)]
    computations[failing] = fail
    found = side_by_side(computations)
    error = found.pop(failing)
    assert isinstance(error, CompileError) and f"does not fit {failing}" in str(error)
    assert found == [number * number for number in range(10) if number != failing]


@pytest.mark.parametrize("end", [partial(os._exit, 0), partial(os._exit, 1), partial(int, "x")])
def test_what_a_failing_child_does_not_send_is_computed_here(
    end: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_may_fork", lambda: True)
    parent = os.getpid()

    def one(number: int) -> int:
        if os.getpid() != parent:
            end()
        return number

    assert side_by_side([partial(one, number) for number in range(10)]) == list(range(10))


def test_results_that_cannot_be_pickled_are_computed_here(forked: bool) -> None:
    found = side_by_side([lambda number=number: lambda: number for number in range(10)])
    assert [result() for result in found if not isinstance(result, CompileError)] == list(range(10))


def test_other_threads_forbid_a_child() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert set(side_by_side([os.getpid] * 10)) == {os.getpid()}
    finally:
        done.set()
        thread.join()


def test_what_is_begun_runs_in_a_child_and_returns_the_result(forked: bool) -> None:
    results = [begun_beside(lambda number=number: (number, os.getpid())) for number in range(4)]
    found = [result() for result in results]
    assert [number for number, _ in found] == list(range(4))
    assert all((process != os.getpid()) == forked for _, process in found)


@pytest.mark.parametrize("end", [partial(os._exit, 0), partial(os._exit, 1), partial(int, "x")])
def test_what_was_begun_in_a_child_that_fails_is_computed_here(
    end: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_may_fork", lambda: True)
    parent = os.getpid()

    def computed() -> int:
        if os.getpid() != parent:
            end()
        return os.getpid()

    assert begun_beside(computed)() == parent


def test_an_error_of_what_was_begun_is_raised_where_its_result_is_asked_for(forked: bool) -> None:
    def fail() -> int:
        raise CompileError(Problem("layer", "does not fit"))

    result = begun_beside(fail)
    with pytest.raises(CompileError, match="does not fit"):
        result()
