"""A point is proved: its program is executed, compared with NumPy, and checked for hazards.

The kernel is compiled as in a network, with random numbers for its inputs and its constants, and
runs on the functional simulator in strict mode, in program order and in a random order that its
tokens allow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from vtac.dialects import te
from vtac.dialects.context import VtacContext, constant_attr
from vtac.dialects.errors import CompileError
from vtac.dialects.target import TARGET_ATTRIBUTE
from vtac.dialects.te import Point
from vtac.dialects.vta import ProgramOp
from vtac.dialects.vta.attributes import BufferKind
from vtac.dialects.vta.program import BinaryProgram
from vtac.lowering.codegens.vta import LOWERING
from vtac.lowering.vta_to_binary import encode_program
from vtac.passes.te.accelerated import CODEGEN
from vtac.sim import SimulationError, Simulator, check, estimate
from vtac.tools.driver.discovery import OurPasses
from vtac.tools.driver.pipelines import built_passes
from vtac.tools.tune.evaluate import evaluate_kernel
from vtac.tools.tune.kernel import TaskKernel, prepared

Array = NDArray[Any]

LARGEST_SHIFT = 12
"""Numbers by which others are shifted lie between 0 and this one."""


@dataclass(frozen=True)
class Proof:
    """What the execution of a program showed.

    problem: empty if everything agreed. bound: the lower bound of the program's cycles.
    """

    problem: str = ""
    bound: int = 0


def prove(module: str, template: str, point: Point, seed: int = 0) -> Proof:
    """Compile a point, run it on random numbers, and compare (see the module)."""
    kernel = prepared(module, template)
    random = np.random.default_rng(seed)
    arrays = _numbers(kernel.kernel, random)
    try:
        binary, constants = _compiled(kernel, point, arrays)
    except CompileError as error:
        return Proof("; ".join(problem.what for problem in error.problems))
    given = [array for place, array in enumerate(arrays) if place not in constants]
    image, addresses = _image(binary, given, random)
    words = binary.relocate(addresses)
    bound = estimate(binary.target, words).total.lower_bound
    hazards = check(binary.target, words, image).hazards
    if hazards:
        return Proof(f"hazard: {hazards[0]}", bound)
    wanted = evaluate_kernel(kernel.kernel, arrays)
    for order in (None, seed):
        try:
            result = image.copy()
            Simulator(binary.target).run(words, result, strict=True, order_seed=order)
        except SimulationError as error:
            return Proof(f"simulation: {error}", bound)
        problem = _difference(binary, addresses, result, wanted)
        if problem:
            return Proof(problem, bound)
    return Proof("", bound)


def _numbers(kernel: te.KernelOp, random: np.random.Generator) -> list[Array]:
    """An array for each parameter of a kernel: any numbers of its type, but shifts that exist."""
    shifts = _shifts(kernel)
    found = []
    for parameter in kernel.body.block.args:
        type = parameter.type
        assert isinstance(type, TensorType) and isinstance(type.element_type, IntegerType)
        dtype = np.dtype(f"i{type.element_type.width.data // 8}")
        low, high = (0, LARGEST_SHIFT) if parameter in shifts else (-128, 127)
        if parameter not in shifts and dtype.itemsize > 1:
            low, high = -(1 << 14), 1 << 14
        found.append(random.integers(low, high, type.get_shape(), dtype, endpoint=True))
    return found


def _shifts(kernel: te.KernelOp) -> set[SSAValue]:
    """The parameters whose numbers others are shifted by."""
    found = set[SSAValue]()
    for compute in kernel.computes:
        skipped = len(compute.body.block.args) - len(compute.reads)
        for op in compute.body.block.ops:
            if isinstance(op, arith.ShRSIOp | arith.ShLIOp):
                by = op.operands[1]
                if isinstance(by.owner, arith.ExtSIOp):
                    by = by.owner.operands[0]
                if isinstance(by, BlockArgument) and by.index >= skipped:
                    found.add(compute.reads[by.index - skipped].value)
    return found


def _compiled(
    kernel: TaskKernel, point: Point, arrays: Sequence[Array]
) -> tuple[BinaryProgram, set[int]]:
    """The program of a point, and which of the kernel's parameters are constants in it."""
    ctx = VtacContext()
    module = kernel.module.clone()
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    (call,) = (op for op in function.body.block.ops if isinstance(op, te.CallOp))
    (own,) = (op for op in module.ops if isinstance(op, te.KernelOp))
    constants = set[int]()
    for place, value in enumerate(call.arguments):
        if isinstance(value.owner, te.ConstantOp):
            value.owner.value = constant_attr(ctx, arrays[place], f"constant{place}")
            constants.add(place)
    module.body.block.insert_op_after(kernel.space.schedule(own, point, 0), own)
    function.attributes["codegen"] = StringAttr(CODEGEN)
    function.attributes[TARGET_ATTRIBUTE] = kernel.target
    return _lowered(module, ctx), constants


def _lowered(module: ModuleOp, ctx: VtacContext) -> BinaryProgram:
    """The program of a module at the level ``te`` whose kernels have schedules."""
    for found in built_passes(LOWERING.since("te").passes, OurPasses()):
        found.apply(ctx, module)
    (program,) = (op for op in module.ops if isinstance(op, ProgramOp))
    binary = encode_program(program)
    return _with_constants(binary, ctx)


def _with_constants(binary: BinaryProgram, ctx: VtacContext) -> BinaryProgram:
    """The program with the bytes of its constants in its buffers."""
    buffers = tuple(
        buffer
        if buffer.resource is None
        else replace(buffer, data=np.ascontiguousarray(ctx.resources[buffer.resource[0]]).tobytes())
        for buffer in binary.buffers
    )
    return replace(binary, buffers=buffers)


def _image(
    binary: BinaryProgram, inputs: Sequence[Array], random: np.random.Generator
) -> tuple[NDArray[np.uint8], Mapping[str, int]]:
    """DRAM at launch, noise wherever nothing is defined, and the addresses of the buffers."""
    addresses = binary.place()
    size = max(addresses[buffer.name] + buffer.size for buffer in binary.buffers)
    image = random.integers(0, 256, size, np.uint8)
    data = {buffer.name: buffer.data for buffer in binary.buffers}
    for buffer, array in zip(binary.of_kind(BufferKind.INPUT), inputs, strict=True):
        data[buffer.name] = np.ascontiguousarray(array).tobytes()
    for name, content in data.items():
        if content is not None:
            start = addresses[name]
            image[start : start + len(content)] = np.frombuffer(content, np.uint8)
    return image, addresses


def _difference(
    binary: BinaryProgram,
    addresses: Mapping[str, int],
    image: NDArray[np.uint8],
    wanted: Sequence[Array],
) -> str:
    """Where the results differ from those wanted; empty if they do not."""
    for buffer, array in zip(binary.of_kind(BufferKind.OUTPUT), wanted, strict=True):
        start = addresses[buffer.name]
        dtype = np.dtype(f"i{buffer.size // max(array.size, 1)}")
        found = image[start : start + buffer.size].view(dtype).reshape(array.shape)
        wrong = int(np.count_nonzero(found != array.astype(dtype)))
        if wrong:
            return f"{wrong} of {array.size} elements of {buffer.name} differ from the reference"
    return ""
