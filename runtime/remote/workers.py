"""The processes of a server: an event loop hands them calls, and ends those that take too long.

A call goes to an idle process over a socket of the two, and its result comes back over it. No
thread and no queue lies between, which for small networks would take almost as long as the run:
0.7 ms there and back with pebble, that the rest of vtac uses for its processes, 0.3 ms so.

What goes over a socket are pickles behind their length (8 bytes). Both ends are this module.
"""

import asyncio
import contextlib
import os
import pickle
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from typing import Any, NoReturn

_LENGTH = struct.Struct("<Q")

_READY = b""
"""What a process sends once it is prepared."""

_READ_AHEAD = 1 << 20
"""Bytes of an answer that are taken from the system before they are asked for."""

Start = tuple[Callable[..., None], tuple[Any, ...]]
"""A function that prepares a process, and its arguments."""


class EndedProcessError(Exception):
    """The process of a call ended before the call did."""


class Workers:
    """So many processes, each of which runs one call at a time, in one event loop.

    `start` and `stop` them. Those that ran last run first, because what they use is still in the
    processor's caches.
    """

    def __init__(self, count: int, start: Start) -> None:
        self._all = [_Worker(start) for _ in range(count)]
        self._idle = asyncio.LifoQueue[_Worker]()

    def start(self) -> None:
        """Start all processes, without waiting for them."""
        for worker in self._all:
            worker.renew()
            self._idle.put_nowait(worker)

    async def stop(self) -> None:
        """End all processes."""
        await asyncio.gather(*(worker.stop() for worker in self._all))

    async def call(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float
    ) -> Any:
        """What a function returns in one of the processes, when it is the call's turn.

        seconds: how long the process may take, once it has imported the function. Raises what the
        function raises, TimeoutError, and `EndedProcessError`; in the last two cases, and if the
        caller is cancelled, the process is ended and replaced.
        """
        worker = await self._idle.get()
        try:
            answer = await worker.call(function, arguments, seconds)
            succeeds, value = pickle.loads(answer)
        finally:
            self._idle.put_nowait(worker)
        if succeeds:
            return value
        raise value


class _Worker:
    """A process, which is replaced when it has ended."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._opened: asyncio.Task[_Process | None] | None = None

    def renew(self) -> None:
        """End the process, if there is one, and start another, in the background."""
        self._opened = asyncio.create_task(self._replaced(self._opened))

    async def _replaced(self, before: "asyncio.Task[_Process | None] | None") -> "_Process | None":
        """A new process; None if it ended while it started."""
        if before is not None and (process := await before) is not None:
            await process.end()
        return await _opened(self._start)

    async def call(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float
    ) -> bytes:
        """The pickled answer to a call. Raises TimeoutError and `EndedProcessError`."""
        message = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
        process = await self._running()
        try:
            if function not in process.imported:
                await process.ask(pickle.dumps((_nothing, (function, arguments))))
                process.imported.add(function)
            async with asyncio.timeout(seconds):
                return await process.ask(message)
        except BaseException:  # also where the caller is cancelled: its answer would come later
            self.renew()
            raise

    async def _running(self) -> "_Process":
        """The process, a new one if it has ended while it was idle."""
        if self._opened is not None and self._opened.done():
            process = self._opened.result()
            if process is None or not process.is_alive():
                self.renew()
        assert self._opened is not None, "the workers have been started"
        found = await asyncio.shield(self._opened)
        if found is None:
            raise EndedProcessError("it ended when it started")
        return found

    async def stop(self) -> None:
        if self._opened is None:
            return
        self._opened.cancel()  # which does nothing to one that is done
        with contextlib.suppress(asyncio.CancelledError):
            if (process := await self._opened) is not None:
                await process.end()


class _Process:
    """A process that runs, and its socket. imported: the functions that it has been given."""

    def __init__(
        self, process: SpawnProcess, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self.imported: set[Callable[..., Any]] = set()

    def is_alive(self) -> bool:
        return self._process.is_alive()

    async def receive(self) -> bytes:
        """A message. Raises `EndedProcessError`."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise EndedProcessError("it ended") from None

    async def ask(self, message: bytes) -> bytes:
        """The answer to a message. Raises `EndedProcessError`."""
        try:
            self._writer.writelines((_LENGTH.pack(len(message)), message))
            await self._writer.drain()
        except ConnectionError:
            raise EndedProcessError("it ended") from None
        return await self.receive()

    async def end(self) -> None:
        """End it at once."""
        self._writer.close()
        self._process.kill()
        await asyncio.to_thread(self._process.join)
        self._process.close()


async def _opened(start: Start) -> _Process | None:
    """A new process that is prepared; None if it ended before it was."""
    here, there = socket.socketpair()
    process = get_context("spawn").Process(target=_work, args=(there, start))
    with there:
        process.start()
    reader, writer = await asyncio.open_unix_connection(sock=here, limit=_READ_AHEAD)
    opened = _Process(process, reader, writer)
    try:
        await opened.receive()
    except EndedProcessError:
        await opened.end()
        return None
    except BaseException:
        await opened.end()
        raise
    return opened


def _work(wire: socket.socket, start: Start) -> None:
    """What a process does: calls, one after the other, until the server is gone."""
    threading.Thread(target=_end_with, args=(wire.fileno(),), daemon=True).start()
    prepare, arguments = start
    prepare(*arguments)
    try:
        with wire, wire.makefile("rb") as reader:
            wire.sendall(_packed(_READY))
            while head := reader.read(_LENGTH.size):
                wire.sendall(_packed(_answer(reader.read(*_LENGTH.unpack(head)))))
    except ConnectionError:
        pass
    except MemoryError:  # not in the call, but for what it is given or returns
        raise SystemExit(1) from None


def _end_with(wire: int) -> NoReturn:
    """End this process, whatever it does, when the other end of a socket is gone."""
    poll = select.poll()
    poll.register(wire, 0)  # what is always told: that the other end has hung up
    poll.poll()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("this process has ended")


def _answer(message: bytes) -> bytes:
    """Whether a call succeeds, and what it returns or raises, pickled."""
    function, arguments = pickle.loads(message)
    del message
    try:
        answer = True, function(*arguments)
    except Exception as error:
        answer = False, error
    try:
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        raise
    except Exception as error:  # of any kind: what is pickled says itself how
        what = f"{type(answer[1]).__name__} cannot be sent: {error}"
        return pickle.dumps((False, RuntimeError(what)), pickle.HIGHEST_PROTOCOL)


def _nothing(*_: object) -> None:
    """A call that is over once what it is given is imported."""


def _packed(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message
