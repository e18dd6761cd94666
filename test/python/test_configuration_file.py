"""Options of commands from ``vtac.toml``."""

from pathlib import Path

import pytest

from vtac.tools.commands.parsers import vta_compile, vta_opt, vta_sim

TABLES = """
[vta-compile]
target = "chisel-pynq"
max-ops = 7
percentile = 99.5
keep-float = ["head", "a b"]
explain = true
strict = false

[vta-sim]
json = true
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder, and a user's folder, without a configuration."""
    (tmp_path / "here").mkdir()
    (tmp_path / "user").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.delenv("VTAC_CONFIG", raising=False)
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What ``vta-compile`` says when it ends with status 1."""
    with pytest.raises(SystemExit) as end:
        vta_compile.argument_parser().parse_args(["m.onnx", *args])
    assert end.value.code == 1
    return capsys.readouterr().err


def test_options_come_from_the_table_of_the_command(folder: Path) -> None:
    plain = vta_opt.argument_parser().parse_args([])
    (folder / "here" / "vtac.toml").write_text(TABLES)
    args = vta_compile.argument_parser().parse_args(["m.onnx"])
    assert (args.target, args.max_ops, args.percentile) == ("chisel-pynq", 7, 99.5)
    assert args.keep_float == ["head", "a b"]
    assert args.explain and not args.strict
    assert vta_opt.argument_parser().parse_args([]) == plain
    assert vta_sim.argument_parser().parse_args([]).json


def test_the_command_line_counts(folder: Path) -> None:
    (folder / "here" / "vtac.toml").write_text(TABLES)
    args = vta_compile.argument_parser().parse_args(["m.onnx", "--target", "sim", "--max-ops=9"])
    assert (args.target, args.max_ops, args.percentile) == ("sim", 9, 99.5)


def test_one_file_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def target() -> str:
        return str(vta_compile.argument_parser().parse_args(["m.onnx"]).target)

    def write(name: str, machine: str) -> None:
        (folder / name).write_text(f'[vta-compile]\ntarget = "{machine}"\n')

    assert target() == "pynq"
    write("user/vtac.toml", "sim")
    assert target() == "sim"
    write("here/vtac.toml", "de10nano")
    assert target() == "de10nano"
    write("other.toml", "ultra96")
    monkeypatch.setenv("VTAC_CONFIG", str(folder / "other.toml"))
    assert target() == "ultra96"
    monkeypatch.setenv("VTAC_CONFIG", "")
    assert target() == "pynq"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("targte = 'sim'", "[vta-compile] targte: the command has no such option"),
        ("explain = 1", "[vta-compile] explain: is a flag: true or false"),
        ("target = ['a', 'b']", "[vta-compile] target: takes one value"),
        ("target = true", "[vta-compile] target: takes a text or a number"),
        ("keep-float = ['a', false]", "[vta-compile] keep-float: takes texts or numbers"),
        ("method = 'guess'", "there is no 'guess'; choose minmax, percentile, entropy"),
        ("max-ops = 0", "argument --max-ops: 0 is less than 1"),
        ("target = {a = 1}", "[vta-compile] target: takes a text or a number"),
        ("target = ", "is not TOML"),
    ],
)
def test_mistakes_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    (folder / "here" / "vtac.toml").write_text(f"[vta-compile]\n{line}\n")
    assert message in refusal(capsys)


def test_all_mistakes_are_told_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "here" / "vtac.toml").write_text("[vta-compile]\na = 1\nexplain = 2\n")
    lines = refusal(capsys).splitlines()
    assert [line for line in lines if line.startswith("vta-compile: error: vtac.toml: ")] == [
        "vta-compile: error: vtac.toml: [vta-compile] a: the command has no such option",
        "vta-compile: error: vtac.toml: [vta-compile] explain: is a flag: true or false",
    ]


def test_files_that_are_none(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTAC_CONFIG", "absent.toml")
    assert "absent.toml: cannot read it: No such file" in refusal(capsys)
    monkeypatch.setenv("VTAC_CONFIG", str(folder))
    assert "cannot read it: Is a directory" in refusal(capsys)
    (folder / "bytes.toml").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("VTAC_CONFIG", str(folder / "bytes.toml"))
    assert "bytes.toml: is not TOML" in refusal(capsys)
    (folder / "loose.toml").write_text("target = 'sim'\n")
    monkeypatch.setenv("VTAC_CONFIG", str(folder / "loose.toml"))
    assert "loose.toml: target: belongs to no command" in refusal(capsys)
