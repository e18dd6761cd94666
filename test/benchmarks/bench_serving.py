"""A soak test of ``vta-serve``: many clients, some of which behave badly.

    python test/benchmarks/bench_serving.py --requests 100000 --clients 50
    python test/benchmarks/bench_serving.py --seconds 600
    python test/benchmarks/bench_serving.py --seconds 60 --tls --connections 10000
    python test/benchmarks/bench_serving.py --latency MODEL.onnx

Prints latencies, the overhead of the wire over a local run, what was refused, and the server's
memory and open files after a tenth of the requests and at the end. Exits with 1 if an answer was
wrong or lost.
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

import vtac
from vtac.runtime.remote.client import RemoteDevice

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
TOKEN = "soak"
FAULTY = 0.1
"""The share of requests that are faulty."""


class Soak:
    """Clients that share a number of requests.

    certificate: what clients trust; None without TLS.
    """

    def __init__(
        self, address: str, package: Path, requests: int, until: float, certificate: Path | None
    ) -> None:
        self.address, self.package, self.certificate = address, package, certificate
        self.left, self.until = requests, until
        self.lock = threading.Lock()
        self.seconds: list[float] = []
        self.counts = Counter[str]()
        module = vtac.load(package)
        (image,) = module.inputs
        shape = [extent or 1 for extent in image.shape or ()]
        self.image = np.random.default_rng(0).random(shape, np.float32)
        self.output = module.output_names[0]
        self.expected = module.run(self.image)[self.output]

    def connected(self) -> RemoteDevice:
        """A device that is the server."""
        return vtac.connect(self.address, TOKEN, certificates=self.certificate)

    def take(self) -> bool:
        """Whether there is another request to make."""
        with self.lock:
            self.left -= 1
            return self.left >= 0 and time.monotonic() < self.until

    def client(self, seed: int) -> None:
        """One client: mostly good requests, now and then a fault."""
        chance = random.Random(seed)
        with self.connected() as device:
            module = device.load(self.package)
            while self.take():
                if chance.random() < FAULTY:
                    self.misbehave(chance)
                    continue
                started = time.perf_counter()
                try:
                    right = np.array_equal(module.run(self.image)[self.output], self.expected)
                    self.count("right" if right else "WRONG")
                except vtac.CompileError as error:
                    self.count("refused" if "too many" in str(error) else f"LOST: {error}")
                with self.lock:
                    self.seconds.append(time.perf_counter() - started)

    def misbehave(self, chance: random.Random) -> None:
        """Send half a message, garbage, nothing, or much without reading answers, and vanish."""
        host, _, port = self.address.partition(":")
        head = f"PUT /packages/{'0' * 64} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        message = f"{head}Content-Length: 1000\r\n\r\n".encode() + bytes(1000)
        mutated = bytearray(message)
        mutated[chance.randrange(len(head))] = chance.randrange(256)
        asked = f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        data = chance.choice(
            [
                message[: chance.randrange(len(message))],
                bytes(mutated),
                chance.randbytes(200),
                b"",
                100 * asked.encode(),  # whose answers nobody reads
            ]
        )
        try:
            with socket.create_connection((host, int(port)), timeout=10) as wire:
                wire.sendall(data)
                if chance.random() < 0.01:
                    time.sleep(chance.random())  # a slow client
        except OSError:
            pass
        self.count("faults")

    def count(self, what: str) -> None:
        """Count an outcome."""
        with self.lock:
            self.counts[what] += 1


def connect_in_a_row(address: str, count: int) -> float:
    """Seconds for so many connections, one after the other, each of which asks for the health."""
    host, _, port = address.partition(":")
    started = time.perf_counter()
    for _ in range(count):
        with socket.create_connection((host, int(port)), timeout=60) as wire:
            wire.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            wire.recv(1000)
    return time.perf_counter() - started


def open_files(process: int) -> int:
    """How many files and sockets a process has open."""
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def made_certificate(folder: Path) -> list[str]:
    """The options of a server with a certificate of its own, which openssl makes."""
    certificate, key = folder / "c.pem", folder / "k.pem"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return ["--tls-certificate", str(certificate), "--tls-key", str(key)]


def memory_of(process: int) -> float:
    """Megabytes of a process and its children that are in memory."""
    total = 0.0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except (OSError, ValueError):
            continue
        if process in (int(status.parent.name), int(lines["PPid"])):
            total += int(lines.get("VmRSS", "0 kB").split()[0]) / 1024
    return total


def main() -> int:
    """Run the clients, and print what they saw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--connections", type=int, default=0, help="so many in a row at the end")
    parser.add_argument("--latency", metavar="MODEL.onnx", help="only the latency of one client")
    args = parser.parse_args()
    requests = args.requests if args.seconds == float("inf") else sys.maxsize
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "model.vtapkg"
        compiled(args.latency or DIGITS).save(package)
        tls = made_certificate(Path(folder)) if args.tls else []
        command = "from vtac.tools.commands.vta_serve import main; main()"
        server = subprocess.Popen(
            [sys.executable, "-c", command, "--listen", "127.0.0.1:0", "--waiting", "200", *tls],
            env={**os.environ, "VTAC_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        until = time.monotonic() + (0 if args.latency else args.seconds)
        soak = Soak(address, package, requests, until, Path(folder, "c.pem") if tls else None)
        threads = [threading.Thread(target=soak.client, args=(n,)) for n in range(args.clients)]
        for thread in threads:
            thread.start()
        while len(soak.seconds) < min(requests // 10, 1000) and any(t.is_alive() for t in threads):
            time.sleep(0.1)
        early, early_files = memory_of(server.pid), open_files(server.pid)
        for thread in threads:
            thread.join()
        row = connect_in_a_row(address, args.connections) if args.connections and not tls else 0.0
        late, late_files = memory_of(server.pid), open_files(server.pid)
        remote, local = _medians(soak)
        server.send_signal(signal.SIGINT)
        status = server.wait(60)
    table = Table(title="vta-serve under load", title_justify="left", show_header=False)
    rows = {
        "clients": f"{args.clients}",
        **{what: f"{count:,}" for what, count in sorted(soak.counts.items())},
        "median under load": f"{np.median(soak.seconds or [0]) * 1e3:.1f} ms",
        "99 % under load": f"{np.percentile(soak.seconds or [0], 99) * 1e3:.1f} ms",
        "connections in a row": f"{args.connections:,} in {row:.1f} s",
        "median of one client": f"{remote * 1e3:.2f} ms",
        "median of a local run": f"{local * 1e3:.2f} ms",
        "overhead": f"{(remote - local) * 1e3:.2f} ms",
        "memory early, late": f"{early:.0f} MB, {late:.0f} MB",
        "open files early, late": f"{early_files}, {late_files}",
        "exit status": f"{status}",
    }
    for name, text in rows.items():
        table.add_row(name, text)
    Console().print(table)
    wrong = sum(count for what, count in soak.counts.items() if what.startswith(("WRONG", "LOST")))
    return int(wrong > 0 or status != 0)


def compiled(model: str | Path) -> vtac.Module:
    """A network of one input, calibrated on noise."""
    shape = [d.dim_value or 1 for d in onnx.load(model).graph.input[0].type.tensor_type.shape.dim]
    samples = np.random.default_rng(1).random((50, *shape), np.float32)
    return vtac.compile(model, "pynq", samples)


def _medians(soak: Soak) -> tuple[float, float]:
    """The median seconds of a run there and of a run here, one client alone."""
    here = vtac.load(soak.package)
    with soak.connected() as device:
        there = device.load(soak.package)
        found = []
        for module in (there, here):
            seconds = []
            for _ in range(100):
                started = time.perf_counter()
                module.run(soak.image)
                seconds.append(time.perf_counter() - started)
            found.append(float(np.median(seconds)))
    return found[0], found[1]


if __name__ == "__main__":
    raise SystemExit(main())
