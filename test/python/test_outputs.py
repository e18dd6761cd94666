"""Outputs that are no plain files, interruptions, and streams that fail."""

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from digits_model import MODEL, save_images
from tiny_package import tiny_package

from vtac.dialects.errors import CompileError
from vtac.runtime.atomic import is_file, write_together, write_whole
from vtac.runtime.package import write_package
from vtac.tools.commands import vta_compile, vta_opt, vta_run, vta_sim, vta_translate
from vtac.tools.commands.guard import guard

MODULES = (vta_compile, vta_opt, vta_run, vta_sim, vta_translate)
COMMANDS = ("vta_compile", "vta_opt", "vta_run", "vta_sim", "vta_translate")


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for target in (tmp_path / "real" / "old", tmp_path / "real" / "new"):
        link = tmp_path / f"to_{target.name}"
        link.symlink_to(target)
    (tmp_path / "real" / "old").write_bytes(b"old")
    (tmp_path / "real" / "old").chmod(0o640)
    for name in ("old", "new"):
        write_whole(tmp_path / f"to_{name}", b"content")
        assert (tmp_path / f"to_{name}").is_symlink()
        assert (tmp_path / "real" / name).read_bytes() == b"content"
    assert (tmp_path / "real" / "old").stat().st_mode & 0o777 == 0o640
    assert sorted(file.name for file in (tmp_path / "real").iterdir()) == ["new", "old"]


def test_files_of_a_folder_are_written_together_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = ({name: text + name.encode() for name in "abc"} for text in (b"old ", b"new "))
    write_together(tmp_path / "d" / "e", old)
    folder = tmp_path / "d" / "e"

    def found() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in folder.iterdir()}

    written, replaced = Path.write_bytes, os.replace

    def interrupted(path: Path, data: bytes) -> int:
        if data == new["c"]:
            raise KeyboardInterrupt
        return written(path, data)

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_together(folder, new)
    monkeypatch.undo()
    assert found() == old

    def late(source: Path, target: Path) -> None:
        signal.raise_signal(signal.SIGINT)
        replaced(source, target)

    monkeypatch.setattr(os, "replace", late)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            write_together(folder, new)
    finally:
        signal.signal(signal.SIGINT, before)
    assert found() == new
    with pytest.raises(CompileError, match="cannot make it"):
        write_together(folder / "a" / "b", new)


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not is_file(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"content" * 30000)
    reader.join(60)
    assert read == [b"content" * 30000]
    assert pipe.is_fifo() and [file.name for file in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("kind", ["file", "pipe", "link"])
def test_the_bytes_of_a_package_are_told_wherever_it_goes(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, target, read = tmp_path / "m.vtapkg", tmp_path / "target", list[bytes]()
    if kind == "link":
        path.symlink_to(target)
    if kind == "pipe":
        os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    if kind == "pipe":
        reader.start()
    vta_compile.main([str(MODEL), "-o", str(path)])
    if kind != "pipe":
        reader.start()
    reader.join(60)
    assert f": {len(read[0]):,} bytes; " in capsys.readouterr().out
    package = tmp_path / "package"
    assert write_package(tiny_package(), package) == package.stat().st_size > 0


def test_ir_goes_through_a_pipe_without_files_beside_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    vta_opt.main([str(MODEL), "-o", str(pipe)])
    reader.join(60)
    assert "graph.conv" in read[0]
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("name", [".", "..", "/", "folder", "folder/", "absent/", "folder/.."])
def test_folders_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompileError, match="is a folder"):
        write_whole(name, b"content")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o444)
    with pytest.raises(CompileError, match="read-only"):
        write_whole(file, b"new")
    assert file.read_bytes() == b"old"


def test_what_was_there_stays_if_the_new_content_fails(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with pytest.raises(CompileError), contextlib.suppress(KeyError):
        write_whole(file / "below", b"new")
    assert file.read_bytes() == b"old" and list(tmp_path.iterdir()) == [file]
    write_whole(tmp_path / ("n" * 250), b"the longest names")


def test_standard_output_lacks_large_constants_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vta_opt.main([str(MODEL)])
    said = capsys.readouterr()
    assert "note: the text refers to 4 large constants" in said.err, said.err
    (tmp_path / "m.mlir").write_text(said.out)
    with pytest.raises(SystemExit):
        vta_opt.main([str(tmp_path / "m.mlir"), "-p", "canonicalize-graph,flatten-to-conv"])
    assert "-o FILE.mlir writes both" in capsys.readouterr().err


def run(
    command: str,
    *args: str | Path,
    stdout: int = subprocess.PIPE,
    limit: int | None = None,
    **environment: str,
) -> tuple[int, str]:
    """The exit status and the errors of a command. limit: bytes that a file may have."""

    def limited() -> None:
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    code = f"import sys; from vtac.tools.commands.entry import {command}; sys.exit({command}())"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        preexec_fn=limited,
    )
    return done.returncode, done.stderr.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package, and samples for the digits network."""
    folder = tmp_path_factory.mktemp("outputs")
    write_package(tiny_package(), folder / "m.vtapkg")
    save_images(folder / "samples.npz", 4)
    np.save(folder / "x.npy", np.zeros((1, 16), np.float32))
    return folder


WRITES = {
    "vta-compile": ("vta_compile", str(MODEL), "-o"),
    "vta-opt": ("vta_opt", str(MODEL), "-o"),
    "vta-run": ("vta_run", "m.vtapkg", "--input", "x.npy", "-o"),
    "vta-run --trace": ("vta_run", "m.vtapkg", "--profile", "--trace"),
    "vta-sim --trace": ("vta_sim", "m.vtapkg", "--trace"),
    "vta-sim --timeline": ("vta_sim", "m.vtapkg", "--timeline"),
    "vta-translate --decode": ("vta_translate", "--decode", "m.vtapkg", "-o"),
    "vta-translate --disassemble": ("vta_translate", "--disassemble", "m.vtapkg", "-o"),
    "vta-translate --import-onnx": ("vta_translate", "--import-onnx", str(MODEL), "-o"),
}
"""Every way in which a command writes a file, without the file."""


@pytest.mark.parametrize("way", WRITES)
def test_every_output_follows_links_writes_to_pipes_and_survives_failures(
    way: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    command, *args = WRITES[way]
    main = {each.__name__.rpartition(".")[2]: each.main for each in MODULES}[command]
    suffix = ".png" if "timeline" in way else ".out"
    (tmp_path / "real").mkdir()
    real, link, pipe = tmp_path / "real" / f"f{suffix}", tmp_path / f"l{suffix}", tmp_path / "p"
    link.symlink_to(real)
    main([*args, str(link)])
    assert link.is_symlink() and real.stat().st_size > 0
    content = real.read_bytes()
    pipe = pipe.with_suffix(suffix)
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    main([*args, str(pipe)])
    reader.join(60)
    assert pipe.is_fifo() and len(read[0]) == len(content)
    loop = tmp_path / f"loop{suffix}"
    loop.symlink_to(loop)
    with pytest.raises(SystemExit) as stopped:
        main([*args, str(loop)])
    assert stopped.value.code == 1 and loop.is_symlink()
    before = sorted(file.name for file in (tmp_path / "real").iterdir())
    status, said = run(command, *args, real, limit=100)
    assert status == 1 and "File too large" in said and said.count(": error: ") == 1, said
    assert real.read_bytes() == content, "what was there stays"
    assert sorted(file.name for file in (tmp_path / "real").iterdir()) == before


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("way", ["vta-opt", "vta-translate --import-onnx", "--help"])
def test_what_standard_output_does_not_take_is_reported(
    way: str, unbuffered: str, tmp_path: Path
) -> None:
    """Python without a buffer does not report what a file does not take of a long text."""
    command, *args = ("vta_compile", "--help") if way == "--help" else WRITES[way][:-1]
    with (tmp_path / "out").open("wb") as out:
        status, said = run(
            command, *args, stdout=out.fileno(), limit=1000, PYTHONUNBUFFERED=unbuffered
        )
    assert status == 1 and "standard output: File too large" in said, said


def test_a_file_that_cannot_be_replaced_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    (tmp_path / "mounted").write_bytes(b"old and longer")
    monkeypatch.setattr(os, "replace", busy)
    write_whole(tmp_path / "mounted", b"new")
    assert (tmp_path / "mounted").read_bytes() == b"new"
    assert [file.name for file in tmp_path.iterdir()] == ["mounted"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_standard_output_is_one_line(command: str) -> None:
    with open("/dev/full", "wb") as full:  # opened by us: no command gets its name
        status, said = run(command, "--help", stdout=full.fileno())
    assert (status, said.count("\n")) == (1, 1), said
    assert said == f"{command.replace('_', '-')}: error: standard output: No space left on device\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_an_interruption_during_the_imports_is_silent(command: str) -> None:
    code = (
        "import builtins, os, signal, sys; old = builtins.__import__\n"
        # A shell lets what it runs in the background ignore the signal.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def slow(name, *more):\n"
        "    if name.startswith('numpy') or name.startswith('xdsl'):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return old(name, *more)\n"
        f"from vtac.tools.commands.entry import {command} as main\n"
        "builtins.__import__ = slow; sys.exit(main())"
    )
    more = {"vta_run": ["--profile"], "vta_translate": ["--decode"]}
    args = [__file__, *more.get(command, [])]  # what is wrong with arguments needs no imports
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (RecursionError(), 1, "c: error: the input is nested too deeply\n"),
        (OSError(5, "it broke", "file"), 1, "c: error: file: it broke\n"),
        (MemoryError(), 1, "c: error: there is not enough memory\n"),
    ],
)
def test_what_the_guard_says(
    error: BaseException, status: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    out = os.dup(1)
    try:
        with pytest.raises(SystemExit) as stopped, guard("c"):
            raise error
    finally:
        os.dup2(out, 1)
        os.close(out)
    assert stopped.value.code == status and capfd.readouterr().err == said


def test_an_interruption_that_became_another_error_is_silent() -> None:
    code = (
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from vtac.tools.commands.guard import guard\n"
        "with guard('c'):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt as error:\n"
        "        raise ImportError('initialization failed') from error\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")
    code = code.replace("os.kill(os.getpid(), signal.SIGINT)", "raise KeyboardInterrupt")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "initialization failed" in done.stderr


def test_nested_ir_is_refused_in_one_line(tmp_path: Path) -> None:
    depth = 5000
    (tmp_path / "deep.mlir").write_text('"t.op"() ({' * depth + "})" * depth)
    status, said = run("vta_opt", tmp_path / "deep.mlir", "--allow-unregistered-dialect")
    assert status == 1 and "Traceback" not in said and said.count("error") == 1


def test_without_an_output_the_package_has_the_name_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = save_images(tmp_path / "samples.npz", 4)
    monkeypatch.chdir(tmp_path)
    vta_compile.main([str(MODEL), "--calibrate", str(samples)])
    assert (tmp_path / "digits.vtapkg").is_file()
    assert capsys.readouterr().out.startswith("digits.vtapkg: ")
    vta_compile.main([str(MODEL), "--calibrate", str(samples), "--emit", "graph"])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["digits.vtapkg", "samples.npz"]


@pytest.mark.parametrize("command", ["--import-onnx", "--trace"])
def test_a_name_that_ends_like_a_folder_is_refused(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_package(tiny_package(), tmp_path / "m.vtapkg")
    with pytest.raises(SystemExit):
        if command == "--trace":
            vta_sim.main(["m.vtapkg", "--trace", "absent/"])
        else:
            vta_translate.main(["--import-onnx", str(MODEL), "-o", "absent/"])
    assert "absent/: is a folder" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["m.vtapkg"]


@pytest.mark.parametrize("most", [0, -1, -1000])
def test_regions_of_no_ops_are_refused(most: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        vta_opt.main([str(MODEL), "-p", f"merge-regions{{max-ops={most}}}"])
    assert f"{most} is less than 1" in capsys.readouterr().err
