"""Arguments of all commands: numbers, empty texts, paths and options that would be ignored."""

import argparse
import itertools
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from digits_model import MODEL, save_images
from tiny_package import tiny_package

import vtac
from vtac.dialects.errors import CompileError
from vtac.runtime.package import write_package
from vtac.tools.commands import (
    parsers,
    vta_compile,
    vta_explore,
    vta_export,
    vta_opt,
    vta_run,
    vta_sim,
    vta_translate,
    vta_tune,
)

QUOTED = shlex.quote(str(MODEL))

COMMANDS = {
    "vta-compile": (vta_compile.main, parsers.vta_compile.argument_parser),
    "vta-run": (vta_run.main, parsers.vta_run.argument_parser),
    "vta-export": (vta_export.main, parsers.vta_export.argument_parser),
    "vta-explore": (vta_explore.main, parsers.vta_explore.argument_parser),
    "vta-sim": (vta_sim.main, parsers.vta_sim.argument_parser),
    "vta-translate": (vta_translate.main, parsers.vta_translate.argument_parser),
    "vta-opt": (vta_opt.main, parsers.vta_opt.argument_parser),
    "vta-tune": (vta_tune.main, parsers.vta_tune.argument_parser),
}
NONSENSE = ("nan", "inf", "-inf", "1e999", "", " ", "x", "0x10", "1.2.3", "1,5")
WRONG = {
    "--limit": ("0", "-1", "1.5"),
    "--max-ops": ("0", "-1", "1.5"),
    "--min-macs": ("-1", "1.5"),
    "--max-border-bytes": ("-1", "1.5"),
    "--percentile": ("0", "-1", "100.1"),
    "--order-seed": ("1.5", "-1"),
    "--machines": ("0", "-1", "1.5"),
    "--trials": ("0", "-1", "1.5"),
    "--seconds": ("0", "-1"),
    "--patience": ("0", "-1", "1.5"),
    "--jobs": ("0", "-1", "1.5"),
    "--seed": ("-1", "1.5"),
    "--batch": ("0", "-1", "1.5"),
    "--screen": ("-1",),
    "--throughput": ("0", "-1", "1.5", "1,0", "1,,2"),
}
LISTS = {"--throughput"}
"""Arguments that are several numbers, with commas between them."""
MAY_BE_EMPTY = {"--passes"}


def actions(command: str) -> Iterator[argparse.Action]:
    """Arguments of a command that take a text or a number."""
    parser = COMMANDS[command][1]()
    return (action for action in parser._actions if action.nargs in (None, "?"))


def option(action: argparse.Action) -> str:
    return (
        action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)
    )


def said(command: str, args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says that must fail without a traceback."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        COMMANDS[command][0](args)
    assert stopped.value.code == 1
    err = capsys.readouterr().err
    assert "Traceback" not in err and f"{command}: error: " in err
    return err


NUMBERS = [
    (command, option(action))
    for command in COMMANDS
    for action in actions(command)
    if action.type is not None and option(action) not in MAY_BE_EMPTY
]


def test_the_numeric_arguments_are_known() -> None:
    names = {name for _, name in NUMBERS}
    assert names == {*WRONG, "--min-layer-snr", "--limit-cost"}


@pytest.mark.parametrize(("command", "name"), NUMBERS)
def test_numbers_that_make_no_sense(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in (*NONSENSE, *WRONG.get(name, ())):
        if name in LISTS and text == "1,5":
            continue
        assert f"argument {name}" in said(command, ["model", f"{name}={text}"], capsys), text


@pytest.mark.parametrize(
    ("command", "action"),
    [(command, action) for command in COMMANDS for action in actions(command)],
    ids=lambda value: value if isinstance(value, str) else option(value),
)
def test_empty_texts_are_refused(
    command: str, action: argparse.Action, capsys: pytest.CaptureFixture[str]
) -> None:
    if option(action) in MAY_BE_EMPTY:
        return
    flags = ["--decode"] if command == "vta-translate" else []
    args = [f"{option(action)}=", "model"] if action.option_strings else [""]
    found = said(command, [*flags, *args], capsys)
    assert "argument " in found and option(action) in found


def test_numbers_of_the_library() -> None:
    for keywords in (
        {"min_layer_snr": float("nan")},
        {"min_layer_snr": float("inf")},
        {"percentile": float("nan")},
        {"percentile": 0},
    ):
        with pytest.raises(CompileError, match=f"option {next(iter(keywords))}"):
            vtac.compile(MODEL, **keywords)


@pytest.mark.parametrize(
    ("criteria", "message"),
    [
        ({"min_macs": -1}, "criterion min_macs"),
        ({"min_macs": float("nan")}, "criterion min_macs"),
        ({"max_ops": 0}, "criterion max_ops"),
        ({"max_border_bytes": float("-inf")}, "criterion max_border_bytes"),
        ({"host": {"speed": 1.0}}, r"host\['speed'\]: there is none; there are macs_a_cycle"),
        ({"host": {"macs_a_cycle": 0.0}}, "is no finite number above 0"),
        ({"host": {"cycles_an_op": -1.0}}, "is no finite number above 0"),
        ({"host": {"bytes_a_cycle": float("nan")}}, "is no finite number above 0"),
    ],
)
def test_criteria_of_the_library(criteria: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        vtac.Criteria(**criteria)


def test_one_name_is_a_list_of_one() -> None:
    options = vtac.CompileOptions(keep_float="first", codegens="vta")
    assert options.keep_float == ("first",) and options.codegens == ("vta",)


def test_strict_compilations_offload_something(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = [str(MODEL), "--calibrate", "samples.npz", "-o", "o.vtapkg", "--min-macs", "999999999"]
    vta_compile.main(args)
    assert "nothing runs on the accelerator" in capsys.readouterr().err
    (folder / "o.vtapkg").unlink()
    found = said("vta-compile", [*args, "--strict"], capsys)
    assert "nothing runs on the accelerator" in found and not (folder / "o.vtapkg").exists()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_package(tiny_package(), tmp_path / "m.vtapkg")
    save_images(tmp_path / "samples.npz", 4)
    return tmp_path


ALL_ABSENT = {
    "vta-compile": "{0} --calibrate {1} --evaluate {2} --error-samples {3} --target {4}.json",
    "vta-run": "{0} --input {1} --evaluate {2} --reference {3} --preset {4}.toml",
    "vta-export": "{0} --c project",
    "vta-explore": "{0} --calibrate {1} --space {2}.toml --target {3}.json",
    "vta-sim": "{0} --target {1}.json --preset {2}.toml",
    "vta-translate": "--decode {0} --target {1}.json",
    "vta-opt": "{0}.mlir --target {1}.json --calibrate {2}",
    "vta-tune": "{0} --calibrate {1} --target {2}.json",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_all_missing_files_are_reported_at_once(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"absent{number}" for number in range(5)]
    wanted = ALL_ABSENT[command]
    args = wanted.format(*names).split()
    found = said(command, args, capsys)
    asked = [name for number, name in enumerate(names) if f"{{{number}}}" in wanted]
    assert all(name in found for name in asked)
    assert found.count("cannot read it: No such file or directory") == len(asked)
    for name in asked[1:]:  # any one of them alone
        (folder / asked[0]).write_text("")
        assert name in said(command, args, capsys)


OUTPUTS = {
    "vta-compile": (f"{QUOTED} --calibrate samples.npz -o",),
    "vta-run": ("m.vtapkg --input x.npy -o", "m.vtapkg --profile --trace"),
    "vta-sim": ("m.vtapkg --trace",),
    "vta-translate": ("--decode m.vtapkg -o", f"--import-onnx {QUOTED} -o"),
    "vta-opt": (f"{QUOTED} -o",),
    "vta-explore": (
        f"{QUOTED} --calibrate samples.npz --csv",
        f"{QUOTED} --calibrate samples.npz --report",
        f"{QUOTED} --calibrate samples.npz --database",
    ),
    "vta-tune": (f"{QUOTED} --database", f"{QUOTED} --calibrate samples.npz --select"),
}


@pytest.mark.parametrize(
    ("command", "start", "target"),
    [
        (command, start, target)
        for command, starts in OUTPUTS.items()
        for start, target in itertools.product(starts, (".", "/", "a/", "..", "no/x", "m.vtapkg/x"))
    ],
)
def test_outputs_that_cannot_be_written_are_reported_first(
    command: str, start: str, target: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(folder / "x.npy", np.zeros((1, 16), np.float32))
    before = sorted(folder.iterdir())
    found = said(command, [*shlex.split(start), target], capsys)
    assert f"{target}: is a folder" in found or f"{target}: cannot write it" in found
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("command", "args", "name"),
    [
        ("vta-compile", f"{QUOTED} --limit 3", "--limit"),
        ("vta-compile", f"{QUOTED} --explain --keep-ir", "--keep-ir"),
        ("vta-compile", f"{QUOTED} --percentile 99", "--percentile"),
        ("vta-run", "m.vtapkg --profile --order-seed 0", "--order-seed"),
        ("vta-run", "m.vtapkg --profile -o y.npz", "--output"),
        ("vta-run", "m.vtapkg --profile --dump-programs d", "--dump-programs"),
        ("vta-run", "m.vtapkg --profile --limit 1", "--limit"),
        ("vta-run", f"m.vtapkg --profile --reference {QUOTED}", "--reference"),
        ("vta-translate", "--decode m.vtapkg --shape x=1", "--shape"),
        ("vta-translate", f"--import-onnx {QUOTED} --target pynq", "--target"),
        ("vta-translate", f"--import-onnx {QUOTED} --function f", "--function"),
    ],
)
def test_options_that_would_be_ignored(
    command: str, args: str, name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"{name}: is for " in said(command, shlex.split(args), capsys)


@pytest.mark.parametrize("name", ["itself", "link", "hard link", "detour"])
@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("vta-compile", "{read} -o {written}"),
        ("vta-run", "m.vtapkg --input {read} -o {written}"),
        ("vta-translate", "--import-onnx {read} -o {written}"),
        ("vta-tune", "{read} --trials 1 --database {written}"),
    ],
)
def test_what_is_read_is_not_overwritten(
    command: str, args: str, name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read, written = folder / "some file", folder / "other"
    read.write_bytes(b"what was there before")
    if name == "link":
        written.symlink_to(read)
    elif name == "hard link":
        written.hardlink_to(read)
    else:
        written = read if name == "itself" else folder / ".." / folder.name / read.name
    words = args.format(read=shlex.quote(str(read)), written=shlex.quote(str(written)))
    assert "would overwrite" in said(command, shlex.split(words), capsys)
    assert read.read_bytes() == b"what was there before"


def test_two_outputs_need_two_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["m.vtapkg", "--timeline", "one.png", "--roofline", "./one.png"]
    assert "two outputs" in said("vta-sim", args, capsys)
