"""The client: a device behind a wire, and modules that run there."""

import hashlib
import json
import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError, LocationValueError

from vtac.dialects.arguments import NONE, PATH, TEXT, instance, number, takes
from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.device import Device
from vtac.runtime.engine import Engine
from vtac.runtime.executor import Launch, Module, RunRecord
from vtac.runtime.package import Package, package_to_bytes, read_package
from vtac.runtime.remote.wire import (
    HEALTH,
    NPZ,
    PACKAGE,
    PACKAGES,
    PROFILE,
    RECORD,
    RUN,
    SECONDS,
    WireArrays,
    known_forms,
)
from vtac.sim import Counters, TimingPreset

CONNECT_SECONDS = 10.0
"""How long a server may take to accept a connection."""

CONNECTIONS = 16
"""The most idle connections that a device keeps, for as many threads that use it at one time."""

MOST = 1 << 32
"""The most bytes that an answer may unpack to."""


class UnreachableError(CompileError):
    """There is no answer from a server."""


class RefusedError(CompileError):
    """A server refuses a request. status: of its answer, as HTTP has it."""

    def __init__(self, problems: Sequence[Problem], status: int) -> None:
        super().__init__(problems)
        self.status = status


class RemoteDevice:
    """A server of `vta-serve`. Use it as a context manager, or `close` it.

    workers: how many requests it works on at one time. forms: of arrays that it and this side know.
    """

    def __init__(self, address: str, token: str | None, tls: ssl.SSLContext | None, seconds: float):
        self.address = address
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = _connections(address, tls, seconds)
        health = _health(self.request("GET", HEALTH))
        self.workers, self.forms = _workers(health), _forms(health)

    def __enter__(self) -> "RemoteDevice":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    @takes(package=PATH | instance("a Module", Module))
    def load(self, package: str | os.PathLike[str] | Module) -> "RemoteModule":
        """A package, or a module that was compiled here, to be run there; sent if it is new there.

        Raises `CompileError`.
        """
        if isinstance(package, Module):
            contents, data = package.package, package_to_bytes(package.package)
        else:
            contents, data = read_package(package, allow_native=True), Path(package).read_bytes()
        return RemoteModule(self, contents, data)

    def ask(self, service: str, body: bytes, seconds: float, wait: float) -> bytes:
        """The answer of one of the services of the server, which may take so many seconds.

        wait: how many seconds to wait for the answer, which may have to wait there for others.
        Raises `UnreachableError` and `RefusedError`.
        """
        headers = {SECONDS: f"{seconds:g}"}
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=wait)
        response = self.request("POST", f"/{service}", body, headers, timeout=timeout)
        if response.status == 404:
            raise RefusedError([Problem(self.address, f"does not offer {service}")], 404)
        return response.data

    def is_well(self) -> bool:
        """Whether the server answers."""
        try:
            self.request("GET", HEALTH)
        except CompileError:
            return False
        return True

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        **options: Any,
    ) -> urllib3.BaseHTTPResponse:
        """The answer to a request; also that something is not there, 404.

        options: those of urllib3. Raises `UnreachableError`, and `RefusedError` with what the
        server says.
        """
        sent = {**self._headers, **headers}
        try:
            response = self._http.urlopen(method, path, body, sent, retries=False, **options)
        except HTTPError as error:
            what = f"no answer: {_why(error)}"
            hint = "Is vta-serve running there?"
            raise UnreachableError(Problem(self.address, what, hint)) from None
        if response.status < 300 or response.status == 404:
            return response
        try:
            problems = [str(problem) for problem in response.json()["problems"]]
        except (ValueError, KeyError, TypeError):
            problems = [f"answers with status {response.status}"]
        told = [Problem(self.address, problem) for problem in problems]
        raise RefusedError(told, response.status)


class RemoteModule(Module):
    """A compiled model that runs on another machine.

    Inputs are checked, cast and regrouped into batches here, as `vtac.Module` does; each batch is a
    request.
    """

    def __init__(self, device: RemoteDevice, package: Package, data: bytes) -> None:
        super().__init__(package)
        self._remote, self._data = device, data
        self._path = f"{PACKAGES}/{hashlib.sha256(data).hexdigest()}"
        if device.request("GET", self._path).status == 404:
            self._send()

    def _open(self, device: Device | None, engines: Mapping[str, Engine] | None) -> None:
        """Nothing runs here."""

    def _run_batch(
        self,
        feeds: Mapping[str, Any],
        record: RunRecord,
        order_seed: int | None,
        folder: Path | None,
    ) -> dict[str, Any]:
        if order_seed is not None or folder is not None:
            what = "orders and dumps are for modules that run here"
            raise CompileError(Problem(self._remote.address, what))
        forms = self._remote.forms
        inputs = WireArrays.of(feeds, forms)
        headers = {"Content-Type": inputs.form, "Accept": ", ".join(forms)}
        response = self._asked("POST", RUN, inputs.data, headers)
        _add(json.loads(response.headers.get(RECORD, "{}")), record)
        outputs = WireArrays(response.headers.get("Content-Type", NPZ), response.data)
        found = outputs.arrays(MOST)
        return {name: found[name] for name in self.output_names}

    def profile(self, preset: str | TimingPreset | None = None) -> NoReturn:
        """Raise `CompileError`: `remote_profile` has the times of the other machine."""
        raise CompileError(Problem(self._remote.address, "see remote_profile"))

    def remote_profile(self, preset: str | None = None) -> dict[str, Any]:
        """How long each launch takes there, as plain values: the JSON of `vtac.Module.profile`."""
        query = "" if preset is None else f"?{urlencode({'preset': preset})}"
        found: dict[str, Any] = self._asked("GET", f"{PROFILE}{query}").json()
        return found

    def _asked(
        self,
        method: str,
        what: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> urllib3.BaseHTTPResponse:
        """An answer about the package, which is sent again if the server has dropped it."""
        path = f"{self._path}/{what}"
        response = self._remote.request(method, path, body, headers)
        if response.status == 404:
            self._send()
            response = self._remote.request(method, path, body, headers)
        if response.status == 404:
            raise CompileError(Problem(self._remote.address, "does not keep the package"))
        return response

    def _send(self) -> None:
        headers = {"Content-Type": PACKAGE}
        self._remote.request("PUT", self._path, self._data, headers)


def _connections(
    address: str, tls: ssl.SSLContext | None, seconds: float
) -> urllib3.HTTPConnectionPool:
    """Connections to a server, which threads share. Raises LocationValueError on no address.

    A head and its body go out as one message, which the server takes up at once.
    """
    place = urllib3.util.parse_url(f"http://{address}")
    if not place.host or place.request_uri != "/":
        raise LocationValueError(f"{address!r} names no host and port")
    timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=seconds)
    if tls is None:
        return urllib3.HTTPConnectionPool(
            place.host, place.port, timeout=timeout, maxsize=CONNECTIONS
        )
    return urllib3.HTTPSConnectionPool(
        place.host, place.port, timeout=timeout, maxsize=CONNECTIONS, ssl_context=tls
    )


def _why(error: HTTPError) -> str:
    """Why there is no answer, in the words of the system where it has some."""
    for cause in (error.__cause__, *error.args):
        if isinstance(cause, OSError):
            return cause.strerror or str(cause)
    return str(error) or type(error).__name__


def _health(answer: urllib3.BaseHTTPResponse) -> Mapping[str, Any]:
    """What a server says of itself; nothing if that cannot be read."""
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _workers(health: Mapping[str, Any]) -> int:
    """How many processes a server says that it has; 1 if it does not say."""
    found = health.get("workers")
    return max(1, found) if isinstance(found, int) else 1


def _forms(health: Mapping[str, Any]) -> tuple[str, ...]:
    """The forms of arrays that both sides know, the quickest first."""
    theirs = health.get("forms")
    both = [form for form in known_forms() if isinstance(theirs, list) and form in theirs]
    return tuple(both) or (NPZ,)


def _add(sent: Mapping[str, Any], record: RunRecord) -> None:
    """Add the record of a batch, as the server sent it, to that of the run."""
    record.host_seconds += sent.get("host_seconds", 0.0)
    record.launches += [
        Launch(each["function"], Counters(**each["counters"]), each["seconds"])
        for each in sent.get("launches", ())
    ]


@takes(address=TEXT, token=TEXT | NONE, certificates=PATH | NONE, seconds=number(above=0))
def connect(
    address: str,
    token: str | None = None,
    *,
    certificates: str | os.PathLike[str] | None = None,
    seconds: float = 150.0,
) -> RemoteDevice:
    """A device behind a wire. Raises `CompileError` if there is none.

    address: ``HOST:PORT`` of a `vta-serve`. token: what the server asks for. certificates: a file
    of those to trust; the connection is then encrypted. seconds: how long to wait for an answer.
    """
    tls = None
    if certificates is not None:
        try:
            tls = ssl.create_default_context(cafile=os.fspath(certificates))
        except (OSError, ssl.SSLError) as error:
            raise CompileError(Problem(str(certificates), f"cannot be read: {error}")) from None
    try:
        return RemoteDevice(address, token, tls, seconds)
    except LocationValueError as error:
        raise CompileError(
            Problem(f"argument address: {address!r}", f"is not HOST:PORT: {error}")
        ) from None
