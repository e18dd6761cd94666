"""How little a command imports before its first line: mistakes need none of the large libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

from vtac.dialects.target.entries import SUFFIXES
from vtac.tools.commands.arguments import MACHINE_SUFFIXES

LARGE = ("google.protobuf", "matplotlib", "numpy", "onnx", "onnxruntime", "rich", "xdsl")
"""Libraries whose import takes long."""

MISSING = {
    "vta_compile": ["m.onnx", "--calibrate", "s.npz", "--evaluate", "d.npz"],
    "vta_explore": ["m.onnx"],
    "vta_export": ["m.vtapkg", "--c", "out"],
    "vta_opt": ["m.mlir", "--target", "machine.json"],
    "vta_report": ["m.vtapkg", "--layer-errors", "e.json"],
    "vta_run": ["m.vtapkg", "--input", "s.npz", "--reference", "m.onnx"],
    "vta_serve": ["--tls-certificate", "c.pem", "--tls-key", "k.pem"],
    "vta_sim": ["p.npz", "--preset", "p.toml"],
    "vta_translate": ["--decode", "p.npz"],
    "vta_tune": ["m.onnx", "--calibrate", "s.npz"],
}
"""Arguments of each command that name files; none of them exists."""

EXPLORED = ("xdsl",)
"""What ``vta-explore`` imports before it knows what is wrong: the fields of machines."""


def started(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=folder, check=False
    )


@pytest.mark.parametrize("module", MISSING)
def test_missing_files_are_told_before_anything_large_is_imported(
    module: str, tmp_path: Path
) -> None:
    program = f"""
import sys
from vtac.tools.commands import entry
sys.argv = ["{module}", *{MISSING[module]!r}]
try:
    entry.{module}()
except SystemExit as end:
    print([name for name in {LARGE!r} if name in sys.modules], file=sys.__stderr__)
    raise
"""
    done = started(program, tmp_path)
    *told, imported = done.stderr.splitlines()
    assert done.returncode == 1 and imported == str(
        list(EXPLORED) if module == "vta_explore" else []
    )
    named = [word for word in MISSING[module] if "." in word]
    name = module.replace("_", "-")
    assert told == [
        f"{name}: error: {path}: cannot read it: No such file or directory" for path in named
    ]


@pytest.mark.parametrize("module", [name for name in MISSING if name != "vta_serve"])
def test_the_first_step_is_told_before_anything_large_is_imported(
    module: str, tmp_path: Path
) -> None:
    """What stands first on standard error, with --verbose, is written before the imports."""
    words = MISSING[module]
    for word in words:
        if "." in word:
            (tmp_path / word).write_text("nothing")
    program = f"""
import importlib, sys
from vtac.tools.commands import entry

def stop(name, package=None, load=importlib.import_module):
    if name == "vtac.tools.commands.{module}":
        print([name for name in {LARGE!r} if name in sys.modules])
        raise SystemExit(3)
    return load(name, package)

entry.importlib.import_module = stop
sys.argv = ["{module}", *{words!r}, "--verbose"]
entry.{module}()
"""
    done = started(program, tmp_path)
    assert done.returncode == 3, done.stderr
    assert "import what the command needs" in done.stderr
    expected = list(EXPLORED) if module == "vta_explore" else []
    assert done.stdout.splitlines() == [str(expected)]


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("vta_run", ["vtac.passes", "vtac.lowering", "vtac.tools.driver", "vtac.dialects.te"]),
        ("vta_sim", ["onnx", "onnxruntime", "vtac.passes.graph", "vtac.dialects.te"]),
        ("vta_export", ["vtac.passes", "vtac.lowering", "vtac.tools.driver", "vtac.dialects.te"]),
        ("vta_opt", ["onnx", "onnxruntime", "rich", "vtac.sim"]),
        ("vta_translate", ["onnx", "onnxruntime", "rich", "vtac.sim", "vtac.passes.graph"]),
        ("vta_serve", ["numpy", "onnx", "vtac.dialects.target", "vtac.sim"]),
    ],
)
def test_a_command_imports_what_it_needs(module: str, unneeded: list[str], tmp_path: Path) -> None:
    program = f"""
import sys
import vtac.tools.commands.{module}
print([name for name in {unneeded!r} if name in sys.modules])
"""
    assert started(program, tmp_path).stdout == "[]\n"


def test_files_of_machines_are_known_by_the_same_names() -> None:
    assert MACHINE_SUFFIXES == SUFFIXES
