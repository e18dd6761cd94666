"""The server: packages come in once, by digest; runs and profiles of them go to processes.

Every request is bounded in size, memory and time (`Limits`), and what is refused is said, counted
and forgotten. A process that takes too long, or more memory than it may, is ended and replaced; the
others go on.
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import math
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.remote import worker
from vtac.runtime.remote.limits import Limits
from vtac.runtime.remote.service import Service
from vtac.runtime.remote.store import PackageStore
from vtac.runtime.remote.wire import (
    HEALTH,
    METRICS,
    PACKAGES,
    PROFILE,
    RECORD,
    RUN,
    SECONDS,
    WireArrays,
    known_forms,
)
from vtac.runtime.remote.workers import EndedProcessError, Workers

FAULT = "fault"
"""The key of an answer under which a fault of the server is noted for `AnsweredRequest`."""

MALFORMED = "malformed"
"""The method and the kind of requests that no handler has seen, since they are no HTTP."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class AnsweredRequest:
    """A request that has been answered.

    method, path: of the request; `MALFORMED` and nothing where it is no HTTP. status: of the
    answer, as HTTP has it. fault: what went wrong in the server itself, if anything did.
    """

    client: str
    method: str
    path: str
    status: int
    fault: str = ""

    @property
    def is_refusal(self) -> bool:
        """Whether the client did not get what it asked for."""
        return self.status >= 400

    def __str__(self) -> str:
        fault = f" ({self.fault})" if self.fault else ""
        request = f"{self.method} {self.path}".rstrip()
        return f"{self.client}: {request}: {self.status}{fault}"


Tell = Callable[[AnsweredRequest], None]
"""Called with each request that has been answered."""


@dataclass(frozen=True)
class Admission:
    """Who may use a server, and how. token: what clients must know; None lets everybody in.

    tls: the certificate of the server; None for plain HTTP. native: whether code for this machine
    in packages may run.
    """

    token: str | None = None
    tls: ssl.SSLContext | None = None
    native: bool = False

    def admits(self, header: str | None) -> bool:
        """Whether a request with this ``Authorization`` may pass; takes the same time for all."""
        if self.token is None:
            return True
        expected = hashlib.sha256(f"Bearer {self.token}".encode()).digest()
        given = hashlib.sha256((header or "").encode(errors="replace")).digest()
        return hmac.compare_digest(expected, given)


@dataclass
class _Metrics:
    """What ``/metrics`` shows."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        room = self.registry
        self.requests = Counter(
            "vtac_requests", "Requests by kind and status.", ["kind", "status"], registry=room
        )
        self.seconds = Histogram(
            "vtac_run_seconds", "Seconds of runs and profiles, with waiting.", registry=room
        )
        self.waiting = Gauge("vtac_waiting", "Requests that run or wait.", registry=room)
        self.packages = Gauge("vtac_packages", "Packages in the store.", registry=room)
        self.store = Gauge("vtac_store_bytes", "Bytes of packages in the store.", registry=room)
        self.ended = Counter("vtac_processes_ended", "Processes that ended early.", registry=room)


class _Unhandled(logging.Handler):
    """Tells of requests that aiohttp answers itself: it only logs them, with a traceback.

    These are the malformed ones, and those on which aiohttp itself fails.
    """

    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Tell of what is logged with an exception."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        client = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
        if isinstance(error, HttpProcessingError):
            self._tell(AnsweredRequest(client, MALFORMED, "", error.code))
        else:
            self._tell(
                AnsweredRequest(client, MALFORMED, "", 500, f"{type(error).__name__}: {error}")
            )

    def logger(self) -> logging.Logger:
        """A logger, apart from those of the program, that logs here alone."""
        logger = logging.Logger(__name__, logging.DEBUG)
        logger.addHandler(self)
        return logger


class Server:
    """A server of simulators. `start` and `stop` it in one event loop.

    services: what it offers besides packages, by path.
    """

    def __init__(
        self,
        limits: Limits,
        access: Admission,
        tell: Tell = lambda _: None,
        services: Mapping[str, Service] = MappingProxyType({}),
    ) -> None:
        self._limits, self._access, self._tell = limits, access, tell
        self._services = services
        self._kinds = {RUN, PROFILE, HEALTH[1:], METRICS[1:], *map(_last_word, services)}
        self._metrics = _Metrics()
        self._folder = tempfile.TemporaryDirectory(prefix="vtac-serve-")
        self._store = PackageStore(Path(self._folder.name), limits.store_bytes)
        self._busy = 0
        self._workers = Workers(limits.workers, (worker.start, (limits.worker_bytes,)))
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen. Returns the address, with the port that was free where ``port`` is 0."""
        size = self._limits.request_bytes
        app = web.Application(middlewares=[self._guarded], client_max_size=size)
        app.router.add_get(HEALTH, self._health)
        app.router.add_get(METRICS, self._show_metrics)
        app.router.add_get(f"{PACKAGES}/{{digest}}", self._has)
        app.router.add_put(f"{PACKAGES}/{{digest}}", self._put)
        app.router.add_post(f"{PACKAGES}/{{digest}}/{RUN}", self._run)
        app.router.add_get(f"{PACKAGES}/{{digest}}/{PROFILE}", self._profile)
        for path, service in self._services.items():
            app.router.add_post(f"/{path}", partial(self._serve, service))
        idle = self._limits.idle_seconds
        logger = _Unhandled(self._told_malformed).logger()
        self._runner = web.AppRunner(app, keepalive_timeout=idle, access_log=None, logger=logger)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, host, port, ssl_context=self._access.tls, backlog=self._limits.connections
        )
        await site.start()
        self._workers.start()
        address = self._runner.addresses[0]
        return str(address[0]), int(address[1])

    async def stop(self) -> None:
        """Finish what runs, end the processes, and remove the packages."""
        if self._runner is not None:
            await self._runner.cleanup()
        await self._workers.stop()
        self._folder.cleanup()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let known clients in, turn failures into answers, and count everything."""
        last = _last_word(request.path)
        kind = last if last in self._kinds else "package"
        try:
            response = await self._admitted(request, handler)
        except asyncio.CancelledError:  # the client has gone
            self._metrics.requests.labels(kind, "gone").inc()
            raise
        fault = response.get(FAULT, "")
        client = request.remote or ""
        self._tell(AnsweredRequest(client, request.method, request.path, response.status, fault))
        self._metrics.requests.labels(kind, response.status).inc()
        return response

    def _told_malformed(self, event: AnsweredRequest) -> None:
        """Count and tell a request that never came to `_guarded`."""
        self._tell(event)
        self._metrics.requests.labels(MALFORMED, event.status).inc()

    async def _admitted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        manager = self._runner.server if self._runner is not None else None
        if manager is not None and len(manager.connections) > self._limits.connections:
            return _refusal(503, "there are too many connections", close=True)
        if request.path != HEALTH and not self._access.admits(request.headers.get("Authorization")):
            return _refusal(401, "the token is missing or wrong", close=True)
        try:
            return await handler(request)
        except web.HTTPRequestEntityTooLarge:  # whose reason depends on the version of Python
            most = self._limits.request_bytes
            return _refusal(413, f"the body has more than {most:,} bytes", close=True)
        except web.HTTPException as error:
            return _refusal(error.status, error.reason, close=True)
        except CompileError as error:
            return _refusal(422, *map(str, error.problems))
        except TimeoutError:
            return _refusal(408, "the request did not arrive in time", close=True)
        except Exception as error:  # a fault of ours must not end the server, and is told
            response = _refusal(500, f"a fault of the server: {type(error).__name__}", close=True)
            response[FAULT] = f"{type(error).__name__}: {error}"
            return response

    async def _health(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {
                "status": "ok",
                "waiting": self._busy,
                "workers": self._limits.workers,
                "forms": known_forms(),
            }
        )

    async def _show_metrics(self, request: web.Request) -> web.StreamResponse:
        self._metrics.packages.set(len(self._store))
        self._metrics.store.set(self._store.total)
        return web.Response(body=generate_latest(self._metrics.registry), content_type="text/plain")

    async def _has(self, request: web.Request) -> web.StreamResponse:
        known = request.match_info["digest"] in self._store
        return web.Response(status=200 if known else 404)

    async def _put(self, request: web.Request) -> web.StreamResponse:
        self._store.add(request.match_info["digest"], await self._body(request))
        return web.Response(status=201)

    async def _run(self, request: web.Request) -> web.StreamResponse:
        with self._package(request) as path:
            inputs = WireArrays(request.content_type, await self._body(request))
            forms = [form for form in known_forms() if form in request.headers.get("Accept", "")]
            arguments = (path, self._access.native, inputs, self._limits.request_bytes, forms)
            outputs, record = await self._in_process(worker.run, *arguments)
        headers = {RECORD: record}
        return web.Response(body=outputs.data, content_type=outputs.form, headers=headers)

    async def _profile(self, request: web.Request) -> web.StreamResponse:
        preset = request.query.get("preset")
        with self._package(request) as path:
            text = await self._in_process(worker.profile, path, self._access.native, preset)
        return web.Response(text=text, content_type="application/json")

    async def _serve(self, service: Service, request: web.Request) -> web.StreamResponse:
        seconds = _seconds_of(request)
        body = await self._body(request)
        text = await self._in_process(service.function, *service.arguments, body, seconds=seconds)
        return web.Response(text=text, content_type="application/json")

    @contextlib.contextmanager
    def _package(self, request: web.Request) -> Iterator[str]:
        """The file of the package that a request names, which stays. Raises HTTPNotFound."""
        digest = request.match_info["digest"]
        if digest not in self._store:
            raise web.HTTPNotFound(reason="there is no such package; send it again")
        with self._store.holding(digest) as path:
            yield str(path)

    async def _body(self, request: web.Request) -> bytes:
        """The body of a request. Raises TimeoutError if the client is too slow."""
        size = request.content_length
        if size is not None and size > self._limits.request_bytes:
            raise web.HTTPRequestEntityTooLarge(self._limits.request_bytes, size)
        async with asyncio.timeout(self._limits.idle_seconds):
            return await request.read()

    async def _in_process(
        self, work: Callable[..., Any], *arguments: Any, seconds: float = math.inf
    ) -> Any:
        """What a function returns that runs in one of the processes. Raises HTTPException.

        seconds: how long it may take, if that is less than the limit of the server.
        """
        seconds = min(seconds, self._limits.seconds)
        if self._busy >= self._limits.workers + self._limits.waiting:
            raise web.HTTPServiceUnavailable(reason="too many requests wait; try again later")
        with self._waiting(), self._metrics.seconds.time():
            try:
                return await self._workers.call(work, arguments, seconds)
            except TimeoutError:
                self._metrics.ended.inc()
                raise web.HTTPGatewayTimeout(reason=f"it took more than {seconds:g} s") from None
            except (EndedProcessError, MemoryError):
                self._metrics.ended.inc()
                raise web.HTTPInternalServerError(
                    reason="its process ended, most likely for want of memory"
                ) from None

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        self._busy += 1
        self._metrics.waiting.set(self._busy)
        try:
            yield
        finally:
            self._busy -= 1
            self._metrics.waiting.set(self._busy)


def _last_word(path: str) -> str:
    return path.rpartition("/")[2]


def _seconds_of(request: web.Request) -> float:
    """The seconds that a request may take by its own header. Raises HTTPBadRequest."""
    text = request.headers.get(SECONDS, "inf")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise web.HTTPBadRequest(reason=f"{SECONDS} is no time")
    return seconds


def _refusal(status: int, *problems: str, close: bool = False) -> web.Response:
    response = web.json_response({"problems": list(problems)}, status=status)
    if close:
        response.force_close()
    return response


@contextlib.asynccontextmanager
async def serving(
    limits: Limits,
    access: Admission,
    host: str,
    port: int,
    tell: Tell = lambda _: None,
    services: Mapping[str, Service] = MappingProxyType({}),
) -> AsyncIterator[tuple[str, int]]:
    """A server that runs while the body does. Yields its address."""
    server = Server(limits, access, tell, services)
    try:
        yield await server.start(host, port)
    finally:
        await server.stop()


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """The TLS settings for a certificate and its key. Raises `CompileError`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise CompileError(Problem(certificate, f"cannot be used for TLS: {error}")) from None
    return context
