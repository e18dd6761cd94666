"""``vta-serve`` and its client: results, bounds, and clients that behave badly.

The server is a process of its own on a loopback address, as users start it.
"""

import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from digits_model import MODEL, images
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy
from onnx import TensorProto, helper
from small_models import small_model, value_info

import vtac
from vtac.dialects.errors import CompileError
from vtac.runtime.remote.wire import NPZ, SAFETENSORS, WireArrays, known_forms
from vtac.tools.commands import vta_run, vta_serve

pytest.importorskip("aiohttp", reason="aiohttp is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("urllib3", reason="urllib3 is not installed")

TOKEN = "a secret"
MEGABYTE = 1 << 20
SHAPES = numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


@dataclass(frozen=True)
class Running:
    """A server: its process, its address, and an HTTP client that knows the token."""

    process: subprocess.Popen[str]
    address: str
    http: Any

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def metric(self, name: str) -> float:
        """The value of a line of ``/metrics``; 0 if there is none."""
        lines = self.http.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def is_well(self) -> bool:
        return bool(self.http.get("/health").json()["status"] == "ok")


def started(*options: str, token: str = TOKEN) -> Running:
    environment = {**os.environ, "VTAC_TOKEN": token}
    command = "from vtac.tools.commands.vta_serve import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "--listen", "127.0.0.1:0", "--workers", "1", *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = json.loads(line) if "--json" in options else None
    address = f"{found['host']}:{found['port']}" if found else line.split()[-1]
    headers = {"Authorization": f"Bearer {token}"}
    http = httpx.Client(base_url=f"http://{address}", headers=headers, trust_env=False, timeout=60)
    return Running(process, address, http)


def stopped(server: Running) -> int:
    """The exit status of a server that is told to end."""
    server.http.close()
    server.process.send_signal(signal.SIGINT)
    server.process.communicate(timeout=30)
    return server.process.returncode


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    server = started("--request-mb", "8", "--idle-seconds", "1", "--waiting", "4")
    yield server
    assert stopped(server) == 0


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packages") / "digits.vtapkg"
    vtac.compile(MODEL, "pynq", images()[:20]).save(path)
    return path


def test_a_run_there_equals_a_run_here(server: Running, package: Path) -> None:
    here = vtac.load(package)
    with vtac.connect(server.address, TOKEN) as device:
        there = device.load(package)
        for batch in (images()[20:21], images()[20:23]):
            found, expected = there.run({"image": batch}), here.run({"image": batch})
            np.testing.assert_array_equal(found["logits"], expected["logits"])
            assert there.counters == here.counters
            assert len(there.last_run.launches) == len(here.last_run.launches)
        assert there.remote_profile() == json.loads(here.profile().json())
        assert there.remote_profile("chisel-pynq")["cycles"] == here.profile("chisel-pynq").cycles
        sent = server.metric('vtac_requests_total{kind="package",status="201"}')
        device.load(package)
        compiled = device.load(vtac.load(package))
        assert server.metric('vtac_requests_total{kind="package",status="201"}') == sent
        with pytest.raises(CompileError, match=r"input 'image': has shape \[1, 1, 8, 9\]"):
            compiled.run({"image": np.zeros((1, 1, 8, 9), np.float32)})
        with pytest.raises(CompileError, match="orders and dumps are for modules that run here"):
            compiled.run({"image": images()[:1]}, order_seed=1)


def test_the_command_runs_there(
    server: Running,
    package: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("VTAC_TOKEN", TOKEN)
    np.savez(tmp_path / "x.npz", image=images()[:3])
    arguments = [str(package), "--remote", server.address]
    vta_run.main([*arguments, "--input", str(tmp_path / "x.npz"), "-o", str(tmp_path / "y.npz")])
    with np.load(tmp_path / "y.npz") as found:
        expected = vtac.load(package).run({"image": images()[:3]})
        np.testing.assert_array_equal(found["logits"], expected["logits"])
    capsys.readouterr()
    cycles = vtac.load(package).profile().cycles
    vta_run.main([*arguments, "--profile", "--json"])
    assert json.loads(capsys.readouterr().out)["cycles"] == cycles
    vta_run.main([*arguments, "--profile"])
    assert f" {cycles:,} " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        vta_run.main([*arguments, "--profile", "--timeline", str(tmp_path / "t.png")])
    assert "--timeline: is for packages that run here" in capsys.readouterr().err


def test_who_does_not_know_the_token_gets_nothing(server: Running, package: Path) -> None:
    for token in (None, "another", TOKEN + "x", TOKEN[:-1]):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        with httpx.Client(base_url=f"http://{server.address}", headers=headers) as http:
            assert http.get("/health").status_code == 200
            for method, path in (
                ("GET", "/metrics"),
                ("PUT", f"/packages/{digest}"),
                ("POST", f"/packages/{digest}/run"),
            ):
                assert http.request(method, path).status_code == 401
    refused = pytest.raises(CompileError, match="the token is missing or wrong")
    with vtac.connect(server.address, "wrong") as device, refused:
        device.load(package)


def test_nonsense_is_refused_with_its_reason(server: Running, package: Path) -> None:
    data = package.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    put, post = server.http.put, server.http.post
    assert "do not have this digest" in put(f"/packages/{digest}", content=data[:-1]).text
    assert put("/packages/..%2f..%2fetc", content=b"").status_code in (404, 422)
    nothing = hashlib.sha256(b"nothing").hexdigest()
    assert put(f"/packages/{nothing}", content=b"nothing").status_code == 201
    assert "problems" in post(f"/packages/{nothing}/run", content=b"").json()
    assert put(f"/packages/{digest}", content=data).status_code == 201
    for body in (b"", b"garbage", b"PK\x03\x04 half of it", os.urandom(1000)):
        answer = post(f"/packages/{digest}/run", content=body)
        assert answer.status_code == 422 and "is no .npz file" in answer.text
    assert "input 'image': is missing" in post(f"/packages/{digest}/run", content=_npz({})).text
    header = b"\x93NUMPY\x01\x00\x46\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    pickled = _npz({"image.npy": header.ljust(80) + b"\ncos\nsystem\n"})
    assert post(f"/packages/{digest}/run", content=pickled).status_code == 422
    answer = server.http.get(f"/packages/{digest}/profile?preset=none")
    assert answer.status_code == 422 and "no timing preset 'none'" in answer.text
    assert server.http.get("/elsewhere").status_code == 404
    assert server.http.delete(f"/packages/{digest}").status_code == 405
    assert server.is_well()


def _npz(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


DTYPES = st.sampled_from("?bBhHiIlLqQefdFDUS")


@given(
    st.dictionaries(st.text(max_size=5), DTYPES.flatmap(lambda dtype: numpy.arrays(dtype, SHAPES))),
    st.sampled_from([(NPZ,), known_forms()]),
    st.booleans(),
)
def test_arrays_come_back_in_every_form(
    arrays: dict[str, Any], forms: tuple[str, ...], turned: bool
) -> None:
    sent = {name: array.T if turned else array for name, array in arrays.items()}
    names = {name for name in sent if "\0" not in name and "/" not in name}
    sent = {name: sent[name] for name in names if name.isascii()}
    body = WireArrays.of(sent, forms)
    found = WireArrays(body.form, body.data).arrays(1 << 30)
    assert found.keys() == sent.keys()
    for name, array in sent.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype and found[name].flags.writeable


@given(st.data(), st.sampled_from(known_forms()))
def test_bodies_that_were_changed_are_arrays_or_refused(data: st.DataObject, form: str) -> None:
    body = WireArrays.of({"a": np.arange(6, dtype=np.int8), "b": np.ones((2, 3))}, [form])
    assert body.form == form
    whole = bytearray(body.data)
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(whole), data.draw(st.integers(0, len(whole)))]))
    try:
        found = WireArrays(form, bytes(whole[:cut])).arrays(1000)
    except CompileError:
        return
    assert all(isinstance(array, np.ndarray) and array.nbytes <= 1000 for array in found.values())


@pytest.mark.skipif(SAFETENSORS not in known_forms(), reason="safetensors is not installed")
@given(st.data())
def test_heads_of_safetensors_that_lie_are_refused(data: st.DataObject) -> None:
    """Any types, extents and places, whether or not the bytes are there."""
    kinds = ["F32", "BF16", "F8_E4M3", "F4", "C64", "BOOL", "U64", "?", 1]
    numbers = st.integers(-2, 2**64)
    array = st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(kinds),
            "shape": st.lists(numbers | st.integers(0, 3), max_size=3),
            "data_offsets": st.lists(numbers | st.integers(0, 16), min_size=1, max_size=3),
        }
    )
    head = json.dumps(data.draw(st.dictionaries(st.text(max_size=3), array, max_size=3))).encode()
    length = data.draw(st.sampled_from([len(head), 0, 1 << 63, len(head) + 1]))
    rest = bytes(data.draw(st.sampled_from([0, 8, 16, 24])))
    try:
        found = WireArrays(SAFETENSORS, length.to_bytes(8, "little") + head + rest).arrays(1000)
    except CompileError:
        return
    assert sum(array.nbytes for array in found.values()) == len(rest)


def test_a_client_chooses_the_form(server: Running, package: Path) -> None:
    """A body of either form, and the answer in one that the client reads."""
    with vtac.connect(server.address, TOKEN) as device:
        module = device.load(package)
        expected = module.run(images()[:1])["logits"]
    path = f"/packages/{hashlib.sha256(package.read_bytes()).hexdigest()}/run"
    plain = known_forms()[0]
    for form, accepted, answered in (
        (NPZ, "*/*", NPZ),
        (NPZ, plain, plain),
        (plain, f"{NPZ};q=0.1, {plain}", plain),
        (plain, "text/html", NPZ),
        ("image/png", "", NPZ),
    ):
        body = WireArrays.of({"image": images()[:1]}, [form])
        headers = {"Content-Type": form, "Accept": accepted}
        answer = server.http.post(path, content=body.data, headers=headers)
        assert answer.status_code == 200 and answer.headers["Content-Type"] == answered
        found = WireArrays(answered, answer.content).arrays(1 << 20)
        np.testing.assert_array_equal(found["logits"], expected)


def test_bodies_are_bounded_also_unpacked(server: Running, package: Path) -> None:
    large = bytes(9 * MEGABYTE)
    digest = hashlib.sha256(large).hexdigest()
    assert server.http.put(f"/packages/{digest}", content=large).status_code == 413
    known = hashlib.sha256(package.read_bytes()).hexdigest()
    server.http.put(f"/packages/{known}", content=package.read_bytes())
    bomb = _npz({"image.npy": large})
    assert len(bomb) < MEGABYTE
    answer = server.http.post(f"/packages/{known}/run", content=bomb)
    assert answer.status_code == 422 and "at most 8,388,608 may be" in answer.text


def test_clients_that_behave_badly_are_forgotten(server: Running, package: Path) -> None:
    def raw(data: bytes) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        client.sendall(data)
        return client

    head = f"Host: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    for data in (b"", b"\x00\xff garbage\r\n\r\n", b"GET /health HTTP/1.1\r\nHost: x\r\n", head):
        raw(data).close()
    half = raw(
        b"PUT /packages/" + b"0" * 64 + b" HTTP/1.1\r\n" + head + b"Content-Length: 99\r\n\r\nx"
    )
    half.close()
    slow = raw(
        b"PUT /packages/" + b"0" * 64 + b" HTTP/1.1\r\n" + head + b"Content-Length: 99\r\n\r\nx"
    )
    assert b"408" in slow.recv(1000)
    silent = raw(b"GET /hea")
    assert silent.recv(1000) == b""  # the server has closed it
    for _ in range(300):
        raw(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").close()
    assert server.is_well()
    with vtac.connect(server.address, TOKEN) as device:
        assert device.load(package).run(images()[:1])["logits"].shape == (1, 10)
    assert server.metric("vtac_waiting") == 0


def endless() -> onnx.ModelProto:
    """A network that adds one to its input 2^60 times."""
    step = [helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("Identity", ["c"], ["d"])]
    inside = [
        value_info("i", [], TensorProto.INT64),
        value_info("c", [], TensorProto.BOOL),
        value_info("v", [2]),
    ]
    after = [value_info("d", [], TensorProto.BOOL), value_info("w", [2])]
    body = helper.make_graph(step, "body", inside, after)
    loop = helper.make_node("Loop", ["times", "", "x"], ["y"], body=body)
    return small_model([loop], {"x": [2]}, ["y"], {"times": np.array(2**60)})


def test_a_run_that_takes_too_long_is_ended(package: Path, tmp_path: Path) -> None:
    vtac.compile(endless()).save(tmp_path / "endless.vtapkg")
    server = started("--seconds", "2")
    try:
        with vtac.connect(server.address, TOKEN) as device:
            module = device.load(tmp_path / "endless.vtapkg")
            with pytest.raises(CompileError, match="it took more than 2 s"):
                module.run({"x": np.ones(2, np.float32)})
            assert server.metric("vtac_processes_ended_total") == 1
            assert server.is_well() and server.metric("vtac_waiting") == 0
    finally:
        assert stopped(server) == 0


def test_what_a_server_tells() -> None:
    for options, told in (
        ([], [404, 401]),
        (["--verbose"], [200, 404, 401]),
        (["--quiet"], []),
    ):
        server = started("--json", *options)
        server.http.get("/health")
        server.http.get("/elsewhere")
        httpx.get(f"http://{server.address}/metrics", trust_env=False)
        server.http.close()
        server.process.send_signal(signal.SIGINT)
        _, err = server.process.communicate(timeout=60)
        events = [json.loads(line) for line in err.splitlines()]
        assert [event["status"] for event in events] == told
        assert all(event["client"] == "127.0.0.1" for event in events)


HEADS = st.one_of(
    st.binary(min_size=1, max_size=60).map(lambda data: b"\x16\x03" + data),  # as TLS begins
    st.binary(max_size=30).map(lambda data: b"GET / HTTP/1.1\r\nHost: x\r\nA\0: " + data),
    st.integers(2, 99).map(lambda major: f"GET / HTTP/{major}.x\r\nHost: x".encode()),
    st.just(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1"),
)
"""Heads of requests that are no HTTP."""


def test_requests_that_are_no_http_are_told_and_counted() -> None:
    server, heads = started("--json"), list[bytes]()

    @given(HEADS)
    @settings(max_examples=40, database=None, deadline=None)
    def refused(head: bytes) -> None:
        heads.append(head)
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            client.sendall(head + b"\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.0 400")

    refused()
    assert server.metric('vtac_requests_total{kind="malformed",status="400"}') == len(heads)
    assert server.is_well()
    server.http.close()
    server.process.send_signal(signal.SIGINT)
    _, err = server.process.communicate(timeout=60)
    events = [json.loads(line) for line in err.splitlines()]
    assert len(events) == len(heads)
    assert all(each["method"] == "malformed" and each["status"] == 400 for each in events)


def test_packages_give_way_when_the_store_is_full(tmp_path: Path) -> None:
    from vtac.runtime.remote.store import PackageStore

    store = PackageStore(tmp_path, 100)
    packages = [bytes([number]) * 40 for number in range(4)]
    digests = [hashlib.sha256(data).hexdigest() for data in packages]
    for digest, data in zip(digests[:2], packages, strict=False):
        store.add(digest, data)
    with store.holding(digests[0]) as path:
        store.add(digests[2], packages[2])
        assert path.read_bytes() == packages[0] and digests[1] not in store
        refused = pytest.raises(CompileError, match="the store is full of packages that run")
        with store.holding(digests[2]), refused:
            store.add(digests[3], packages[3])
    store.add(digests[3], packages[3])
    assert store.total == 80 and len(list(tmp_path.iterdir())) == 2
    with pytest.raises(CompileError, match="is larger than 100 bytes"):
        store.add(hashlib.sha256(bytes(101)).hexdigest(), bytes(101))


@pytest.mark.parametrize(
    ("arguments", "token", "message"),
    [
        (["--listen", "127.0.0.1"], TOKEN, "is not HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], TOKEN, "is not HOST:PORT"),
        (["--listen", "0.0.0.0:0"], "", "others could reach it without a token"),
        (["--tls-key", "k.pem"], TOKEN, "belong together"),
        (["--tls-key", "k.pem", "--tls-certificate", "c.pem"], TOKEN, "cannot read it"),
        (["--tls-key", __file__, "--tls-certificate", __file__], TOKEN, "cannot be used for TLS"),
        (["--workers", "0"], TOKEN, "0 is less than 1"),
    ],
)
def test_arguments_that_make_no_sense(
    arguments: list[str],
    token: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VTAC_TOKEN", token)
    with pytest.raises(SystemExit) as end:
        vta_serve.main(arguments)
    assert end.value.code == 1 and message in capsys.readouterr().err


def test_a_device_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(CompileError, match=r"no answer: Connection refused\n.*Is vta-serve run"):
        vtac.connect(address)
