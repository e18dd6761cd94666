"""Builds exported C projects and runs them, as their users would: with make, on files."""

import functools
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vtac.dialects.target import Target
from vtac.runtime.c_project import CProject, c_project_of
from vtac.runtime.c_project.sources import filled, fixed_files, machine
from vtac.runtime.engine import tensor_dtype
from vtac.runtime.executor import Module
from vtac.runtime.package import Package

Array = np.ndarray[Any, np.dtype[Any]]

COMPILERS = ("gcc", "clang")
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off")
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all"
HARNESS = Path(__file__).with_name("run_programs.c")

TOLERANCE = 1e-6
"""How far results of exponentials and of sums of floats may lie from onnxruntime's, relative to the
largest of the tensor (docs/export.md)."""


def found_compiler(name: str) -> str:
    """A compiler, or the end of the test where there is none."""
    if shutil.which(name) is None or shutil.which("make") is None:
        pytest.skip(f"needs {name} and make")
    return name


def any_compiler() -> str:
    """The first compiler that there is."""
    return found_compiler(next((name for name in COMPILERS if shutil.which(name)), COMPILERS[0]))


@functools.cache
def has_sanitizers(compiler: str) -> bool:
    """Whether a compiler links programs with the sanitizers."""
    command = [compiler, "-x", "c", "-", "-o", "/dev/null", *SANITIZERS.split()]
    source = b"int main(void) { return 0; }"
    return subprocess.run(command, input=source, capture_output=True).returncode == 0


def build(
    folder: Path,
    compiler: str,
    *,
    sanitize: bool = False,
    flags: str = "-O1",
    driver: str = "vta_simulator.c vta_decoder.c",
) -> Path:
    """The program of a project. sanitize: with the sanitizers, where the compiler has them.

    With sanitizers nothing is optimised, which would take compilers ten times longer.
    """
    if sanitize and has_sanitizers(compiler):
        flags = f"-O0 -g {SANITIZERS}"
    command = ["make", "-s", "-B", "-C", str(folder), f"CC={compiler}", f"CFLAGS={flags}"]
    command.append(f"DRIVER={driver}")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, f"{compiler} {flags}\n{done.stderr[:4000]}"
    return folder / "model"


def run_model(
    program: Path, package: Package, batches: Sequence[Mapping[str, Array]]
) -> list[dict[str, Array]]:
    """The outputs for each batch of inputs, from one run of the program."""
    folder, arguments = program.parent, []
    for number, name in enumerate(package.inputs):
        file = folder / f"input_{number}.bin"
        file.write_bytes(b"".join(np.ascontiguousarray(feeds[name]).tobytes() for feeds in batches))
        arguments.append(f"{name}={file}")
    files = {output.name: folder / f"output_{n}.bin" for n, output in enumerate(package.outputs)}
    arguments += [f"{name}={file}" for name, file in files.items()]
    done = subprocess.run([program, *arguments], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[:4000]
    results: list[dict[str, Array]] = [{} for _ in batches]
    for output in package.outputs:
        value = package.value(output.value)
        array = np.fromfile(files[output.name], tensor_dtype(value))
        parts = array.reshape(len(batches), *(extent or 0 for extent in value.shape or ()))
        for result, part in zip(results, parts, strict=True):
            result[output.name] = part
    return results


def assert_equal(
    module: Module,
    folder: Path,
    batches: Sequence[Mapping[str, Array]],
    *,
    compiler: str | None = None,
    sanitize: bool = False,
    tolerance: float = 0.0,
) -> CProject:
    """Export, build and run a module; its outputs are those of ``module.run``.

    tolerance: of floats, relative to the largest of a tensor.
    """
    project = c_project_of(module.package)
    project.write(folder)
    program = build(folder, compiler or any_compiler(), sanitize=sanitize)
    found = run_model(program, module.package, batches)
    for feeds, results in zip(batches, found, strict=True):
        expected = module.run(feeds)
        assert results.keys() == expected.keys()
        for name, array in expected.items():
            assert_near(results[name], array, name, tolerance)
    return project


def assert_near(found: Array, expected: Array, name: str, tolerance: float = 0.0) -> None:
    """Equal; floats within a tolerance relative to the largest of them."""
    if tolerance and expected.dtype.kind == "f":
        size = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size, err_msg=name)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)


class CSimulator:
    """The simulator in C of one machine, built with a harness that runs programs from files."""

    def __init__(self, target: Target, folder: Path, compiler: str, size: int) -> None:
        """size: bytes of memory behind the first 4096, for the image and the program."""
        self._folder = folder
        header = machine(target, 4096, 4096, size)
        files = {**fixed_files(), "vta_machine.h": filled("vta_machine.h", header)}
        for name, data in files.items():
            (folder / name).write_bytes(data)
        sanitizers = SANITIZERS.split() if has_sanitizers(compiler) else []
        sources = [HARNESS, folder / "vta_simulator.c", folder / "vta_decoder.c"]
        self._program = folder / "run_programs"
        command = [compiler, *STRICT, "-O2", "-g", *sanitizers, f"-I{folder}", *sources]
        subprocess.run([*command, "-o", self._program], check=True)

    def run(self, words: Array, image: Array) -> Array | str:
        """The image after a run, or what is wrong with the program."""
        paths = [self._folder / name for name in ("image", "program", "result")]
        paths[0].write_bytes(image.tobytes())
        paths[1].write_bytes(np.ascontiguousarray(words, "<u8").tobytes())
        done = subprocess.run([self._program, *paths], capture_output=True, text=True)
        if done.returncode == 1 and done.stderr.startswith("vta_simulator:"):
            return done.stderr
        assert done.returncode == 0, done.stderr[:4000]
        return np.fromfile(paths[2], np.uint8)
