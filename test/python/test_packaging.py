"""The wheel: what is in it, and that it works in an environment that has never seen the sources."""

import email
import shutil
import subprocess
import sys
import sysconfig
import tarfile
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
def built(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what ``make dist`` builds, from a copy of the sources.

    In the copy an environment and a module of an earlier build lie about. The wheel is built from
    the archive of the sources, which must therefore hold all that a wheel needs.
    """
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "my clone.x-1"
    shutil.copytree(root, sources, ignore=shutil.ignore_patterns(*LEFT_OUT))
    rubbish = sources / ".venv" / "lib" / "rubbish"
    rubbish.mkdir(parents=True)
    (rubbish / "__init__.py").touch()
    stale = sources / "build" / "lib" / "vtac" / "dialects" / "stale.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist")
    run(*build, sources, cwd=folder)
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (file,) = built.glob("*.whl")
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


def test_an_index_would_take_both(built: Path) -> None:
    pytest.importorskip("twine", reason="twine is not installed")
    files = sorted(built.iterdir())
    assert [file.suffix for file in files] == [".whl", ".gz"]
    told = run(sys.executable, "-m", "twine", "check", "--strict", *files, cwd=built)
    assert told.count("PASSED") == 2


def test_the_wheel_says_what_it_is(wheel: Path, names: set[str]) -> None:
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    with zipfile.ZipFile(wheel) as archive:
        found = email.message_from_bytes(archive.read(metadata))
    classifiers = found.get_all("Classifier")
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(
        classifiers
    )
    assert "Typing :: Typed" in classifiers and found["License-Expression"] == "Apache-2.0"
    assert found["Description-Content-Type"] == "text/markdown"


def test_the_archive_of_the_sources_has_the_tests(built: Path) -> None:
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert {"test/python/test_packaging.py", "docs/architecture.md", "Makefile", "LICENSE"} <= found
    assert not [name for name in found if "__pycache__" in name or "rubbish" in name]


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
