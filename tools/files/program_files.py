"""Files of one encoded program.

``.bin``: the bare words, 16 bytes per instruction; a reader must know the target.
``.npz``: the words and what belongs to them: ``insns`` uint64 [N, 2], ``config`` (the nine
parameters as JSON) and, written by us, ``target``, ``metadata``, ``names`` (JSON) and the
constants under their digests. Files with ``insns`` and ``config`` alone, such as the dumps of
vta-run, have absolute addresses and no buffers; their machine has the features of preset ``sim``,
unless one is given.
"""

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vtac.dialects.array_files import read_npz, write_npz
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import FEATURES, PRESETS, ClusterTarget, Machine, Target
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.dialects.vta.program import BinaryProgram
from vtac.runtime.atomic import read_whole, write_whole
from vtac.runtime.package import Function, read_package
from vtac.runtime.vta_program import (
    from_function,
    of_one_core,
    program_from,
    resources_of,
    to_function,
)

Array = np.ndarray[Any, np.dtype[Any]]
_FILES = "file_"
_BLOBS = "blob_"


def write_program(
    path: str | os.PathLike[str], program: BinaryProgram, resources: Mapping[str, Array]
) -> None:
    """Write a program in the form that the file's extension names."""
    if Path(path).suffix == ".bin":
        write_whole(path, np.ascontiguousarray(program.insns, "<u8").tobytes())
        return
    if Path(path).suffix != ".npz":
        raise CompileError(Problem(str(path), "a program is a .bin or an .npz"))
    function, blobs = to_function(program, resources)
    target = program.target.fields()
    arrays: dict[str, Array] = {
        "insns": program.insns,
        "config": np.array(json.dumps(program.target.to_replay_config(), sort_keys=True)),
        "target": np.array(json.dumps(target, sort_keys=True)),
        "metadata": np.array(json.dumps({"name": function.name, **function.metadata})),
    }
    arrays |= {
        _FILES + name: np.frombuffer(data, np.uint8) for name, data in function.files.items()
    }
    arrays |= {_BLOBS + key: np.frombuffer(data, np.uint8) for key, data in blobs.items()}
    stream = io.BytesIO()
    write_npz(stream, arrays, compress=True)
    write_whole(path, stream.getvalue())


def read_program(
    path: str | os.PathLike[str], target: Target | None = None, function: str | None = None
) -> tuple[BinaryProgram, dict[str, Array]]:
    """As `read_any_program`, for what takes programs of one core alone; raises `CompileError`."""
    program, resources = read_any_program(path, target, function)
    return of_one_core(program, os.fspath(path)), resources


def read_any_program(
    path: str | os.PathLike[str], target: Machine | None = None, function: str | None = None
) -> tuple[BinaryProgram | BinaryCluster, dict[str, Array]]:
    """A program and its large constants, from a ``.bin``, an ``.npz`` or a package.

    target: needed for a ``.bin``, possible for an ``.npz`` that has only ``config``.
    function: which of a package's, if it has several.
    """
    where = os.fspath(path)
    match Path(path).suffix:
        case ".vtapkg":
            from vtac.runtime.engines.vta import target_of  # imports the simulators

            package = read_package(path, allow_native=True)  # no code of it runs here
            verify_machine(where, target_of(package), target)
            found = _choose(package.functions, function, where)
            program = from_function(found, target_of(package), package.blobs, where)
            return program, resources_of(found, package.blobs, where)
        case ".npz":
            return _read_npz(read_whole(path), _single(target, where), where)
        case ".bin":
            data = read_whole(path)
            if target is None:
                raise CompileError(Problem(where, "bare words need their machine", "Add --target."))
            if len(data) % 16:
                raise CompileError(Problem(where, "is not a whole number of instructions"))
            words = np.frombuffer(data, "<u8").reshape(-1, 2)
            core = _single(target, where)
            assert core is not None
            return _bare(words, core), {}
        case _:
            raise CompileError(Problem(where, "a program is a .bin, an .npz or in a .vtapkg"))


def _single(target: Machine | None, where: str) -> Target | None:
    if isinstance(target, ClusterTarget):
        hint = "The streams of a cluster are a folder."
        raise CompileError(Problem(where, f"is a stream of one core, not of {target}", hint))
    return target


def verify_machine(where: str, own: Machine, given: Machine | None) -> None:
    """Raise `CompileError` if somebody names another machine than the file does."""
    if given is not None and given != own:
        hint = "Leave --target away; --preset and --set change its clock."
        raise CompileError(Problem(where, f"says itself that it is for {own}", hint))


def _choose(functions: Mapping[str, Function], name: str | None, where: str) -> Function:
    programs = {key: found for key, found in functions.items() if found.codegen == "vta"}
    if name is None and len(programs) == 1:
        return next(iter(programs.values()))
    if name not in programs:
        known = ", ".join(sorted(programs)) or "none"
        raise CompileError(Problem(where, f"its programs are: {known}", "Choose with --function."))
    return programs[name]


def _bare(words: Array, target: Target) -> BinaryProgram:
    return BinaryProgram("program", target, words.astype(np.uint64), (), ())


def _read_npz(
    data: bytes, given: Target | None, where: str
) -> tuple[BinaryProgram, dict[str, Array]]:
    arrays = read_npz(io.BytesIO(data), where)
    try:
        words = arrays["insns"].reshape(-1, 2)
        if "metadata" not in arrays:
            config = json.loads(str(arrays["config"]))
            features = {f: getattr(PRESETS["sim"], f) for f in FEATURES}
            return _bare(words, given or Target.from_vta_config(config, **features)), {}
        metadata = json.loads(str(arrays["metadata"]))
        target = Target.from_fields(json.loads(str(arrays["target"])))
        name = metadata.pop("name")
    except (KeyError, ValueError, OSError, EOFError, AttributeError) as error:
        raise CompileError(Problem(where, f"is not the .npz of a program: {error}")) from None
    files = {k.removeprefix(_FILES): v.tobytes() for k, v in arrays.items() if _FILES in k}
    blobs = {k.removeprefix(_BLOBS): v.tobytes() for k, v in arrays.items() if _BLOBS in k}
    function = Function(name, "vta", metadata, files, tuple(sorted(blobs)))
    verify_machine(where, target, given)
    program = program_from(function, target, blobs, where)
    return program, resources_of(function, blobs, where)
