"""``manifest.json`` describes a package; the bytes of its parts are in other files.

host/NAME.onnx      a host part
functions/NAME/...  the files of an accelerator function
blobs/SHA256        a large constant
ir/NAME.mlir        the IR of a level, if it was kept
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import PRESETS, Machine, TargetError, machine_from_fields
from vtac.runtime.package.contents import (
    Function,
    Output,
    Package,
    Placement,
    Quantisation,
    Step,
    TuningRecord,
    Value,
    blob_digest,
)
from vtac.runtime.package.records import from_json, to_json

FORMAT = "vtapkg"
VERSION = 4
"""The version of packages that are written, if no record of tuning was used."""

VERSION_WITH_RECORDS = 5
"""The version of packages that list the records of tuning that their schedules come from."""

READABLE = (1, 2, 3, 4, 5)
"""The versions of packages that can be read.

In version 2 the metadata and the files of programs have changed (`vtac.runtime.vta_program`): each
program has a stream of instructions for each core, and scratch buffers have places and lifetimes.
In version 3 placements have multiply-accumulates; in version 4 also neighbours, types and ways out.
In version 5 there is a list of records of tuning.
"""

NEW_IN_PLACEMENTS: Mapping[int, Mapping[str, Any]] = {
    3: {"macs": 0, "macs_known": False},
    4: {"after": [], "result": "", "way_out": ""},
}
"""The fields that placements have since a version, as they are read from older packages."""

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class FunctionRecord:
    """A function without the bytes of its files."""

    name: str
    codegen: str
    metadata: Mapping[str, Any]
    files: tuple[str, ...]
    blobs: tuple[str, ...]


@dataclass(frozen=True)
class BlobRecord:
    """Digest and size of a constant."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """The fields of ``manifest.json``, all required; ``tuning`` since `VERSION_WITH_RECORDS`."""

    format: str
    version: int
    target: Mapping[str, Any] | None
    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]
    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    host_parts: tuple[str, ...]
    functions: tuple[FunctionRecord, ...]
    blobs: tuple[BlobRecord, ...]
    quantisation: tuple[Quantisation, ...]
    placements: tuple[Placement, ...]
    ir: tuple[str, ...]
    tuning: tuple[TuningRecord, ...]


def to_files(package: Package) -> dict[str, bytes]:
    """The files of a package."""
    manifest = Manifest(
        FORMAT,
        VERSION_WITH_RECORDS if package.tuning else VERSION,
        None if package.target is None else package.target.fields(),
        package.inputs,
        package.outputs,
        package.values,
        package.steps,
        tuple(sorted(package.host_parts)),
        tuple(
            FunctionRecord(f.name, f.codegen, f.metadata, tuple(sorted(f.files)), f.blobs)
            for _, f in sorted(package.functions.items())
        ),
        tuple(BlobRecord(key, len(data)) for key, data in sorted(package.blobs.items())),
        package.quantisation,
        package.placements,
        tuple(package.ir),
        package.tuning,
    )
    values = to_json(manifest)
    if not package.tuning:
        del values["tuning"]
    text = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=True)
    files = {MANIFEST: text.encode()}
    files.update({_host(name): data for name, data in package.host_parts.items()})
    for function in package.functions.values():
        files.update({_file(function.name, n): data for n, data in function.files.items()})
    files.update({_blob(key): data for key, data in package.blobs.items()})
    files.update({_ir(name): text.encode() for name, text in package.ir.items()})
    return files


def from_files(files: Mapping[str, bytes], where: str) -> tuple[Package, int]:
    """The package in ``files``, and the version of its format.

    Raises `CompileError` unless the files are exactly those that the manifest describes. Functions
    of an older version are not converted here (see `vtac.runtime.engine.Engine.upgrade`).
    """
    manifest = _read_manifest(files, where)
    expected = _expected(manifest)
    if unknown := sorted(set(files) - set(expected)):
        raise CompileError(Problem(where, f"contains files it does not name: {', '.join(unknown)}"))
    if missing := sorted(set(expected) - set(files)):
        raise CompileError(Problem(where, f"lacks the files {', '.join(missing)}"))
    if len(set(expected)) != len(expected):
        raise CompileError(Problem(where, "names two parts alike"))
    for blob in manifest.blobs:
        data = files[_blob(blob.sha256)]
        if len(data) != blob.bytes or blob_digest(data) != blob.sha256:
            raise CompileError(Problem(where, f"constant {blob.sha256[:16]} is not what it says"))
    package = Package(
        None if manifest.target is None else _target(manifest.target, where),
        manifest.inputs,
        manifest.outputs,
        manifest.values,
        manifest.steps,
        {name: files[_host(name)] for name in manifest.host_parts},
        {record.name: _function(record, files) for record in manifest.functions},
        {blob.sha256: files[_blob(blob.sha256)] for blob in manifest.blobs},
        manifest.quantisation,
        manifest.placements,
        {name: files[_ir(name)].decode("utf-8", "replace") for name in manifest.ir},
        manifest.tuning,
    )
    return package, manifest.version


def _read_manifest(files: Mapping[str, bytes], where: str) -> Manifest:
    try:
        data = json.loads(files[MANIFEST])
    except (KeyError, ValueError, RecursionError):
        raise CompileError(Problem(where, f"has no readable {MANIFEST}")) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise CompileError(Problem(where, "is not a vtac package"))
    if data.get("version") not in READABLE:
        readable = ", ".join(map(str, READABLE))
        raise CompileError(
            Problem(
                where,
                f"has format version {data.get('version')!r}; this vtac reads versions {readable}",
                "Use the vtac that wrote it, or compile the model again.",
            )
        )
    placements = data.get("placements")
    for version, fields in NEW_IN_PLACEMENTS.items():
        if data["version"] < version and isinstance(placements, list):
            for each in placements:
                if isinstance(each, dict):
                    each.update({**fields, **each})
    if data["version"] < VERSION_WITH_RECORDS:
        data.setdefault("tuning", [])
    return from_json(Manifest, data, f"{where}: {MANIFEST}")


def _target(fields: Mapping[str, Any], where: str) -> Machine:
    core = fields.get("core", fields)
    preset = core.get("preset") if isinstance(core, Mapping) else None
    if not isinstance(preset, str) or preset not in PRESETS:
        raise CompileError(Problem(where, f"was made for an unknown target preset {preset!r}"))
    try:
        return machine_from_fields(fields)
    except TargetError as error:
        raise CompileError(Problem(where, f"its target is impossible: {error}")) from None


def _function(record: FunctionRecord, files: Mapping[str, bytes]) -> Function:
    contents = {name: files[_file(record.name, name)] for name in record.files}
    return Function(record.name, record.codegen, record.metadata, contents, record.blobs)


def _expected(manifest: Manifest) -> list[str]:
    return [
        MANIFEST,
        *map(_host, manifest.host_parts),
        *(_file(record.name, name) for record in manifest.functions for name in record.files),
        *(_blob(blob.sha256) for blob in manifest.blobs),
        *map(_ir, manifest.ir),
    ]


def _host(name: str) -> str:
    return f"host/{name}.onnx"


def _file(function: str, name: str) -> str:
    return f"functions/{function}/{name}"


def _blob(digest: str) -> str:
    return f"blobs/{digest}"


def _ir(name: str) -> str:
    return f"ir/{name}.mlir"
