"""From a vta program to words, and back.

``encode_program`` takes a program whose buffers are placed, micro-ops planned and tokens set.
``decode_program`` is its inverse: with the names that travel beside the words the text is the same;
without them it is that of the program after ``vta-strip-names``. What the words alone cannot say,
which stretch of the micro-op buffer is a kernel, follows from the micro-op loads in force at each
instruction.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.locations import layer_of
from vtac.dialects.target import ClusterTarget, Memory, Target
from vtac.dialects.vta import (
    TOKENS,
    AluOp,
    AluOpcodeAttr,
    BufferKind,
    BufferOp,
    ClusterOp,
    CopyOp,
    DmaOp,
    FinishOp,
    GemmOp,
    InstructionOp,
    KernelOp,
    LoadOp,
    MicroOps,
    ProgramOp,
    StoreOp,
    StreamOp,
    TransferOp,
    WaitOp,
    integer,
    integers,
    memory_attr,
    symbol,
)
from vtac.dialects.vta.cluster_program import BinaryCluster, ClusterCommand, PlacedCopy
from vtac.dialects.vta.dma import Signal, Wait
from vtac.dialects.vta.encoding import (
    Alu,
    Compute,
    Gemm,
    Instruction,
    Load,
    Opcode,
    Transfer,
    decode,
    decode_micro_ops,
    encode_micro_ops,
    encode_rows,
)
from vtac.dialects.vta.program import BinaryProgram, Buffer, Names
from vtac.dialects.vtac import ResourceAttr

Range = tuple[int, int]
"""Where a kernel lies in the micro-op buffer: first micro-op, and the one after the last."""


def encode_program(program: ProgramOp) -> BinaryProgram:
    """The words, buffers and relocations of a program.

    Raises `CompileError` where buffers are not placed or micro-ops not planned.
    """
    return _encode_stream(program, program.sym_name.data)


def encode_cluster(program: ClusterOp) -> BinaryCluster:
    """The words of each unit of a cluster's program, its buffers and relocations.

    Raises `CompileError` as `encode_program`.
    """
    name, target, cores = program.sym_name.data, program.target, program.cores()
    streams = []
    for number in range(target.cores):
        core = cores.get(number)
        if core is None:  # it has nothing to do
            finish = encode_rows(target.core, [(Opcode.FINISH, (False,) * len(TOKENS))])
            streams.append(BinaryProgram(name, target.core, finish, (), ()))
        else:
            streams.append(_encode_stream(core, name))
    shared = [encode_buffer(op, {}, target.core) for op in program.buffers().values()]
    known = set(program.buffers())
    own = [b for stream in streams for b in stream.buffers if b.name not in known]
    buffers = tuple(shared + own)
    commands = [] if program.dma is None else _commands(program.dma, target)
    return BinaryCluster(
        name,
        target,
        tuple(replace(stream, buffers=buffers) for stream in streams),
        tuple(commands),
    )


def _commands(dma: DmaOp, target: ClusterTarget) -> Iterator[ClusterCommand]:
    """The commands of the DMA's stream, relative to buffers."""
    number = target.cores
    for op in dma.commands():
        if isinstance(op, CopyOp):
            yield PlacedCopy(op.source_place, op.target_place, op.size.value.data)
        elif isinstance(op, WaitOp):
            yield Wait(target.semaphore_number(op.unit.value.data, number))
        else:
            yield Signal(target.semaphore_number(number, op.unit.value.data))


def _encode_stream(program: StreamOp, name: str) -> BinaryProgram:
    target = program.target
    ops = program.instructions()
    try:
        rows = [(op.OPCODE, op.row()) for op in ops]
    except ValueError as error:
        raise CompileError(Problem(program.label, str(error))) from None
    relocations = tuple(
        (index, op.buffer_name)
        for index, op in enumerate(ops)
        if isinstance(op, TransferOp) and op.buffer_name is not None
    )
    kernels = program.kernels()
    buffers = tuple(encode_buffer(op, kernels, target) for op in program.buffers().values())
    listed = [name for op in program.buffers().values() for name in op.kernel_names()]
    names = Names(tuple(dict.fromkeys(listed)), tuple(layer_of(op) for op in ops))
    return BinaryProgram(name, target, encode_rows(target, rows), relocations, buffers, names)


def encode_buffer(op: BufferOp, kernels: Mapping[str, KernelOp], target: Target) -> Buffer:
    """A buffer of a program. kernels: those of the program, by name."""
    resource, data, element = None, None, "i8"
    shape: tuple[int, ...] = ()
    if isinstance(op.value, ResourceAttr):
        resource = (op.value.key.data, op.value.digest.data)
    elif isinstance(op.value, DenseIntOrFPElementsAttr):
        data = op.value.data.data
        shape, element = tuple(op.value.get_shape()), str(op.value.get_element_type())
    elif op.kernels is not None:
        rows = [kernels[name].micro_ops.rows for name in op.kernel_names()]
        data = encode_micro_ops(target, *np.concatenate(rows).T).astype("<u4").tobytes()
    return Buffer(
        op.sym_name.data,
        op.kind.data,
        op.bytes.value.data,
        op.align.value.data,
        None if op.index is None else op.index.value.data,
        resource,
        data,
        shape,
        element,
        op.place,
        op.lifetime,
    )


def decode_program(binary: BinaryProgram) -> ProgramOp:
    """The program of some words. Raises `EncodingError` on words that mean nothing."""
    instructions = decode(binary.target, binary.insns)
    buffers = dict(binary.relocations)
    ranges = _kernel_ranges(binary, instructions, buffers)
    kernels, listed = _kernels(binary, [found for found in ranges if found is not None])
    if not kernels:
        ranges = [None] * len(instructions)
    ops: list[Operation] = [_decode_buffer(buffer, listed) for buffer in binary.buffers]
    ops += [KernelOp(name, micro_ops) for micro_ops, name in kernels.items()]
    names = dict(zip(_partition(r for r in ranges if r is not None), listed, strict=False))
    layers = binary.names.layers if binary.names is not None else ("",) * len(instructions)
    for index, (instruction, layer) in enumerate(zip(instructions, layers, strict=True)):
        found = ranges[index]
        op = _decode_instruction(
            instruction, buffers.get(index), None if found is None else names[found]
        )
        if layer:
            op.location = NameLoc(StringAttr(layer), NoneAttr())
        ops.append(op)
    return ProgramOp(binary.name, binary.target, Region(Block(ops)))


def _micro_op_buffer(binary: BinaryProgram) -> Buffer | None:
    found = [buffer for buffer in binary.buffers if buffer.kind is BufferKind.MICRO_OPS]
    return found[0] if len(found) == 1 else None


def _kernel_ranges(
    binary: BinaryProgram, instructions: Sequence[Instruction], buffers: Mapping[int, str]
) -> list[Range | None]:
    """The range of the micro-op buffer that each compute instruction runs, None elsewhere."""
    store = _micro_op_buffer(binary)
    ranges: list[Range | None] = [None] * len(instructions)
    if store is None:
        return ranges
    resident = np.full(binary.target.uop_depth, -1, np.int64)
    for index, instruction in enumerate(instructions):
        if isinstance(instruction, Load) and instruction.memory is Memory.UOP:
            if buffers.get(index) == store.name:
                _make_resident(resident, instruction)
        elif isinstance(instruction, Compute):
            held = resident[instruction.uop_bgn : instruction.uop_end]
            if len(held) and held[0] >= 0 and (np.diff(held) == 1).all():
                ranges[index] = (int(held[0]), int(held[-1]) + 1)
    return ranges


def _make_resident(resident: NDArray[np.int64], load: Load) -> None:
    rows = load.dram_base + np.arange(load.y_size)[:, None] * load.x_stride
    held = (rows + np.arange(load.x_size)).ravel()
    resident[load.sram_base : load.sram_base + len(held)] = held


def _partition(ranges: Iterable[Range]) -> list[Range]:
    """Distinct ranges, in order."""
    return sorted(set(ranges))


def _kernels(
    binary: BinaryProgram, ranges: Iterable[Range]
) -> tuple[dict[MicroOps, str], list[str]]:
    """The kernels of the micro-op buffer with their names, and their names in its order.

    Where the ranges that instructions run do not fill the buffer one by one, it is one kernel that
    no instruction names.
    """
    store = _micro_op_buffer(binary)
    if store is None or store.data is None:
        return {}, []
    rows = decode_micro_ops(binary.target, np.frombuffer(store.data, "<u4"))
    parts = _partition(ranges)
    borders = [0, *(end for _, end in parts)]
    if borders[:-1] != [begin for begin, _ in parts] or borders[-1] != len(rows):
        parts = [(0, len(rows))]
    given = iter(binary.names.kernels if binary.names is not None else ())
    kernels: dict[MicroOps, str] = {}
    listed = []
    for begin, end in parts:
        micro_ops = MicroOps.of(rows[begin:end])
        if micro_ops not in kernels:
            kernels[micro_ops] = next(given, f"u{len(kernels)}")
        listed.append(kernels[micro_ops])
    return kernels, listed


def _decode_buffer(buffer: Buffer, kernels: Sequence[str]) -> BufferOp:
    value: Attribute | None = None
    if buffer.resource is not None:
        value = ResourceAttr(*buffer.resource)
    elif buffer.kind is BufferKind.CONSTANT and buffer.data is not None:
        width = IntegerType(int(buffer.element.removeprefix("i")))
        value = DenseIntOrFPElementsAttr(TensorType(width, buffer.shape), BytesAttr(buffer.data))
    return BufferOp(
        buffer.name,
        buffer.kind,
        buffer.size,
        buffer.alignment,
        buffer.index,
        value,
        kernels if buffer.kind is BufferKind.MICRO_OPS else None,
        buffer.place,
        buffer.live,
    )


def _decode_instruction(
    instruction: Instruction, buffer: str | None, kernel: str | None
) -> InstructionOp:
    properties: dict[str, Attribute] = {
        token: UnitAttr() for token in TOKENS if getattr(instruction, token)
    }
    if isinstance(instruction, Transfer):
        return _decode_transfer(instruction, buffer, properties)
    if isinstance(instruction, Compute):
        return _decode_compute(instruction, kernel, properties)
    return FinishOp.create(properties=properties)


def _decode_transfer(
    instruction: Transfer, buffer: str | None, properties: dict[str, Attribute]
) -> InstructionOp:
    properties |= {
        "sram_base": integer(instruction.sram_base),
        "dram_base": integer(instruction.dram_base),
        "size": integers(instruction.y_size, instruction.x_size),
        "stride": integer(instruction.x_stride),
    }
    if buffer is not None:
        properties["buffer"] = symbol(buffer)
    if not isinstance(instruction, Load):
        return StoreOp.create(properties=properties)
    pads = (instruction.y_pad_0, instruction.y_pad_1, instruction.x_pad_0, instruction.x_pad_1)
    properties |= {"memory": memory_attr(instruction.memory), "pads": integers(*pads)}
    return LoadOp.create(properties=properties)


def _decode_compute(
    instruction: Compute, kernel: str | None, properties: dict[str, Attribute]
) -> InstructionOp:
    properties |= {
        "uops": integers(instruction.uop_bgn, instruction.uop_end),
        "loops": integers(instruction.iter_out, instruction.iter_in),
        "dst": integers(instruction.dst_factor_out, instruction.dst_factor_in),
        "src": integers(instruction.src_factor_out, instruction.src_factor_in),
    }
    if kernel is not None:
        properties["kernel"] = symbol(kernel)
    if instruction.reset:
        properties["reset"] = UnitAttr()
    if isinstance(instruction, Gemm):
        properties["wgt"] = integers(instruction.wgt_factor_out, instruction.wgt_factor_in)
        return GemmOp.create(properties=properties)
    assert isinstance(instruction, Alu)
    properties["operation"] = AluOpcodeAttr(instruction.alu_opcode)
    if instruction.use_imm:
        properties["imm"] = integer(instruction.imm)
    elif instruction.imm:
        properties["unused_imm"] = integer(instruction.imm)
    return AluOp.create(properties=properties)
