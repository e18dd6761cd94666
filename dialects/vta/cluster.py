"""Programs for a cluster: one stream for each core and one for the DMA, over shared buffers.

```
vta.cluster @vta_0 attributes {vtac.target = #target.cluster<...>} {
  vta.buffer @x input index 0 bytes 1024 align 256
  vta.buffer @semaphores semaphore bytes 576 align 64
  vta.core 0 {
    vta.load inp %b sram 0 from @x dram 0 size [1, 64] stride 64
    vta.store sram 0 to @semaphores dram 12 size [1, 1] stride 1
    vta.finish
  }
  vta.dma {
    vta.copy @weights offset 0 to @staged offset 0 bytes 4096
  }
}
```
A core's stream is that of any `ProgramOp`; signals and waits are its ordinary stores and loads on
the buffer of kind ``semaphore``. ``vta.step`` marks where a step of the emission order begins,
until ``vta-insert-semaphores`` has derived the order between units from it.
"""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    i64,
)
from xdsl.ir import Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from ..target import TARGET_ATTRIBUTE, ClusterTarget, Target
from .attributes import BufferKind, integer, symbol
from .dma import COPY_ALIGNMENT
from .ops import BufferOp, StreamOp, verify_places

_INTEGER = IntegerAttr.constr(i64)


@irdl_op_definition
class ClusterOp(IRDLOperation):
    """One program of a cluster: shared buffers, a stream for each core that works, the DMA's."""

    name = "vta.cluster"

    sym_name = prop_def(SymbolNameConstraint())
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface(), SymbolTable())

    assembly_format = "$sym_name attr-dict-with-keyword $body"

    def __init__(self, name: str, target: ClusterTarget, body: Region):
        super().__init__(
            properties={"sym_name": StringAttr(name)},
            attributes={TARGET_ATTRIBUTE: target},
            regions=[body],
        )

    @property
    def target(self) -> ClusterTarget:
        """The cluster that the program is for."""
        return cast(ClusterTarget, self.attributes[TARGET_ATTRIBUTE])

    def buffers(self) -> dict[str, BufferOp]:
        """The shared buffers by name, in the order of the text."""
        return {op.sym_name.data: op for op in self.body.block.ops if isinstance(op, BufferOp)}

    def cores(self) -> "dict[int, CoreOp]":
        """The streams of the cores by number; those that do nothing may be missing."""
        return {op.number.value.data: op for op in self.body.block.ops if isinstance(op, CoreOp)}

    @property
    def dma(self) -> "DmaOp | None":
        """The stream of the DMA, if it has one."""
        return next((op for op in self.body.block.ops if isinstance(op, DmaOp)), None)

    def verify_(self) -> None:
        """There is a cluster; each core has one stream at most, and none has too high a number."""
        if not isinstance(self.attributes.get(TARGET_ATTRIBUTE), ClusterTarget):
            raise VerifyException(f"vta.cluster needs a cluster as {TARGET_ATTRIBUTE}")
        ops = list(self.body.block.ops)
        for op in ops:
            if not isinstance(op, BufferOp | CoreOp | DmaOp):
                raise VerifyException(f"vta.cluster: {op.name} must stand in a vta.core")
        numbers = [op.number.value.data for op in ops if isinstance(op, CoreOp)]
        if len(set(numbers)) != len(numbers):
            raise VerifyException("vta.cluster: a core has two streams")
        if any(not 0 <= number < self.target.cores for number in numbers):
            raise VerifyException(f"vta.cluster: cores are 0 to {self.target.cores - 1}")
        copies = [op for op in ops if isinstance(op, DmaOp)]
        if len(copies) > self.target.dma:
            what = "two streams for the DMA" if self.target.dma else "a stream for a DMA it lacks"
            raise VerifyException(f"vta.cluster has {what}")
        verify_places([op for op in ops if isinstance(op, BufferOp)])


@irdl_op_definition
class CoreOp(StreamOp):
    """The stream of one core: ``vta.core 3 { ... }``."""

    name = "vta.core"

    number = prop_def(_INTEGER)

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolTable())

    assembly_format = "$number attr-dict-with-keyword $body"

    def __init__(self, number: int, body: Region):
        super().__init__(properties={"number": integer(number)}, regions=[body])

    @property
    def cluster(self) -> ClusterOp:
        """The program that it is a part of."""
        return cast(ClusterOp, self.parent_op())

    @property
    def target(self) -> Target:
        """The machine of each core."""
        return self.cluster.target.core

    @property
    def label(self) -> str:
        """``core 3 of vta.cluster @name``."""
        return f"core {self.number.value.data} of vta.cluster @{self.cluster.sym_name.data}"

    @property
    def shared_buffers(self) -> dict[str, BufferOp]:
        """The buffers of the cluster's program."""
        return self.cluster.buffers()

    @property
    def micro_op_buffer(self) -> str:
        """``uops3``: names differ between the cores of a program."""
        return f"uops{self.number.value.data}"

    def verify_(self) -> None:
        """Every name that an instruction uses is defined."""
        if not isinstance(self.parent_op(), ClusterOp):
            raise VerifyException("vta.core must stand in a vta.cluster")
        self.verify_stream()


@irdl_op_definition
class DmaOp(IRDLOperation):
    """The stream of the DMA, without its FINISH: ``vta.dma { ... }``."""

    name = "vta.dma"

    body = region_def("single_block")

    traits = traits_def(NoTerminator())

    assembly_format = "attr-dict-with-keyword $body"

    def __init__(self, body: Region):
        super().__init__(regions=[body])

    def commands(self) -> "Sequence[CopyOp | WaitOp | SignalOp]":
        """The commands, in order."""
        return [op for op in self.body.block.ops if isinstance(op, CopyOp | WaitOp | SignalOp)]

    def verify_(self) -> None:
        """Only commands, whose buffers the cluster has."""
        cluster = self.parent_op()
        if not isinstance(cluster, ClusterOp):
            raise VerifyException("vta.dma must stand in a vta.cluster")
        buffers = cluster.buffers()
        for op in self.body.block.ops:
            if isinstance(op, CopyOp):
                op.verify_ends(buffers)
            elif not isinstance(op, WaitOp | SignalOp | StepOp):
                raise VerifyException(f"vta.dma: {op.name} is no command of the DMA")


@irdl_op_definition
class CopyOp(IRDLOperation):
    """COPY: ``vta.copy @weights offset 0 to @staged offset 4096 bytes 512``; all in bytes."""

    name = "vta.copy"

    source = prop_def(FlatSymbolRefAttrConstr)
    source_offset = prop_def(_INTEGER)
    target = prop_def(FlatSymbolRefAttrConstr)
    target_offset = prop_def(_INTEGER)
    size = prop_def(_INTEGER)

    assembly_format = (
        "$source `offset` $source_offset `to` $target `offset` $target_offset `bytes` $size"
        " attr-dict"
    )

    def __init__(self, source: tuple[str, int], target: tuple[str, int], size: int):
        super().__init__(
            properties={
                "source": symbol(source[0]),
                "source_offset": integer(source[1]),
                "target": symbol(target[0]),
                "target_offset": integer(target[1]),
                "size": integer(size),
            }
        )

    @property
    def source_place(self) -> tuple[str, int]:
        """The buffer that is read, and the first byte there."""
        return self.source.root_reference.data, self.source_offset.value.data

    @property
    def target_place(self) -> tuple[str, int]:
        """The buffer that is written, and the first byte there."""
        return self.target.root_reference.data, self.target_offset.value.data

    def verify_ends(self, buffers: dict[str, BufferOp]) -> None:
        """Both ends lie in buffers, at multiples of what the DMA moves at once."""
        size = self.size.value.data
        for name, offset in (self.source_place, self.target_place):
            if name not in buffers:
                raise VerifyException(f"vta.copy: there is no vta.buffer @{name}")
            if not 0 <= offset <= offset + size <= buffers[name].bytes.value.data:
                raise VerifyException(f"vta.copy: leaves @{name}")
            if offset % COPY_ALIGNMENT or size % COPY_ALIGNMENT or size <= 0:
                raise VerifyException(f"vta.copy: expected multiples of {COPY_ALIGNMENT} bytes")


@irdl_op_definition
class WaitOp(IRDLOperation):
    """WAIT of the DMA: ``vta.wait from 3``, for a signal of that unit."""

    name = "vta.wait"

    unit = prop_def(_INTEGER)

    assembly_format = "`from` $unit attr-dict"

    def __init__(self, unit: int):
        super().__init__(properties={"unit": integer(unit)})


@irdl_op_definition
class SignalOp(IRDLOperation):
    """SIGNAL of the DMA: ``vta.signal to 3``, for that unit to wait for."""

    name = "vta.signal"

    unit = prop_def(_INTEGER)

    assembly_format = "`to` $unit attr-dict"

    def __init__(self, unit: int):
        super().__init__(properties={"unit": integer(unit)})


@irdl_op_definition
class StepOp(IRDLOperation):
    """Where a step of the emission order begins in a unit's stream: ``vta.step 12``.

    The meaning of a cluster's program is that of its steps one after the other.
    """

    name = "vta.step"

    number = prop_def(_INTEGER)

    assembly_format = "$number attr-dict"

    def __init__(self, number: int):
        super().__init__(properties={"number": integer(number)})


def semaphore_buffer(name: str, size: int) -> BufferOp:
    """The declaration of all semaphores of a cluster."""
    return BufferOp(name, BufferKind.SEMAPHORE, size, 64)
