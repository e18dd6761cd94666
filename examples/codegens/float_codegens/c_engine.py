"""The run half of codegen ``c``: the system's C compiler, and ctypes.

Opening a package compiles each function's file and loads it into this process. Such a file can do
anything, so a package from a file opens only if the user trusts it (``allow_native``).
"""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.payload import Payload
from vtac.runtime.engine import Array, FunctionEngine, Run, Signature
from vtac.runtime.package.records import from_json

FILE = "function.c"
FLAGS = ("-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared")
_FLOATS = ctypes.POINTER(ctypes.c_float)
_NAMES = ("cc", "gcc", "clang")


@dataclass(frozen=True)
class FunctionRecord:
    """The name of the C function, and how many floats of working memory it needs."""

    symbol: str
    work: int


def compiler() -> str | None:
    """The C compiler of this machine: ``$CC``, or one found on the path; else None."""
    names = (os.environ["CC"],) if "CC" in os.environ else _NAMES
    return next((path for name in names if (path := shutil.which(name))), None)


class CEngine(FunctionEngine):
    """Compiles, loads and calls C functions."""

    runs_native_code: ClassVar[bool] = True

    def check(self, payload: Payload, signature: Signature, where: str) -> None:
        """Check what can be checked without compiling the file: that it exists."""
        _record(payload, where)

    def load(self, payload: Payload, signature: Signature, where: str) -> Run:
        """The C function as a function of arrays."""
        record = _record(payload, where)
        function = _compiled(payload.files[FILE], record.symbol, where)
        constants = [np.ascontiguousarray(array, np.float32) for array in payload.constants]
        shapes = [value.shape or () for value in signature.outputs]
        sizes = [prod(extent or 0 for extent in shape) for shape in shapes]

        def run(inputs: Sequence[Array]) -> list[Array]:
            given = [np.ascontiguousarray(array, np.float32) for array in inputs]
            outputs = [np.empty(size, np.float32) for size in sizes]
            work = np.empty(record.work, np.float32)
            function(*map(_pointers, (given, constants, outputs)), work.ctypes.data_as(_FLOATS))
            return list(outputs)

        return run


def _record(payload: Payload, where: str) -> FunctionRecord:
    record = from_json(FunctionRecord, dict(payload.metadata), where)
    if set(payload.files) != {FILE} or not record.symbol.isidentifier() or record.work < 0:
        raise CompileError(Problem(where, f"is not one function in {FILE}"))
    return record


def _pointers(arrays: Sequence[Array]) -> Any:
    return (_FLOATS * len(arrays))(*(array.ctypes.data_as(_FLOATS) for array in arrays))


@cache
def _compiled(source: bytes, symbol: str, where: str) -> Any:
    """The function of a C file, compiled and loaded once per process."""
    command = compiler()
    if command is None:
        hint = f"Install one, or name it: CC=... (looked for {', '.join(_NAMES)})."
        raise CompileError(Problem(where, "is C, and there is no C compiler here", hint))
    with tempfile.TemporaryDirectory() as folder:
        file, library = Path(folder) / FILE, Path(folder) / "function.so"
        file.write_bytes(source)
        done = subprocess.run(
            [command, *FLAGS, "-o", str(library), str(file)], capture_output=True, text=True
        )
        if done.returncode != 0:
            first = (done.stderr.strip() or "no message").splitlines()[0]
            raise CompileError(Problem(where, f"{command} refuses it: {first}"))
        function = getattr(ctypes.CDLL(str(library)), symbol)
    function.restype = None
    return function


ENGINE = CEngine()
"""The engine that ``engine_named("c")`` returns."""
