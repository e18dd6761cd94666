"""``vtac``: commands, versions, completions; ``--version`` of every command."""

import argparse
import contextlib
import gc
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from vtac.dialects.target import PRESETS, TIMING_PRESETS
from vtac.tools.commands import entry, vtac
from vtac.tools.commands import vta_sim as vta_sim_command
from vtac.tools.commands.entry import COMMANDS
from vtac.tools.commands.parsers import clock, vta_sim
from vtac.tools.commands.parsers.vta_tune import SUBCOMMANDS, subcommand_parser

MODULES = [entry.__name__ for entry in COMMANDS]


def said(capsys: pytest.CaptureFixture[str], module: str, *args: str) -> str:
    """What a command prints; it must end well."""
    try:
        importlib.import_module(f"vtac.tools.commands.{module}").main(args)
    except SystemExit as end:
        assert end.code in (0, None)
    return capsys.readouterr().out


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    help_text = said(capsys, "vtac")
    assert help_text == said(capsys, "vtac", "--help")
    for module in MODULES:
        assert f"\n  {module.replace('_', '-')} " in help_text


@pytest.mark.parametrize("module", ["vtac", *MODULES])
def test_every_command_says_its_version(capsys: pytest.CaptureFixture[str], module: str) -> None:
    lines = said(capsys, module, "--version").splitlines()
    assert f"vtac {version('vtac')}" in lines and f"xdsl {version('xdsl')}" in lines
    found = json.loads(said(capsys, "vtac", "--json"))
    assert lines == [f"{k} {v}" for k, v in found.items()]
    assert found == json.loads(said(capsys, module, "--version", "--json"))
    assert found == json.loads(said(capsys, module, "--json", "--version"))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("vta-compile --meth", "--method"),
        ("vta-compile --method en", "entropy"),
        ("vta-run --evalu", "--evaluate"),
        ("vta-opt --print-op", "--print-op-generic"),
        ("vta-translate --di", "--disassemble"),
        ("vta-sim --ro", "--roofline"),
        ("vta-tune --remote-", "--remote-certificates"),
        ("vta-tune --method cl", "clocked"),
        ("vta-serve --tls-c", "--tls-certificate"),
        ("vta-report --layer", "--layer-errors"),
        ("vta-export --js", "--json"),
        ("vta-explore --sp", "--space"),
    ],
)
def test_bash_completes(capsys: pytest.CaptureFixture[str], typed: str, expected: str) -> None:
    pytest.importorskip("shtab", reason="shtab is not installed")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    words = typed.split()
    program = f"""{said(capsys, "vtac", "--completion", "bash")}
COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}
_shtab_{words[0].replace("-", "_")} {words[0]}
echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run([bash, "-c", program], capture_output=True, text=True, check=True)
    assert expected in done.stdout.split(), done.stderr


@pytest.mark.parametrize("module", ["vtac", *MODULES])
def test_fish_completes(capsys: pytest.CaptureFixture[str], tmp_path: Path, module: str) -> None:
    """fish itself takes the lines, offers each option with its help, and values to choose from."""
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("there is no fish")
    file = tmp_path / "vtac.fish"
    file.write_text(said(capsys, "vtac", "--completion", "fish"))
    parser = vtac._parser() if module == "vtac" else parser_of(module)
    asked = {f"{parser.prog} --": None}
    asked |= {f"{parser.prog} {a.option_strings[-1]} ": a for a in parser._actions if a.choices}
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    for line, action in asked.items():
        program = f"source {file}; complete --do-complete '{line}'"
        command = [fish, "--no-config", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stderr == ""
        found = {word for word, *_ in (text.split("\t") for text in done.stdout.splitlines())}
        if action is None:
            options = {o for a in parser._actions for o in a.option_strings}
            assert {option for option in options if option.startswith("--")} <= found
        else:
            assert found == set(map(str, action.choices or ()))


def test_fish_needs_no_package(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    lines = said(capsys, "vtac", "--completion", "fish").splitlines()
    assert lines and all(line.startswith("complete -c v") for line in lines)


@pytest.mark.parametrize("shell", vtac.SHELLS)
def test_every_shell_has_completions(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    pytest.importorskip("shtab", reason="shtab is not installed")
    text = said(capsys, "vtac", "--completion", shell)
    assert all(module.replace("_", "-") in text for module in MODULES)


def test_completions_need_a_package(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as end:
        vtac.main(["--completion", "bash"])
    assert end.value.code == 1
    assert "pip install 'vtac[completion]'" in capsys.readouterr().err


def parser_of(module: str) -> argparse.ArgumentParser:
    """The parser of a command."""
    found = importlib.import_module(f"vtac.tools.commands.parsers.{module}").argument_parser()
    assert isinstance(found, argparse.ArgumentParser)
    return found


def parsers() -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands and of their subcommands."""
    yield from map(parser_of, MODULES)
    yield from map(subcommand_parser, SUBCOMMANDS)


@pytest.mark.parametrize("parser", list(parsers()), ids=lambda parser: parser.prog)
def test_every_command_can_be_quiet_verbose_and_read_by_programs(
    parser: argparse.ArgumentParser,
) -> None:
    options = {option for action in parser._actions for option in action.option_strings}
    assert {"-q", "--quiet", "-v", "--verbose", "--json", "--version", "--help"} <= options


def test_names_in_helps_are_those_that_there_are() -> None:
    assert tuple(TIMING_PRESETS) == clock.TIMING_PRESETS
    assert tuple(PRESETS) == vta_sim.TARGETS


@pytest.mark.parametrize("module", MODULES)
def test_help_imports_little(module: str) -> None:
    """Help and mistakes in arguments need none of the large libraries."""
    program = f"""
import sys
from vtac.tools.commands import entry as commands
try:
    sys.argv[1:] = ["--help"]
    commands.{module}()
except SystemExit:
    large = ("numpy", "onnx", "onnxruntime", "rich", "xdsl")
    print([name for name in large if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("usage: ") and lines[-1] == "[]"


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_what_a_command_leaves_is_not_searched_for_garbage(
    is_interrupted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[list[int]] = []

    def main() -> None:
        left.extend([number] for number in range(1000))
        if is_interrupted:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["vta-sim", "a"])
    monkeypatch.setattr(vta_sim_command, "main", main)
    before = gc.get_freeze_count()
    try:
        with contextlib.suppress(SystemExit):
            entry.vta_sim()
        seen = {id(each) for each in gc.get_objects()}
        assert not seen & {id(each) for each in left}
        assert gc.get_freeze_count() >= before + len(left)
    finally:
        gc.unfreeze()
