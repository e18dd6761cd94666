"""The wheel: what is in it, and that it works in an environment that has never seen the sources."""

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

COMMANDS = {
    "vtac",
    "vta-compile",
    "vta-explore",
    "vta-export",
    "vta-opt",
    "vta-report",
    "vta-run",
    "vta-serve",
    "vta-sim",
    "vta-translate",
    "vta-tune",
}
LEFT_OUT = [".*", "__pycache__", "*.egg-info", "build", "dist"]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command, fail with what it said if it fails, and return its output."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, with an environment lying about in the copy."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "my clone.x-1"
    shutil.copytree(root, sources, ignore=shutil.ignore_patterns(*LEFT_OUT))
    rubbish = sources / ".venv" / "lib" / "rubbish"
    rubbish.mkdir(parents=True)
    (rubbish / "__init__.py").touch()
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    run(*build, sources, cwd=folder)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """The names of the files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_only_the_package_lands_in_site_packages(names: set[str]) -> None:
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"vtac"}
    assert len(top) == 2


def test_every_module_is_in_the_wheel_and_nothing_else(root: Path, names: set[str]) -> None:
    rooms = ("dialects", "passes", "lowering", "runtime", "sim", "tools")
    modules = [file for room in rooms for file in (root / room).rglob("*.py")]
    modules += (root / "runtime" / "c_project" / "templates").iterdir()
    modules += (root / "tools/report_page/templates").iterdir()
    modules += (root / "tools/explore_machines/templates").iterdir()
    modules += (root / "tools/tune/records").iterdir()
    expected = {f"vtac/{file.relative_to(root).as_posix()}" for file in modules}
    package = {name for name in names if name.startswith("vtac/")}
    assert "vtac/dialects/graph/__init__.py" in package
    missing = sorted(expected - package)
    assert not missing, f"not in the wheel, perhaps for want of an __init__.py: {missing}"
    assert package - expected == {
        "vtac/__init__.py",
        "vtac/backend.py",
        "vtac/py.typed",
        "vtac/session.py",
    }


def test_the_commands_are_declared(wheel: Path, names: set[str]) -> None:
    (declared,) = (name for name in names if name.endswith("entry_points.txt"))
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read(declared).decode().split("[console_scripts]")[1].split("[")[0]
    assert {line.split("=")[0].strip() for line in lines.splitlines() if line} == COMMANDS


def test_the_wheel_works_alone_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    install = (*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile")
    run(*install, wheel, cwd=elsewhere)

    # The dependencies come from here, without what installs the sources as an editable vtac.
    site = sysconfig.get_path(
        "purelib", "venv", {"base": str(environment), "platbase": str(environment)}
    )
    libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(site) / "dependencies.pth").write_text("\n".join(sorted(libraries)))

    script = "import vtac.dialects.graph as graph; print(graph.__file__)"
    found = run(python, "-c", script, cwd=elsewhere).strip()
    assert found.startswith(site)
    assert all((environment / "bin" / command).exists() for command in COMMANDS)
