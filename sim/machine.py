"""The fast machine: each instruction as a few array operations, prepared once.

The results are those of `ReferenceMachine`, bit for bit. What makes it fast: instructions run from
cached plans (`gemm_plan`, `alu_plan`), products of int8 are summed exactly in float32 by BLAS, sums
wait until their accumulators are needed (`pending`), rows of BLOCK int8 values are gathered as
single items, and OUT is lazy: one flag per element says that it equals the low byte of ACC, and
only an instruction that changes ACC without writing OUT has to save it first.

Which plan an instruction takes, what waits, what is lazy, and whether a STORE has something to
store depend on the program and its micro-ops alone, not on data. So the first run of a program
binds each instruction to a step (`steps`) and records them; later runs replay the recording, as
long as the LOADs of micro-ops bring the same ones.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Memory, Target
from ..dialects.vta.encoding import Alu, Compute, Finish, Gemm, Instruction, Load, Store
from .buffers import Buffers, touch_blas_memory
from .elements import Elements, Loops, loops_of, touched
from .errors import Fault, TooLarge
from .gemm_plan import GemmPlan, Placement
from .large import adjacent, alu_step, run_gemm
from .launch import Counters, Launch
from .pending import Pending
from .plans import plans_of
from .steps import (
    AluStep,
    LoadStep,
    MicroOpStep,
    Multiply,
    ResetStep,
    SaveStep,
    Step,
    StoreStep,
    in_turn,
    nothing,
    settling,
)

Made = TypeVar("Made")

MOST_STEPS = 1 << 17
"""Steps that a machine keeps recorded, of all programs together."""

MOST_PROGRAMS = 64

_MOST_BOUND = 4096


@contextmanager
def _short_buffer() -> Iterator[None]:
    """NumPy operations that buffer 16 elements: fewer than a row has, and so they read views in
    place, which is a third faster. Index arrays, which are smaller, take up to three times as long.
    """
    buffered = np.setbufsize(16)
    try:
        yield
    finally:
        np.setbufsize(buffered)


class FastMachine:
    """The buffers of one VTA and the programs that it knows.

    `position` is the place of the instruction that runs, also when `advance` has raised a `Fault`.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.buffers = Buffers(target)
        touch_blas_memory()
        self.position = 0
        self._strict = True
        self._plans = plans_of(target)
        self._program = Launch([], [], strict=True, counters=Counters())
        self._steps: list[Step] = []
        self._done = 0
        self._fault: Fault | None = None
        self._recordings: dict[Launch, list[Step]] = {}
        self._bound: dict[Hashable, Any] = {}
        self._pending = Pending(self.buffers)
        self._bind: dict[type[Instruction], Callable[[Any], Step]] = {
            Load: self._load,
            Store: self._store,
            Gemm: self._gemm,
            Alu: self._alu,
            Finish: self._finish,
        }

    def begin(self, program: Launch, dram: NDArray[np.uint8]) -> None:
        """Make ready to run legal instructions from undefined buffers, on ``dram`` in place."""
        self.buffers.clear(dram)
        self._pending.clear()
        self._strict = program.strict
        self._program, self._done, self._fault = program, 0, None
        self._steps = self._recordings.pop(program, [])

    def advance(self, until: int) -> None:
        """Run the program's instructions that have not run, up to place `until`; raises `Fault`.

        Recorded steps run again; where other micro-ops are loaded than before, the rest is
        forgotten and bound anew, stretch by stretch. Within a stretch no binding depends on the
        effect of its steps. Binding all of it first keeps the code that binds and the code that
        runs from displacing each other in the processor's caches.
        """
        steps = self._steps
        while self._done < until:
            if self._done == len(steps):
                self._bind_stretch(self._program.instructions, steps)
            done, stop = self._done, min(until, len(steps))
            with _short_buffer():
                for self.position, step in enumerate(steps[done:stop], done):
                    if step() is True:
                        del steps[self.position + 1 :]
                        self._fault = None
                        stop = self.position + 1
                        break
            self._done = stop
            if self._fault is not None and stop == len(steps) < until:
                self.position = stop
                raise self._fault
        if until == len(self._program.instructions):
            self._keep(self._program, steps)

    def _bind_stretch(self, instructions: list[Instruction], steps: list[Step]) -> None:
        """Add the steps of instructions up to the next LOAD of micro-ops, on which more depend.

        A fault that the binding finds waits until the instructions before it have run, which may
        raise another one.
        """
        try:
            for instruction in itertools.islice(instructions, len(steps), None):
                bind = self._bind.get(type(instruction))
                steps.append(nothing if bind is None else bind(instruction))
                if isinstance(instruction, Load) and instruction.memory is Memory.UOP:
                    break
        except Fault as fault:
            self._fault = fault

    def _keep(self, program: Launch, steps: list[Step]) -> None:
        kept = self._recordings
        kept[program] = steps
        while len(kept) > MOST_PROGRAMS or sum(map(len, kept.values())) > MOST_STEPS:
            del kept[next(iter(kept))]

    def _shared(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Make an object once that does not depend on the place in the program."""
        made: Made | None = self._bound.get(key)
        if made is None:
            if len(self._bound) >= _MOST_BOUND:
                self._bound.clear()
            made = self._bound[key] = make()
        return made

    def _remembered(self) -> Callable[[], None]:
        """A function that restores all that is known now about the buffers."""
        flags = [(f, np.packbits(f)) for f in (self.buffers.out_lazy, self.buffers.out_written)]
        waiting = self._pending.state()

        def restore() -> None:
            for flag, packed in flags:
                flag[:] = np.unpackbits(packed, count=len(flag))
            self._pending.restore(waiting)

        return restore

    def _saved(self, elements: Elements) -> Step | None:
        """The step that writes lazy elements of OUT, so that ACC may change without it."""
        lazy = self.buffers.out_lazy[elements]
        if not lazy.any():
            return None
        if not lazy.all() or not isinstance(elements, slice):
            elements = np.arange(self.target.acc_depth)[elements][lazy]
        self.buffers.out_lazy[elements] = False
        return SaveStep(self.buffers, elements)

    def _writes(self, elements: Elements, base: int) -> None:
        """Note that ACC and OUT of these elements are written."""
        self.buffers.out_lazy[base:][elements] = True
        self.buffers.out_written[base:][elements] = True

    def _load(self, load: Load) -> Step:
        if load.sram_size == 0 or load.y_size == 0:
            return nothing
        if load.memory is Memory.UOP:
            return MicroOpStep(self.buffers, load, self._remembered())
        step = LoadStep(self.buffers, load)
        if load.memory not in (Memory.ACC, Memory.ACC_8BIT):
            return step
        low, high = load.sram_base, load.sram_base + load.sram_size
        return in_turn(*self._pending.settle(low, high), self._saved(slice(low, high)), step)

    def _store(self, store: Store) -> Step:
        if store.sram_size == 0:
            return nothing
        low, high = store.sram_base, store.sram_base + store.sram_size
        span = slice(low, high)
        written = self.buffers.out_written[span]
        if self._strict and not written.all():
            missing = low + int(np.argmin(written))
            raise Fault(f"stores OUT element {missing}, which no GEMM or ALU has written")
        settled = self._pending.settle(low, high)
        if self.buffers.out_lazy[span].all():
            return in_turn(*settled, StoreStep(self.buffers, store, lazy=True))
        step = StoreStep(self.buffers, store, lazy=False)
        return in_turn(*settled, self._saved(span), step)

    def _finish(self, _: Finish) -> Step:
        return in_turn(*self._pending.settle(0, self.target.acc_depth))

    def _kernel(self, compute: Compute) -> bytes:
        return self.buffers.uop[compute.uop_bgn : compute.uop_end].tobytes()

    def _gemm(self, gemm: Gemm) -> Step:
        if gemm.micro_ops == 0:
            return nothing
        kernel, loops = self._kernel(gemm), loops_of(gemm)
        if gemm.reset:
            written, low, high = self._plans.reset(kernel, loops)
            settled = self._pending.settle(low, high)
            return in_turn(*settled, self._saved(written), ResetStep(self.buffers, written))
        try:
            plan, bases = self._plans.gemm(kernel, loops)
        except TooLarge:
            return self._large_gemm(kernel, loops)
        self._writes(plan.written, bases[0])
        steps: list[Step] = []
        for product in plan.products:
            for chunk in product.chunks:
                multiply = self._shared(chunk, partial(Multiply, self.buffers, chunk))
                steps += self._multiplied(multiply, product.placement, plan, bases)
        return in_turn(*steps)

    def _multiplied(
        self, multiply: Multiply, placement: Placement, plan: GemmPlan, bases: tuple[int, int, int]
    ) -> list[Step]:
        """The steps of one product at its place; its sums wait where possible."""
        dst, src, wgt = bases
        if plan.repeats > 1 or placement.strides is None:
            settle = settling(self.buffers, placement, multiply.sums, dst, plan.repeats)
            return [multiply.into(multiply.sums, src, wgt), settle]
        values, first, before = self._pending.add(placement, multiply, dst, dst + plan.high)
        step = multiply.into(values, src, wgt) if first else multiply.onto(values, src, wgt)
        return [*before, step, *self._pending.make_room()]

    def _large_gemm(self, kernel: bytes, loops: Loops) -> Step:
        """The step of a large GEMM: pieces, each planned, run and forgotten."""
        self._writes(self._plans.reset(kernel, loops)[0], 0)

        def step() -> None:
            for plan, bases in self._plans.gemm_pieces(kernel, loops):
                run_gemm(self.buffers, plan, bases)

        return step

    def _large_alu(self, alu: Alu, kernel: bytes, loops: Loops) -> Step:
        micro_ops, nest = self._plans.alu_kernel(kernel, loops, alu.use_imm)
        if self._strict and not self.target.alu_bypass:
            self._verify_apart(adjacent(micro_ops, nest, immediate=alu.use_imm))
        settled = self._pending.settle(0, self.target.acc_depth)
        self._writes(touched(micro_ops, nest, 0), 0)
        return in_turn(*settled, alu_step(self.buffers, alu, micro_ops, nest))

    def _verify_apart(self, depends: bool) -> None:
        if depends and self._strict and not self.target.alu_bypass:
            raise Fault("a micro-op depends on the one before it (no alu_bypass)")

    def _alu(self, alu: Alu) -> Step:
        if alu.micro_ops == 0:
            return nothing
        kernel, loops = self._kernel(alu), loops_of(alu)
        try:
            plan, base = self._plans.alu(kernel, loops, alu.use_imm)
        except TooLarge:
            return self._large_alu(alu, kernel, loops)
        self._verify_apart(plan.adjacent)
        settled = self._pending.settle(base, base + plan.high)
        self._writes(plan.written, base)
        key = (kernel, loops, alu.alu_opcode, alu.use_imm, alu.imm)
        step = self._shared(key, lambda: AluStep(self.buffers, alu, plan, base))
        return in_turn(*settled, step)
