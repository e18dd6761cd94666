"""Commands of the lit tests without their start-up: forked from a process that has imported xDSL.

Nearly all of the time of a lit test is the start of Python and the imports of xDSL, ONNX, NumPy and
our dialects. `serve` imports them once and then forks for each command; `COMMAND` is the file that
stands for a command in the PATH of the tests, and hands its arguments, folder, environment and
streams over. A command runs as its entry point says, in a process of its own. Of ours only the
dialects are imported before, which stand on xDSL and NumPy alone: a command must import its passes
and whatever it is made of itself, as it does for a user.
"""

import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import NoReturn

PRELOADED = (
    "filecheck.main",
    "numpy",
    "onnx",
    "onnx.reference",
    "onnx.shape_inference",
    "xdsl.dialects.affine",
    "xdsl.dialects.arith",
    "xdsl.dialects.builtin",
    "xdsl.dialects.func",
    "xdsl.dialects.memref",
    "xdsl.parser",
    "xdsl.passes",
    "xdsl.pattern_rewriter",
    "xdsl.xdsl_opt_main",
    "vtac.dialects.graph",
    "vtac.dialects.target",
    "vtac.dialects.te",
    "vtac.dialects.vta",
)
"""What costs most to import."""

COMMAND = """#!{python} -IS
import _socket, os, sys
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
parts = [os.path.basename(sys.argv[0]), os.getcwd(), str(len(sys.argv) - 1), *sys.argv[1:]]
parts += [f"{{name}}={{value}}" for name, value in os.environ.items()]
text = "\\0".join(parts).encode("utf-8", "surrogateescape")
streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2))
rights = _socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams
server.sendmsg([len(text).to_bytes(8, "little")], [rights])
server.sendall(text)
status = server.recv(1)
sys.exit(status[0] if status else "the command ended without a status")
"""
"""It does without ``socket``, whose import takes longer than all the rest of it."""


def start(folder: Path, names: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Start the server, and write a file for each command into a folder.

    The server ends with the process that started it: when nobody holds its standard input.
    """
    address = str(Path(tempfile.mkdtemp(prefix="vtac-lit-")) / "socket")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        file = folder / name
        file.write_text(COMMAND.format(python=sys.executable, address=address))
        file.chmod(0o755)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    arguments = [sys.executable, __file__, str(listening.fileno()), address]
    server = subprocess.Popen(
        arguments, stdin=subprocess.PIPE, pass_fds=[listening.fileno()], start_new_session=True
    )
    listening.close()
    return server


def serve(listening: socket.socket) -> None:
    """Fork for each command, until standard input is closed."""
    for module in PRELOADED:
        importlib.import_module(module)
    entries = {entry.name: entry for entry in entry_points(group="console_scripts")}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        client, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _run(client, entries)
        client.close()


def _run(client: socket.socket, entries: Mapping[str, EntryPoint]) -> NoReturn:
    """One command, in a process of its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, streams, _, _ = socket.recv_fds(client, 8, 3)
    text = b""
    while len(text) < int.from_bytes(length, "little"):
        text += client.recv(1 << 16)
    name, folder, count, *rest = text.decode("utf-8", "surrogateescape").split("\0")
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(each.split("=", 1) for each in rest[int(count) :])
    sys.argv = [name, *rest[: int(count)]]
    status = _status_of(entries[name])
    sys.stdout.flush()
    sys.stderr.flush()
    client.sendall(bytes([status & 255]))
    os._exit(status & 255)


def _status_of(entry: EntryPoint) -> int:
    """Run an entry point as its script would; what it exits with."""
    try:
        sys.exit(entry.load()())
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # a script would end so too
        sys.excepthook(*sys.exc_info())
        return 1


if __name__ == "__main__":
    try:
        serve(socket.socket(fileno=int(sys.argv[1])))
    finally:
        Path(sys.argv[2]).unlink()
        Path(sys.argv[2]).parent.rmdir()
