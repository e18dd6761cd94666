"""A folder of compiled models, so that a model is compiled once.

It does for whole models what the engine cache of BYOC does for a run (Chen et al., section 3.4). An
entry is a package, named by the digest of everything that decides what is compiled: the model with
its weights, the samples, the target, the options, the records of tuning, the libraries and the
compiler itself. So an entry never becomes wrong. Entries that nobody asks for any more stay until
somebody removes them.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from onnx import ModelProto, TensorProto
from onnx.external_data_helper import ExternalDataInfo

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Machine, cores_of, machine_of
from vtac.lowering.onnx_to_graph import ModelSource
from vtac.lowering.onnx_to_graph.load import all_tensors, parse_model
from vtac.runtime.executor import Module, load
from vtac.runtime.samples import Source, read_source
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.options import CompileOptions
from vtac.tools.tune.lookup import recorded_schedules

LIBRARIES = ("xdsl", "numpy", "onnx", "onnxruntime")
"""The libraries whose versions decide what is compiled."""

_NEED_A_COMPILATION = ("layer_errors", "observe", "pipeline", "save_ir")
"""Options that ask for more than a package, or are functions, which have no digest."""

_WITHOUT_EFFECT = ("progress", "tuning", *_NEED_A_COMPILATION)

_CHUNK = 1 << 20


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


def compile_cached(
    folder: str | os.PathLike[str],
    model: ModelSource,
    target: str | os.PathLike[str] | Machine,
    calibration: Source | None,
    options: CompileOptions,
) -> Module:
    """The compiled model from the folder, else compiled now and kept there.

    The arguments behind the folder are those of `vtac.compile`. A damaged entry is made anew. Only
    a module that was compiled now has a ``report``. Raises `CompileError` as `vtac.compile` does,
    and on options that ask for more than a package.
    """
    _verify(options)
    machine = machine_of(target)
    path = Path(folder) / f"{compilation_digest(model, machine, calibration, options)}.vtapkg"
    if path.is_file():
        with suppress(CompileError):
            return load(path)
    module = compile_model(model, machine, calibration, options)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CompileError(Problem(str(folder), f"cannot make it: {error.strerror}")) from None
    module.save(path)
    return module


def _verify(options: CompileOptions) -> None:
    asked = [name for name in _NEED_A_COMPILATION if getattr(options, name)]
    if any(not isinstance(codegen, str) for codegen in options.codegens or ()):
        asked.append("codegens (as objects)")
    if asked:
        hint = "Compile without a cache."
        raise CompileError(
            [Problem(f"option {name}", "cannot be used with a cache", hint) for name in asked]
        )


def compilation_digest(
    model: ModelSource, target: Machine, calibration: Source | None, options: CompileOptions
) -> str:
    """The digest of everything that decides what is compiled, in hexadecimal digits."""
    digest = hashlib.sha256()
    digest.update(_compiler().encode())
    _add_model(digest, model)
    _add(digest, str(target))
    _add(digest, _read(calibration))
    recorded = recorded_schedules(options.tuning)
    if recorded is not None:
        _add(digest, recorded.digest_parts(cores_of(target)[0]))
        recorded.close()
    for field in fields(options):
        if field.name not in _WITHOUT_EFFECT:
            value = getattr(options, field.name)
            _add(digest, [field.name, _read(value) if field.name == "error_samples" else value])
    return digest.hexdigest()


@cache
def _compiler() -> str:
    """What the compiler is: its files with their sizes and times, and the libraries' versions."""
    root = Path(__file__).parents[2]
    rooms = ("dialects", "lowering", "passes", "runtime", "sim", "tools")
    files = sorted(file for room in rooms for file in (root / room).rglob("*.py"))
    states = [(file, file.stat()) for file in files]
    parts = [f"{file.relative_to(root)} {s.st_size} {s.st_mtime_ns}" for file, s in states]
    return "\n".join([*parts, *(f"{name} {version(name)}" for name in LIBRARIES)])


def _add_model(digest: _Digest, model: ModelSource) -> None:
    """The bytes of a model, and of the files beside it that hold its weights."""
    if isinstance(model, ModelProto):
        _add(digest, model.SerializeToString(deterministic=True))
        return
    if isinstance(model, bytes):
        _add(digest, model)
        return
    path = Path(model)
    parsed = parse_model(path)
    _add_file(digest, path)
    beside = {
        ExternalDataInfo(tensor).location
        for _, tensor in all_tensors(parsed)
        if tensor.data_location == TensorProto.EXTERNAL
    }
    for location in sorted(beside):
        _add(digest, location)
        with suppress(OSError):  # a compilation says what is wrong
            _add_file(digest, path.parent / location)


def _add_file(digest: _Digest, path: Path) -> None:
    _add(digest, str(path.stat().st_size))
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)


def _read(source: Source | None) -> object:
    return None if source is None else read_source(source)


def _add(digest: _Digest, value: object) -> None:
    """Add a value so that different values give different bytes."""
    match value:
        case bytes():
            digest.update(f"bytes {len(value)} ".encode() + value)
        case np.ndarray():
            digest.update(f"array {value.dtype.str} {value.shape} ".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        case Mapping():
            digest.update(f"mapping {len(value)} ".encode())
            for key in sorted(value, key=str):
                _add(digest, str(key))
                _add(digest, value[key])
        case str() | None | bool() | int() | float():
            text: Any = repr(value)
            digest.update(f"{type(value).__name__} {len(text)} {text} ".encode())
        case Sequence():
            digest.update(f"sequence {len(value)} ".encode())
            for each in value:
                _add(digest, each)
        case _:  # criteria, which are a dataclass of numbers
            _add(digest, repr(value))
