"""Takes programs from loops or from vta text to answers of the simulator, every proof on the way.

``run_loops`` is the whole way: te-to-vta, all passes of vta, encode, place, check for hazards, run
in several orders of the modules, and read the outputs. The other functions are parts of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from vtac.dialects import te
from vtac.dialects.context import Resources, VtacContext
from vtac.dialects.errors import CompileError
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.dialects.vta import BufferKind, ProgramOp
from vtac.dialects.vta.program import BinaryProgram, Buffer
from vtac.lowering.te_to_binary import lower_to_binary
from vtac.lowering.te_to_vta import TeToVtaPass
from vtac.lowering.vta_to_binary import decode_program, encode_program
from vtac.passes.te.accelerated import CODEGEN
from vtac.passes.vta.allocate import allocate
from vtac.passes.vta.insert_dependences import insert_dependences
from vtac.passes.vta.join_compute import join_compute
from vtac.passes.vta.join_loads import join_loads
from vtac.passes.vta.order_instructions import order_instructions
from vtac.passes.vta.place_scratch import place_scratch
from vtac.passes.vta.plan_microops import plan_micro_ops
from vtac.passes.vta.split_loads import split_loads
from vtac.passes.vta.strip_names import strip_names
from vtac.sim import Simulator, check
from vtac.tools.driver.discovery import load_dialects

SEEDS = (None, 0, 1, 2)
"""Orders of the modules: as they come, and three random ones."""

Arrays = Mapping[str, NDArray[np.generic]]


def context() -> VtacContext:
    """A context with every dialect and an empty resource table."""
    ctx = VtacContext()
    load_dialects(ctx)
    return ctx


def parse(ctx: VtacContext, text: str) -> ModuleOp:
    """A module from text, verified; the standard intrinsics of its target are added if missing."""
    module = Parser(ctx, text).parse_module()
    target = module.attributes.get(TARGET_ATTRIBUTE)
    if isinstance(target, Target) and not any(
        isinstance(op, te.IntrinsicOp) for op in module.body.block.ops
    ):
        for intrinsic in te.standard_intrinsics(target):
            module.body.block.add_op(intrinsic)
    module.verify()
    return module


def finish_program(program: ProgramOp) -> BinaryProgram:
    """All passes from pre-allocation form to words, verified; the round trip holds."""
    allocate(program)
    split_loads(program)
    order_instructions(program)
    join_loads(program)
    join_compute(program)
    plan_micro_ops(program)
    insert_dependences(program)
    program.verify()
    binary = encode_program(program)
    assert_round_trip(program, binary)
    return binary


def assert_round_trip(program: ProgramOp, binary: BinaryProgram) -> None:
    """decode(encode(p)) is p, and words without names are those of p with names stripped."""
    decoded = decode_program(binary)
    assert decoded.is_structurally_equivalent(program)
    stripped = program.clone()
    strip_names(stripped)
    again = encode_program(stripped)
    assert np.array_equal(again.insns, binary.insns)
    assert decode_program(replace(again, names=None)).is_structurally_equivalent(stripped)


def contents(buffer: Buffer, inputs: Arrays, resources: Resources) -> bytes | None:
    """What lies in a buffer at launch, None where nothing is defined."""
    if buffer.kind is BufferKind.INPUT:
        return inputs[buffer.name].tobytes()
    if buffer.resource is not None:
        return np.ascontiguousarray(resources[buffer.resource[0]]).tobytes()
    return buffer.data


def image_of(
    binary: BinaryProgram, inputs: Arrays, resources: Resources, seed: int = 7
) -> tuple[dict[str, int], NDArray[np.uint8]]:
    """Addresses and a DRAM image, noise wherever nothing is defined."""
    addresses = binary.place()
    size = max(addresses[buffer.name] + buffer.size for buffer in binary.buffers)
    image = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    for buffer in binary.buffers:
        data = contents(buffer, inputs, resources)
        if data is not None:
            assert len(data) == buffer.size, (buffer.name, len(data), buffer.size)
            start = addresses[buffer.name]
            image[start : start + buffer.size] = np.frombuffer(data, np.uint8)
    return addresses, image


def run_binary(
    binary: BinaryProgram,
    inputs: Arrays,
    resources: Resources | None = None,
    seeds: Sequence[int | None] = SEEDS,
) -> dict[str, bytes]:
    """The bytes of the outputs, by name; free of hazards, and the same in every order."""
    resources = Resources() if resources is None else resources
    addresses, image = image_of(binary, inputs, resources)
    words = binary.relocate(addresses)
    report = check(binary.target, words, image)
    assert report.ok, str(report)
    assert not report.warnings, str(report)
    simulator, images = Simulator(binary.target), [image.copy() for _ in seeds]
    for seed, changed in zip(seeds, images, strict=True):
        simulator.run(words, changed, strict=True, order_seed=seed)
    for other in images[1:]:
        assert np.array_equal(other, images[0])
    return {
        buffer.name: images[0][addresses[buffer.name] :][: buffer.size].tobytes()
        for buffer in binary.of_kind(BufferKind.OUTPUT)
    }


def lower_loops(ctx: VtacContext, module: ModuleOp) -> list[BinaryProgram]:
    """The programs of a module in loop form, one per accelerator function; changes the module.

    Each is what `lower_to_binary` makes of the same function without operations.
    """
    straight = straight_binaries(ctx, module)
    TeToVtaPass().apply(ctx, module)
    module.verify()
    programs = [op for op in module.body.block.ops if isinstance(op, ProgramOp)]
    for program in programs:
        place_scratch(program)
    binaries = [finish_program(program) for program in programs]
    for binary in binaries:
        assert_same_words(straight[binary.name], binary)
    for op in module.body.block.ops:
        if not isinstance(op, ProgramOp):  # those are verified
            op.verify()
    return binaries


def straight_binaries(
    ctx: VtacContext, module: ModuleOp
) -> dict[str, BinaryProgram | CompileError]:
    """What `lower_to_binary` makes of each accelerator function, or why it refuses it."""
    found: dict[str, BinaryProgram | CompileError] = {}
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.attributes.get("codegen") == StringAttr(CODEGEN):
            try:
                found[op.sym_name.data] = lower_to_binary(ctx, op, module)
            except CompileError as error:
                found[op.sym_name.data] = error
    return found


def assert_same_words(straight: BinaryProgram | CompileError, binary: BinaryProgram) -> None:
    """Both have the same words, the same relocations, and buffers of the same sizes and places."""
    if isinstance(straight, CompileError):
        raise straight
    assert straight.relocations == binary.relocations
    assert np.array_equal(straight.insns, binary.insns)
    assert straight.place() == binary.place()


def run_loops(
    ctx: VtacContext,
    module: ModuleOp,
    inputs: Sequence[NDArray[np.generic]],
    seeds: Sequence[int | None] = SEEDS,
) -> list[NDArray[np.generic]]:
    """The outputs of a module with one accelerator function in loop form."""
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    (types,) = [function.function_type.outputs.data for function in functions]
    (binary,) = lower_loops(ctx, module)
    names = [buffer.name for buffer in binary.of_kind(BufferKind.INPUT)]
    named = dict(zip(names, inputs, strict=True))
    outputs = run_binary(binary, named, ctx.resources, seeds)
    return [
        _array(outputs[buffer.name], type)
        for buffer, type in zip(binary.of_kind(BufferKind.OUTPUT), types, strict=True)
    ]


def _array(data: bytes, type: object) -> NDArray[np.generic]:
    assert isinstance(type, TensorType) and isinstance(type.element_type, IntegerType)
    dtype = np.dtype(f"i{type.element_type.width.data // 8}")
    return np.frombuffer(data, dtype).reshape(type.get_shape())
