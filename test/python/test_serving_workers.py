"""The processes of ``vta-serve``: calls come back whole, and processes that end are replaced."""

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import worker_calls
from worker_calls import (
    TalkativeError,
    die,
    echo,
    fail,
    prepare,
    prepare_badly,
    prepare_with,
    unsendable,
)

from vtac.runtime.remote.workers import EndedProcessError, Workers

PATIENCE = 60.0
"""Seconds within which something that is going to happen must have happened."""


def running(
    count: int, body: Callable[[Workers], Awaitable[None]], start: Callable[..., None] = prepare
) -> None:
    """Run a body with so many workers."""

    async def run() -> None:
        workers = Workers(count, (start, ("it",)))
        workers.start()
        try:
            await body(workers)
        finally:
            await workers.stop()

    asyncio.run(run())


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_calls_come_back_to_their_callers() -> None:
    async def body(workers: Workers) -> None:
        values = [os.urandom(size) for size in (0, 1, 1000, 1 << 20, 9 << 20)] * 8
        found = await asyncio.gather(*(workers.call(echo, (v,), PATIENCE) for v in values))
        assert [value for _, _, value in found] == values
        assert {seen for _, seen, _ in found} == {"it"}
        assert len({process for process, _, _ in found}) <= 2
        alone = [(await workers.call(echo, (n,), PATIENCE))[0] for n in range(20)]
        assert len(set(alone)) == 1  # the one that is warm

    running(2, body)


def test_what_calls_raise_is_raised_and_their_process_stays() -> None:
    async def body(workers: Workers) -> None:
        process, _, _ = await workers.call(echo, (0,), PATIENCE)
        with pytest.raises(KeyError, match="text"):
            await workers.call(fail, (KeyError, "text"), PATIENCE)
        with pytest.raises(TimeoutError):
            await workers.call(fail, (TimeoutError,), PATIENCE)
        with pytest.raises(TypeError):
            await workers.call(fail, (TalkativeError, 1, 2), PATIENCE)
        with pytest.raises(RuntimeError, match="function cannot be sent"):
            await workers.call(unsendable, (), PATIENCE)
        assert (await workers.call(echo, (0,), PATIENCE))[0] == process

    running(1, body)


def test_processes_that_end_are_replaced() -> None:
    async def body(workers: Workers) -> None:
        gone = set()
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
            gone.add((await workers.call(echo, (0,), PATIENCE))[0])
            with pytest.raises(EndedProcessError):
                await workers.call(die, (number,), PATIENCE)
        gone.add((await workers.call(echo, (0,), PATIENCE))[0])
        with pytest.raises(TimeoutError):
            await workers.call(time.sleep, (PATIENCE,), 0.01)
        process, _, _ = await workers.call(echo, (0,), PATIENCE)
        os.kill(process, signal.SIGKILL)  # while it is idle: nobody's call
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
        gone.add(process)
        process, _, value = await workers.call(echo, (7,), PATIENCE)
        assert value == 7 and len(gone | {process}) == 6
        assert not [each for each in gone if is_there(each)]

    running(1, body)


def test_imports_take_none_of_the_seconds_of_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_import.py").write_text(
        "import multiprocessing, time\n"
        "if multiprocessing.parent_process():\n"
        "    time.sleep(5)\n"
        "def twice(value):\n"
        "    return 2 * value\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    function = importlib.import_module("slow_to_import").twice

    async def body(workers: Workers) -> None:
        assert [await workers.call(function, (n,), 3.0) for n in range(3)] == [0, 2, 4]

    running(1, body)


def test_who_waits_behind_a_call_that_is_given_up_is_served() -> None:
    async def body(workers: Workers) -> None:
        given_up = asyncio.create_task(workers.call(time.sleep, (PATIENCE,), PATIENCE))
        while not given_up.done():
            await asyncio.sleep(0.01)
            given_up.cancel()
        waiting = [workers.call(echo, (n,), PATIENCE) for n in range(5)]
        assert [value for _, _, value in await asyncio.gather(*waiting)] == list(range(5))

    running(1, body)


def test_processes_that_do_not_start_are_told() -> None:
    async def body(workers: Workers) -> None:
        for _ in range(2):
            with pytest.raises(EndedProcessError):
                await workers.call(echo, (0,), PATIENCE)

    running(1, body, prepare_badly)


def test_what_takes_too_much_memory_ends_the_process_that_is_given_it() -> None:
    async def body(workers: Workers) -> None:
        for _ in range(2):
            with pytest.raises(EndedProcessError):  # it cannot be read and unpacked there
                await workers.call(echo, (b"x" * (48 << 20),), PATIENCE)
            assert (await workers.call(echo, (7,), PATIENCE))[2] == 7

    running(1, body, prepare_with(64 << 20))


def test_all_end_with_their_server() -> None:
    """Also those that run, and that start, when it is told to stop or is killed."""
    for number in (signal.SIGINT, signal.SIGKILL):
        server = subprocess.Popen(
            [sys.executable, worker_calls.__file__],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert server.stdout is not None
        process = int(server.stdout.readline())
        assert is_there(process)
        server.send_signal(number)
        server.communicate(timeout=PATIENCE)
        until = time.monotonic() + PATIENCE
        while is_there(process) and time.monotonic() < until:
            time.sleep(0.01)
        assert not is_there(process)
