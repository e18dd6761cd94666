"""A compiled tensor program on a device, which takes and returns logical arrays.

`vtac.te.build` returns such a program. It packs arguments by the layouts of the function's
parameters, and assembles int32 results from their byte planes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import Layout
from vtac.dialects.vta.attributes import BufferKind
from vtac.dialects.vta.program import BinaryProgram, allocate_buffers
from vtac.runtime.device import Device
from vtac.sim import Counters, TimingPreset, TimingReport, estimate

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class TensorSignature:
    """The logical tensors of a program, and the layouts of the buffers that hold them.

    inputs, outputs: name, shape and dtype of each tensor. parameters, results: layout and dtype of
    each buffer, in order; the layout's ``name`` is that of the tensor.
    """

    inputs: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
    outputs: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
    parameters: Sequence[tuple[Layout, np.dtype[Any]]]
    results: Sequence[Layout]


class TensorProgram:
    """A program that takes arrays by position or by name.

    signature: names, shapes and layouts. binary: the encoded program. counters: those of the last
    run (micro-ops, bytes moved). ir: returns the text of a level, ``expressions``, ``te``,
    ``loops`` or ``vta``.
    """

    def __init__(
        self,
        binary: BinaryProgram,
        signature: TensorSignature,
        resources: Mapping[str, Array],
        device: Device,
        text: Callable[[str], str],
    ) -> None:
        self.binary, self.signature, self.ir = binary, signature, text
        self.counters: Counters | None = None
        self._device = device
        self._addresses = allocate_buffers(
            binary.buffers, lambda buffer: device.allocate(buffer.size, buffer.alignment)
        )
        self._code = binary.relocate(self._addresses)
        for buffer in binary.buffers:
            data = buffer.data
            if buffer.resource is not None:
                data = resources[buffer.resource[0]].tobytes()
            if data is not None:
                device.write(self._addresses[buffer.name], np.frombuffer(data, np.uint8))

    def __call__(self, *arrays: Array, order_seed: int | None = None, **named: Array) -> Any:
        """Run on one array for each input. Returns the output, or a tuple of several outputs.

        order_seed: chooses one of the orders of the modules that the tokens allow. Raises
        `CompileError` if an array does not fit.
        """
        given = self._arrays(arrays, named)
        buffers = self.binary.of_kind(BufferKind.INPUT)
        for buffer, (layout, dtype) in zip(buffers, self.signature.parameters, strict=True):
            packed = layout.pack(given[layout.name]).astype(dtype)
            data = np.ascontiguousarray(packed).reshape(-1).view(np.uint8)
            self._device.write(self._addresses[buffer.name], data)
        self.counters = self._device.run([self._code], order_seed)
        return self._outputs()

    def timing(self, preset: str | TimingPreset | None = None) -> TimingReport:
        """Simulate how long a run takes on the target, or at the rates of another ``preset``."""
        return estimate(self.binary.target, self._code, preset)

    def _arrays(self, arrays: Sequence[Array], named: Mapping[str, Array]) -> dict[str, Array]:
        names = list(self.signature.inputs)
        problems = []
        if len(arrays) > len(names):
            problems.append(Problem("", f"{len(arrays)} arrays for the inputs {', '.join(names)}"))
        given = {**dict(zip(names, arrays, strict=False)), **named}
        for unknown in sorted(given.keys() - set(names)):
            problems.append(Problem(unknown, f"is none of the inputs {', '.join(names)}"))
        for name, (shape, dtype) in self.signature.inputs.items():
            if name not in given:
                problems.append(Problem(name, "there is no array for this input"))
                continue
            array = given[name] = np.asarray(given[name])
            limits = np.iinfo(dtype)
            if array.shape != shape:
                what = f"has shape {list(array.shape)}, not {list(shape)}"
                problems.append(Problem(name, what))
            elif array.dtype.kind not in "iu":
                problems.append(Problem(name, f"holds {array.dtype}, not {dtype}"))
            elif array.size and (array.min() < limits.min or array.max() > limits.max):
                problems.append(Problem(name, f"holds values that {dtype} does not"))
        if problems:
            raise CompileError(problems)
        return given

    def _outputs(self) -> Any:
        """The logical outputs. Each byte of an int32 is in a plane of its own, the lowest first."""
        planes = {
            name: np.zeros((*shape, dtype.itemsize), np.uint8)
            for name, (shape, dtype) in self.signature.outputs.items()
        }
        buffers = self.binary.of_kind(BufferKind.OUTPUT)
        for buffer, layout in zip(buffers, self.signature.results, strict=True):
            data = self._device.read(self._addresses[buffer.name], buffer.size)
            plane = planes[layout.name][..., layout.byte or 0]
            layout.unpack(data.reshape(layout.physical), plane)
        found = [
            planes[name].view(dtype.newbyteorder("<")).reshape(shape).astype(dtype)
            for name, (shape, dtype) in self.signature.outputs.items()
        ]
        return tuple(found) if len(found) > 1 else found[0]
