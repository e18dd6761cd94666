"""The command vta-export, and its page."""

import dataclasses
import json
import re
import subprocess
from pathlib import Path

import pytest
from by_path import ROOT
from c_projects import any_compiler, build
from host_operators import late_operators
from tiny_package import tiny_package

from vtac.runtime.c_project.host_parts import CONVERTERS
from vtac.runtime.package import write_package
from vtac.tools.commands.vta_export import main

PAGE = (ROOT / "docs" / "export.md").read_text()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.vtapkg"
    write_package(tiny_package(), path)
    return path


def test_it_prints_the_plan_and_writes_a_project(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "some where" / "tiny_c"
    main([str(package), "--c", str(folder)])
    said = capsys.readouterr().out
    assert "memory of the host" in said and "image float32[1, 16]" in said
    assert "start to 0" in said and re.search(r"\d to end", said)
    assert f"{folder / 'model'}" in said
    program = build(folder, any_compiler())
    assert subprocess.run([program, "--help"], capture_output=True).returncode == 0


def test_the_plan_as_json(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(package), "--c", str(tmp_path / "c"), "--json"])
    plan = json.loads(capsys.readouterr().out)
    assert plan["host"]["bytes"] == max(v["offset"] + v["bytes"] for v in plan["host"]["values"])
    assert plan["host"]["peak"] <= plan["host"]["bytes"] < plan["host"]["sum"]
    parts = ("constants", "instructions", "work")
    assert plan["accelerator"]["bytes"] == sum(plan["accelerator"][part] for part in parts)
    assert plan["files"] == {f.name: f.stat().st_size for f in (tmp_path / "c").iterdir()}


def test_a_second_export_replaces_files_and_keeps_others(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "board.c").write_text("mine")
    (folder / "network.c").write_text("old")
    for _ in range(2):
        main([str(package), "--c", str(folder)])
    assert (folder / "board.c").read_text() == "mine"
    assert "network_run" in (folder / "network.c").read_text()
    assert not [file for file in folder.iterdir() if file.name.startswith(".")]


def test_nothing_is_written_if_something_has_no_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tiny_package()
    values = [dataclasses.replace(v, type="tensor(float16)") for v in package.values[:1]]
    broken = dataclasses.replace(package, values=(*values, *package.values[1:]))
    write_package(broken, tmp_path / "half.vtapkg")
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path / "half.vtapkg"), "--c", str(tmp_path / "c")])
    assert stopped.value.code == 1
    said = capsys.readouterr()
    assert not said.out and "value 'image': is tensor(float16)" in said.err
    assert not (tmp_path / "c").exists()


def test_a_file_is_no_folder(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("content")
    with pytest.raises(SystemExit):
        main([str(package), "--c", str(tmp_path / "file")])
    assert "is a file" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "content"


def rows() -> dict[str, set[str]]:
    """The operators of each row of the page's table, by what it says of their results."""
    table = PAGE.split("<!-- operators -->")[1].split("<!-- end of operators -->")[0]
    cells = (line.split("|") for line in table.splitlines() if line.startswith("| `"))
    found: dict[str, set[str]] = {}
    for _, names, results, _ in cells:
        found.setdefault(results.strip(), set()).update(re.findall(r"`(\w+)`", names))
    return found


def test_the_page_lists_what_is_exported() -> None:
    assert set().union(*rows().values()) == set(CONVERTERS)


def test_the_page_says_which_results_are_equal() -> None:
    operators = late_operators()
    rough = {n.op_type for n in operators.nodes if set(n.output) & operators.rough}
    stated = set().union(*(names for results, names in rows().items() if "1e-6" in results))
    assert stated - {"Acos", "Asin"} == rough


def test_the_page_lists_all_files(package: Path, tmp_path: Path) -> None:
    main([str(package), "--c", str(tmp_path / "c")])
    section = PAGE.split("## What is generated")[1].split("\n## ")[0]
    named = set(re.findall(r"`([\w.]+\.[chmd]+|Makefile)`", section))
    assert named == {file.name for file in (tmp_path / "c").iterdir()}
