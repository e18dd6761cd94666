"""The contents of a compiled package: a plan over named values, and the parts that it runs.

The plan is a list of steps, which read and write values. A host step runs an ONNX model, a launch
runs an accelerator function. Large constants are blobs, stored once and named by their SHA-256.
Host parts refer to them as ONNX external data, accelerator functions in their metadata.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vtac.dialects.graph import PackedAttr
from vtac.dialects.target import Machine


@dataclass(frozen=True)
class Packing:
    """The packed layout of a value: BATCH and BLOCK (``#graph.packed``)."""

    batch: int
    block: int


@dataclass(frozen=True)
class Value:
    """A value that steps read and write.

    type: ONNX's name, ``tensor(float)`` or ``seq(tensor(int64))``.
    shape: the logical shape; None stands for an unknown dimension, or for an unknown rank.
    layout: set if the value is packed; its arrays then have `physical_shape`.
    first: the step that writes it, -1 for an input of the model.
    last: the last step that reads it; the number of steps for an output of the model.
    """

    name: str
    type: str
    shape: tuple[int | None, ...] | None
    layout: Packing | None = None
    first: int = -1
    last: int = -1

    @property
    def physical_shape(self) -> tuple[int | None, ...] | None:
        """The shape of its arrays."""
        if self.layout is None or self.shape is None:
            return self.shape
        packed = PackedAttr(self.layout.batch, self.layout.block)
        return packed.physical_shape([extent or 0 for extent in self.shape])


@dataclass(frozen=True)
class Output:
    """An output of the model, and the name of its value."""

    name: str
    value: str


@dataclass(frozen=True)
class Step:
    """One step of the plan: a host part or an accelerator function, with its values in order."""

    kind: str
    part: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


HOST, LAUNCH = "host", "launch"
"""The kinds of steps."""


@dataclass(frozen=True)
class Function:
    """An accelerator function as built by a codegen.

    metadata, files: in the codegen's own format, which its engine (``runtime/engines/NAME.py``)
    checks and interprets. blobs: SHA-256 digests of the constants to which the metadata refers.
    """

    name: str
    codegen: str
    metadata: Mapping[str, Any]
    files: Mapping[str, bytes]
    blobs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quantisation:
    """Parameters of one op between reals and integers, or between accumulators and int8.

    op: ``quantize``, ``requantize`` or ``dequantize``. scales, shifts: one, or one per channel.
    """

    layer: str
    op: str
    scales: tuple[float, ...]
    zero_point: int
    shifts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Placement:
    """Where one node of the network runs: a function's name or ``host``.

    reason: why it runs on the host; or the choices made for it on the accelerator, with reasons.
    macs: the multiply-accumulates of its convolutions and matrix products, at least; exactly so
    many if ``macs_known`` (a dimension that is not known counts as 1). after: the nodes whose
    results it reads. result: the types of its results, as text. way_out: for a node on the host,
    what would bring it to the accelerator, if anything.
    """

    node: str
    op: str
    where: str
    reason: str = ""
    macs: int = 0
    macs_known: bool = True
    after: tuple[str, ...] = ()
    result: str = ""
    way_out: str = ""


@dataclass(frozen=True)
class TuningRecord:
    """A record of tuning that a schedule of the package comes from.

    layers: that call the kernel. name: of the record. template: with its version, ``tiles/1``.
    cycles: of the kernel alone, as the record has it.
    """

    layers: tuple[str, ...]
    name: str
    template: str
    cycles: int


@dataclass(frozen=True)
class Package:
    """A compiled model with the contents of its file. target: None if no part depends on one."""

    target: Machine | None
    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]
    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    host_parts: Mapping[str, bytes] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    quantisation: tuple[Quantisation, ...] = ()
    placements: tuple[Placement, ...] = ()
    ir: Mapping[str, str] = field(default_factory=dict)
    tuning: tuple[TuningRecord, ...] = ()

    def value(self, name: str) -> Value:
        """The value of that name."""
        return next(value for value in self.values if value.name == name)


def blob_digest(data: bytes | memoryview) -> str:
    """The name of a blob: the SHA-256 of its bytes."""
    return hashlib.sha256(data).hexdigest()


def lifetimes(
    inputs: Sequence[str], outputs: Sequence[str], steps: Sequence[Step]
) -> dict[str, tuple[int, int]]:
    """First and last step of each value (see `Value`)."""
    spans = dict.fromkeys(inputs, (-1, -1))
    for index, step in enumerate(steps):
        for name in step.inputs:
            spans[name] = (spans[name][0], index)
        for name in step.outputs:
            spans[name] = (index, index)
    for name in outputs:
        spans[name] = (spans[name][0], len(steps))
    return spans
