"""Calls that the processes of ``vta-serve`` are given in tests, where another process finds them.

As a program, a server of one process: prints the process, which then sleeps.
"""

import asyncio
import os
import resource
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from vtac.runtime.remote.workers import Workers


class TalkativeError(Exception):
    """An exception that pickle writes and cannot read."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def prepare(seen: str) -> None:
    os.environ["SEEN"] = seen


def prepare_badly(_: str) -> None:
    os._exit(3)


def prepare_with(more_bytes: int) -> Callable[[str], None]:
    """As `prepare`, with so much memory more than the process has then."""
    return partial(_prepare_with, more_bytes)


def _prepare_with(more_bytes: int, seen: str) -> None:
    prepare(seen)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def echo(value: Any) -> tuple[int, str, Any]:
    return os.getpid(), os.environ["SEEN"], value


def fail(kind: type[Exception], *arguments: Any) -> None:
    raise kind(*arguments)


def die(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def unsendable() -> Callable[[], None]:
    return lambda: None


async def _serve() -> None:
    workers = Workers(1, (prepare, ("it",)))
    workers.start()
    try:
        process, _, _ = await workers.call(echo, (0,), 100)
        print(process, flush=True)
        await workers.call(time.sleep, (1000,), 1000)
    finally:
        await workers.stop()


if __name__ == "__main__":
    # A shell that starts something in the background has it ignore interruptions.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asyncio.run(_serve())
