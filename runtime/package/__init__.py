"""The compiled package: one file, ``.vtapkg``, with everything that a compiled model needs to run.

It is a zip of a manifest, host parts as ONNX, accelerator functions as binaries, and constants,
each stored once. Reading a package runs no code, checks every offset, size and digest, and refuses
unknown contents. Equal packages have equal bytes.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.atomic import read_whole, whole_file
from vtac.runtime.engines import engine_named
from vtac.runtime.package.archive import pack_files, unpack_files, write_files
from vtac.runtime.package.checks import verify_plan
from vtac.runtime.package.contents import (
    HOST,
    LAUNCH,
    Function,
    Output,
    Package,
    Packing,
    Placement,
    Quantisation,
    Step,
    TuningRecord,
    Value,
    blob_digest,
    lifetimes,
)
from vtac.runtime.package.manifest import VERSION, from_files, to_files

if TYPE_CHECKING:
    from vtac.runtime.engine import Engine

__all__ = [
    "HOST",
    "LAUNCH",
    "VERSION",
    "Function",
    "Output",
    "Package",
    "Packing",
    "Placement",
    "Quantisation",
    "Step",
    "TuningRecord",
    "Value",
    "blob_digest",
    "lifetimes",
    "package_from_bytes",
    "package_to_bytes",
    "read_package",
    "verify_package",
    "write_package",
]


def verify_package(
    package: Package,
    where: str,
    engines: "Mapping[str, Engine] | None" = None,
    allow_native: bool = False,
) -> None:
    """Raise `CompileError` unless the plan is consistent and each engine accepts its functions."""
    verify_plan(package, where)
    for function in package.functions.values():
        engine = engine_named(function.codegen, where, engines)
        if engine.runs_native_code and not allow_native:
            raise CompileError(
                Problem(
                    f"{where}: function {function.name}",
                    f"is code of codegen {function.codegen!r} for this machine, which nothing can"
                    " check",
                    "If you trust the package: vtac.load(path, allow_native=True), vta-run"
                    " --allow-native.",
                )
            )
        engine.verify(package, function, where)


def package_to_bytes(package: Package) -> bytes:
    """The bytes of a package's file."""
    return pack_files(to_files(package))


def package_from_bytes(
    data: bytes,
    where: str = "package",
    *,
    engines: "Mapping[str, Engine] | None" = None,
    allow_native: bool = False,
) -> Package:
    """The package in the bytes of a file; ``where`` names it in errors. Raises `CompileError`.

    engines, allow_native: as of `vtac.runtime.executor.load`.
    """
    package, version = from_files(unpack_files(data, where), where)
    if version < VERSION:
        functions = {
            name: engine_named(function.codegen, where, engines).upgrade(function, version, where)
            for name, function in package.functions.items()
        }
        package = replace(package, functions=functions)
    verify_package(package, where, engines, allow_native)
    return package


def write_package(package: Package, path: str | os.PathLike[str]) -> int:
    """Write a package's file, whole or not at all; the number of its bytes."""
    with whole_file(path) as temporary, temporary.open("w+b") as stream:
        write_files(stream, to_files(package))
        return stream.tell()


def read_package(
    path: str | os.PathLike[str],
    *,
    engines: "Mapping[str, Engine] | None" = None,
    allow_native: bool = False,
) -> Package:
    """Read and check a package's file, as `package_from_bytes`. Raises `CompileError`."""
    return package_from_bytes(
        read_whole(path), os.fspath(path), engines=engines, allow_native=allow_native
    )
