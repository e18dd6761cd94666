"""Cycles of one kernel under many schedules: what a search over schedules asks again and again.

A kernel is prepared once: it is lowered to loops, and intrinsics are declared. For each schedule
the loops are copied, scheduled, lowered to a program, encoded, and timed by the simulator's clock.
Cycles depend neither on data nor on names, so constants that only move through memory are never
looked at, and are not packed either: only their layout is determined.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.traits import SymbolTable

from vtac.dialects import te
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TARGET_ATTRIBUTE, target_at
from vtac.dialects.vtac import ResourceAttr
from vtac.lowering.te_to_binary import lower_to_binary
from vtac.passes.te.accelerated import CODEGEN
from vtac.passes.te.apply_schedule import apply_schedule
from vtac.passes.te.declare_intrinsics import TeDeclareIntrinsics
from vtac.passes.te.pack_constants import pack_parameters
from vtac.passes.te.share_buffers import TeShareBuffers
from vtac.passes.te.simplify_loops import TeSimplifyLoops
from vtac.passes.te.te_to_loops import kernel_to_loops
from vtac.sim import TimingPreset, estimate


class KernelClock:
    """Times one kernel under schedules that are given to it.

    module: tensor expressions at the level ``te``, with a `vtac.target`. name: which kernel. The
    first call of it says which of its arguments are constants; what nothing calls has none.
    ctx: holds the constants of the module. preset: the clock's numbers, by default those of the
    target.

    Raises `CompileError` where the module lacks the target or the kernel.
    """

    def __init__(
        self,
        module: ModuleOp,
        name: str,
        ctx: VtacContext,
        preset: str | TimingPreset | None = None,
    ):
        self._ctx, self._preset = ctx, preset
        kernel = _kernel(module, name)
        call = _first_call(module, name)
        target = target_at(module)
        if target is None:
            raise CompileError(
                Problem(f"te.kernel @{name}", f"the module has no {TARGET_ATTRIBUTE}")
            )
        self.target = target
        self._constants: dict[int, te.ConstantOp] = {}
        self._name, self._type, self._location = name, kernel.function_type, kernel.location
        if call is not None:
            self._location = call.location
            for number, value in enumerate(call.arguments):
                if isinstance(value.owner, te.ConstantOp):
                    self._constants[number] = value.owner
        self._lowered = kernel.clone()
        kernel_to_loops(self._lowered)
        self._module = ModuleOp([], {TARGET_ATTRIBUTE: target})
        TeDeclareIntrinsics().apply(ctx, self._module)
        self._intrinsics = len(self._module.body.block.ops)

    def cycles(self, schedule: te.ScheduleOp) -> int:
        """Cycles from launch to FINISH. Raises what `words` raises."""
        return estimate(self.target, self.words(schedule), self._preset).cycles

    def words(self, schedule: te.ScheduleOp) -> NDArray[np.uint64]:
        """The encoded program, uint64 [N, 2], for buffers that lie one after the other.

        The schedule is not changed. Raises `CompileError` where a primitive is refused, or the
        result does not fit the machine.
        """
        block = self._module.body.block
        kernel, own = self._lowered.clone(), schedule.clone()
        block.add_ops([kernel, own])
        try:
            apply_schedule(own)
            block.detach_op(own)
            TeShareBuffers().apply(self._ctx, self._module)
            TeSimplifyLoops().apply(self._ctx, self._module)
            packed = pack_parameters(kernel, list(self._constants))
            function = self._caller(packed)
            binary = lower_to_binary(self._ctx, function, self._module)
        finally:
            for op in (own, kernel):
                if op.parent is block:
                    block.detach_op(op)
        return binary.relocate(binary.place())

    def _caller(self, packed: dict[int, Sequence[te.Box]]) -> FuncOp:
        """A function that calls the kernel, with its packed constants as one-dimensional ones."""
        types, outputs = list(self._type.inputs), list(self._type.outputs)
        inputs = [type for number, type in enumerate(types) if number not in self._constants]
        block = Block(arg_types=inputs)
        parameters = iter(block.args)
        arguments: list[SSAValue] = []
        for number, type in enumerate(types):
            if number not in self._constants:
                arguments.append(next(parameters))
                continue
            constant = self._constants[number].clone()
            if number in packed:
                assert isinstance(type, TensorType)
                flat = TensorType(type.element_type, [_elements(packed[number])])
                constant = te.ConstantOp(ResourceAttr(f"packed{number}", "0" * 16), flat)
            block.add_op(constant)
            arguments.append(constant.result)
        call = te.CallOp(self._name, arguments, outputs)
        call.location = self._location
        block.add_ops([call, ReturnOp(*call.outputs)])
        function = FuncOp("kernel", FunctionType.from_lists(inputs, outputs), Region(block))
        function.attributes["codegen"] = StringAttr(CODEGEN)
        function.attributes[TARGET_ATTRIBUTE] = self.target
        return function


def _elements(boxes: Sequence[te.Box]) -> int:
    return sum(int(np.prod([length for _, length in box])) for box in boxes)


def _kernel(module: ModuleOp, name: str) -> te.KernelOp:
    kernel = SymbolTable.lookup_symbol(module, name)
    if not isinstance(kernel, te.KernelOp) or kernel.is_lowered:
        raise CompileError(
            Problem(f"te.kernel @{name}", "there is no kernel of tensors of this name")
        )
    return kernel


def _first_call(module: ModuleOp, name: str) -> te.CallOp | None:
    calls = (op for op in module.walk() if isinstance(op, te.CallOp))
    return next((call for call in calls if call.callee.root_reference.data == name), None)
