"""How little a command imports before its first line: mistakes need none of the large libraries."""

import ast
import random
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


TOLD_IMPORTS = """
import sys
before = set(sys.modules)
from vtac.tools.commands import entry
loaded = set(sys.modules) - before
sys.argv = [{module!r}, "--help"]
try:
    entry.{module}()
except SystemExit:
    later = set(sys.modules) - before - loaded
    print(sorted(loaded), sorted(later), sep=chr(10), file=sys.__stderr__)
"""

INTERRUPTED_IMPORT = """
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {interrupted!r}:
            raise KeyboardInterrupt
from vtac.tools.commands import entry
sys.meta_path.insert(0, Interrupt())
sys.argv = [{module!r}, "--help"]
entry.{module}()
"""


@pytest.mark.parametrize("module", ["vtac", "vta_run", "vta_explore"])
def test_an_interrupted_import_ends_quietly(module: str, tmp_path: Path) -> None:
    """A Ctrl-C in the import of anything that the guard or the parser imports."""
    loaded, later = (
        ast.literal_eval(line)
        for line in started(TOLD_IMPORTS.format(module=module), tmp_path).stderr.splitlines()
    )
    assert {name for name in loaded if not name.startswith("vtac")} <= {"gc", "importlib"}
    assert "vtac.tools.commands.guard" in later
    later = [name for name in later if "_" not in (name[0], name[-1])]
    drawn = random.Random(module).sample(later, min(6, len(later)))
    for interrupted in ["vtac.tools.commands.guard", "vtac.dialects.errors", *drawn]:
        program = INTERRUPTED_IMPORT.format(module=module, interrupted=interrupted)
        done = started(program, tmp_path)
        assert (done.returncode, done.stderr) == (130, ""), interrupted


def test_files_of_machines_are_known_by_the_same_names() -> None:
    assert MACHINE_SUFFIXES == SUFFIXES
