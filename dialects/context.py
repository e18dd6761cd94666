"""What passes see besides the module: the table of weights, and what the driver knows.

A pass gets a ``VtacContext`` and the module, nothing else. Constants above ``INLINE_ELEMENTS``
elements are resources: the text has name, type and digest, the bytes lie here, read-only.

Every pass needs this module, few need arrays, and NumPy takes longer to import than most passes
run: it is imported where there is an array.
"""

import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    TensorType,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.vtac import DIGEST_LENGTH, ResourceAttr

INLINE_ELEMENTS = 64
"""Constants of at most this many elements stand in the text."""

if TYPE_CHECKING:
    import numpy as np

    from vtac.dialects.target import Target
    from vtac.dialects.te import KernelOp, Point

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any

_FLOATS: Mapping[str, AnyFloat] = {"float16": f16, "float32": f32, "float64": f64}


@cache
def element_type(dtype: "np.dtype[Any]") -> AnyFloat | IntegerType:
    """The builtin type for a NumPy dtype: signed integers are signless, unsigned ones ``uiN``."""
    if dtype.name in _FLOATS:
        return _FLOATS[dtype.name]
    if dtype.kind == "b":
        return IntegerType(1)
    if dtype.kind == "i":
        return IntegerType(8 * dtype.itemsize)
    if dtype.kind == "u":
        return IntegerType(8 * dtype.itemsize, Signedness.UNSIGNED)
    raise CompileError(Problem("", f"tensors of {dtype} are not supported as constants"))


@cache
def element_dtype(type: Attribute) -> "np.dtype[Any]":
    """The NumPy dtype for a builtin element type; the inverse of ``element_type``."""
    import numpy as np

    for name, known in _FLOATS.items():
        if type == known:
            return np.dtype(name)
    if isinstance(type, IntegerType):
        if type.width.data == 1:
            return np.dtype(bool)
        letter = "u" if type.signedness.data == Signedness.UNSIGNED else "i"
        return np.dtype(f"{letter}{type.width.data // 8}")
    raise CompileError(Problem("", f"element type {type} has no NumPy counterpart"))


def tensor_type(array: Array) -> TensorType[Any]:
    """The tensor type of an array."""
    return TensorType(element_type(array.dtype), array.shape)


def digest_of(array: Array) -> str:
    """First hexadecimal digits of the SHA-256 of dtype, shape and bytes."""
    import hashlib

    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    block = array.reshape(-1).view("u1").data if is_one_block(array) else array.tobytes()
    digest.update(block)
    return digest.hexdigest()[:DIGEST_LENGTH]


def is_one_block(array: Array) -> bool:
    """Whether the elements of an array, of which there are some, lie in order without gaps."""
    return array.size > 0 and bool(array.flags.c_contiguous)


def bytes_of(array: Array) -> bytes:
    """The bytes of an array in order. Where it is a view of a whole bytes object, that object."""
    base = array.base
    while not isinstance(base, bytes) and base is not None:
        base = getattr(base, "base", None)
    if isinstance(base, bytes) and len(base) == array.nbytes and is_one_block(array):
        return base
    return array.tobytes()


def frozen(array: Array) -> Array:
    """The array, read-only: a view of bytes. Where it is one already, nothing is copied."""
    import numpy as np

    if not array.size:
        copied = array.copy(order="C")
        copied.setflags(write=False)
        return copied
    return np.frombuffer(bytes_of(array), array.dtype).reshape(array.shape)


def not_loaded(key: str) -> Problem:
    """The problem with a large constant that is referred to and not at hand."""
    return Problem(
        f"resource '{key}'",
        "its bytes are not loaded: the text of a module does not hold large constants",
        "They lie in FILE.mlir.npz, which must stay beside FILE.mlir; text that was printed has"
        " none (vta-opt -o FILE.mlir writes both).",
    )


class Resources(Mapping[str, Array]):
    """Name to read-only array. Entries are added and dropped, never changed; equal contents share
    one entry."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._keys: dict[str, ResourceAttr] = {}
        self._tried: dict[str, int] = {}

    def __getitem__(self, key: str) -> Array:
        return self._arrays[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def add(self, array: Array, hint: str = "constant") -> ResourceAttr:
        """Store an array under a name made from ``hint``; an equal one is stored once."""
        digest = digest_of(array)
        if digest not in self._keys:
            key, number = hint, self._tried.get(hint, 0)
            while key in self._arrays:
                number += 1
                key = f"{hint}_{number}"
            self._tried[hint] = number
            self._arrays[key] = frozen(array)
            self._keys[digest] = ResourceAttr(key, digest)
        return self._keys[digest]

    def keep(self, names: Container[str]) -> None:
        """Drop all arrays but those of these names."""
        self._arrays = {name: array for name, array in self._arrays.items() if name in names}
        self._keys = {d: attr for d, attr in self._keys.items() if attr.key.data in names}

    def get_array(self, attr: ResourceAttr) -> Array:
        """The array a reference names, its digest checked."""
        array = self._arrays.get(attr.key.data)
        if array is None:
            raise CompileError(not_loaded(attr.key.data))
        if self._keys.get(attr.digest.data) is None and digest_of(array) != attr.digest.data:
            raise CompileError(
                Problem(
                    f"resource '{attr.key.data}'", "its bytes do not match the digest in the IR"
                )
            )
        return array

    def load(self, path: str | os.PathLike[str]) -> None:
        """Add the arrays of an ``.npz`` file under their own names. Raises `CompileError`."""
        from vtac.dialects.array_files import read_npz

        with Path(path).open("rb") as stream:
            arrays = read_npz(stream, os.fspath(path))
        for key, array in arrays.items():
            array.setflags(write=False)
            self._arrays[key] = array
            digest = digest_of(array)
            self._keys.setdefault(digest, ResourceAttr(key, digest))

    def copy(self) -> "Resources":
        """A table that shares the arrays; what is added to one is not seen by the other."""
        other = Resources()
        other._arrays = dict(self._arrays)
        other._keys = dict(self._keys)
        return other


@dataclass(frozen=True, eq=False)
class Stored:
    """What stands for a float value once its function is quantised.

    value: in the float function, which may be gone. result: the integers that stand for it, or the
    same in real numbers where scale is None. A stored q stands for ``scale * (q - zero_point)``,
    by ``factors`` (one per channel) too large where there are any. covered: the float ops that
    became the integer ops of the layer that makes it; none where reals are only quantised.
    """

    value: SSAValue
    result: SSAValue
    scale: float | None
    zero_point: int
    factors: Array | None
    covered: Sequence[Operation]


@dataclass(frozen=True)
class RecordedPoint:
    """A point of a schedule template that was found to be good for a kernel on a machine.

    template, version: whose knobs the point has, by the names of the canonical kernel. cycles: what
    the clock counted; default_cycles: for the default schedule then, if known. name: of the record;
    source: of the file that it comes from.
    """

    template: str
    version: int
    point: "Point"
    cycles: int
    default_cycles: int | None
    name: str
    source: str


Schedules = Callable[["KernelOp", "Target"], Sequence[RecordedPoint]]
"""Recorded points for a kernel of tensors in its module, and a machine; the best first."""


class Observations(Protocol):
    """What a float network does on a few batches of samples (the drivers observe it)."""

    @property
    def batches(self) -> Sequence[Sequence[Array]]:
        """The arguments of the network, for each batch."""
        ...

    def mean(self, value: SSAValue) -> Array | None:
        """The mean of each channel of a value [N, C, ...] over all batches; None if not known."""
        ...

    def power(self, value: SSAValue) -> Array | None:
        """The mean square of each channel of a value over all batches; None if not known."""
        ...

    def largest(self, value: SSAValue) -> Array | None:
        """The largest magnitude of each channel of a value; None if not known."""
        ...

    def describe_part(self, whole: SSAValue, part: SSAValue, channels: Array, number: int) -> None:
        """Let a new value be known as some channels of another, its part of this number."""
        ...

    def describe_copy(self, op: Operation, copy: Operation) -> None:
        """Let a new op be known as a copy of another, which may compute some channels of it."""
        ...

    def evaluate(self, op: Operation, batches: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The results of one op, which may be new, for its operands in each batch."""
        ...

    def quantised(self, values: Sequence[Stored]) -> None:
        """Be told what stands for the values of the network that became integers, in order."""
        ...


@dataclass
class VtacContext(Context):
    """xDSL's context with the resource table, the codegens and, perhaps, more.

    observations: what the network at hand does on samples.
    """

    resources: Resources = field(default_factory=Resources)
    codegens: Callable[[], Sequence[object]] = tuple
    """Finds who may take regions of a network, by falling priority (`vtac.passes.graph.codegen`).

    A function: passes of other levels do not need them, and they take long to import."""
    observations: Observations | None = None

    lowerings: Mapping[str, object] = field(default_factory=dict)
    """Of intrinsics beyond the target's, by the name they lower to (`vtac.lowering.te_to_vta`)."""

    schedules: Schedules | None = None
    """Finds recorded schedules for `te-schedule`."""

    def clone(self) -> "VtacContext":
        """A context with the same dialects whose resource table grows on its own."""
        base = super().clone()
        return VtacContext(
            base.allow_unregistered,
            base._loaded_dialects,
            base._loaded_ops,
            base._loaded_attrs,
            base._loaded_types,
            base._registered_dialects,
            self.resources.copy(),
            self.codegens,
            self.observations,
            self.lowerings,
            self.schedules,
        )


def resources_of(ctx: Context) -> Resources:
    """The resource table of a pass's context."""
    if isinstance(ctx, VtacContext):
        return ctx.resources
    raise CompileError(Problem("", "this pass needs a VtacContext, which carries the weights"))


def constant_attr(ctx: Context, array: Array, hint: str = "constant") -> Attribute:
    """The attribute of a constant: inline when small, else a resource named after ``hint``.

    Infinities and NaN make a resource too: the text of a dense attribute does not hold them.
    """
    import numpy as np

    if array.size > INLINE_ELEMENTS or (array.dtype.kind == "f" and not np.isfinite(array).all()):
        return resources_of(ctx).add(array, hint)
    type = tensor_type(array)
    return DenseIntOrFPElementsAttr(cast(Any, type), cast(Any, element_bytes_attr(type, array)))


def element_bytes_attr(type: TensorType[Any], array: Array) -> Attribute:
    """The raw bytes of an array as the data of a dense attribute."""
    element = cast(Any, type.element_type)
    return BytesAttr(element.pack(array.ravel().tolist()))


def constant_value(ctx: Context, attr: Attribute, type: Attribute) -> Array:
    """The array of a constant of tensor type ``type``, inline or resource; read-only."""
    import numpy as np

    assert isinstance(type, TensorType)
    dtype, shape = element_dtype(type.element_type), type.get_shape()
    if isinstance(attr, ResourceAttr):
        array = resources_of(ctx).get_array(attr)
        if array.dtype != dtype or array.shape != shape:
            raise CompileError(
                Problem(
                    f"resource '{attr.key.data}'",
                    f"it is {array.dtype}{list(array.shape)}, the IR says {dtype}{list(shape)}",
                )
            )
        return array
    assert isinstance(attr, DenseIntOrFPElementsAttr)
    values = np.array(attr.get_values(), dtype=dtype)
    array = (
        np.broadcast_to(values.reshape(-1)[:1].reshape(()), shape)
        if values.size == 1
        else values.reshape(shape)
    )
    array.setflags(write=False)
    return array
