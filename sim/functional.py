"""The functional simulator: what a program leaves in DRAM, exactly, and nothing about time.

Takes the binary alone. Control is here (which instruction next, what to report, what to count);
what the instructions do is in `machine` (fast) and, as the plain definition, in `reference`.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Memory, Target
from ..dialects.vta.encoding import Alu, Gemm, Instruction, Store, Transfer
from .errors import Fault, SimulationError
from .legality import decode_program, verify_program
from .machine import FastMachine
from .reference import ReferenceMachine
from .tokens import Flow, Schedule, deadlock_reason, schedule, verify_tokens


@dataclass
class Counters:
    """What a run did: micro-ops by unit, and DRAM bytes moved by buffer (pads not included)."""

    instructions: int = 0
    gemm_micro_ops: int = 0
    reset_micro_ops: int = 0
    alu_micro_ops: int = 0
    bytes_moved: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("uop", "wgt", "inp", "acc", "out"), 0)
    )

    def count(self, target: Target, instruction: Instruction) -> None:
        """Add one instruction."""
        self.instructions += 1
        match instruction:
            case Gemm(reset=True):
                self.reset_micro_ops += instruction.micro_ops
            case Gemm():
                self.gemm_micro_ops += instruction.micro_ops
            case Alu():
                self.alu_micro_ops += instruction.micro_ops
            case Transfer():
                memory = instruction.memory
                name = "acc" if memory is Memory.ACC_8BIT else memory.name.lower()
                size = target.element_bytes(memory)
                self.bytes_moved[name] += instruction.y_size * instruction.x_size * size


class Machine(Protocol):
    """What runs single instructions."""

    def execute(self, instruction: Instruction) -> None:
        """Run one instruction; raises `Fault`."""


class MachineFactory(Protocol):
    """Makes a machine with undefined buffers on a DRAM image."""

    def __call__(self, target: Target, dram: NDArray[np.uint8], strict: bool, /) -> Machine:
        """A machine that reads and writes ``dram`` in place."""


class Simulator:
    """A VTA with the interface of a device: launch after launch on one DRAM image.

    Buffers, micro-ops and tokens are undefined or empty at each launch. ``machine`` chooses between
    the fast machine and `ReferenceMachine`, the plain definition.
    """

    def __init__(self, target: Target, machine: MachineFactory = FastMachine) -> None:
        self.target = target
        self._machine = machine

    def run(
        self,
        insns: NDArray[np.uint64],
        dram: NDArray[np.uint8],
        strict: bool = True,
        order_seed: int | None = None,
    ) -> Counters:
        """Run a program, uint64 [N, 2], on ``dram`` (uint8, contiguous), which it changes in place.

        Strict mode also refuses what the implementations of VTA do differently, or what leaves
        tokens. Without a seed the modules take turns in program order as far as tokens allow; with
        one, in a random order that tokens allow. Raises `SimulationError`; the image may then have
        changed in part.
        """
        if dram.dtype != np.uint8 or dram.ndim != 1 or not dram.flags.c_contiguous:
            raise ValueError("dram must be a contiguous uint8 array of one dimension")
        words = np.ascontiguousarray(insns, np.uint64)
        launch = _launch(self.target, words.tobytes(), len(dram), strict, order_seed)
        machine = self._machine(self.target, dram, strict)
        for index, instruction in launch.steps:
            try:
                machine.execute(instruction)
            except Fault as fault:
                raise SimulationError(index, instruction, str(fault)) from None
        return replace(launch.counters, bytes_moved=dict(launch.counters.bytes_moved))


@dataclass(frozen=True)
class _Launch:
    """A verified program in the order in which it runs, and what it will have done."""

    steps: list[tuple[int, Instruction]]
    counters: Counters


@lru_cache(maxsize=64)
def _launch(
    target: Target, words: bytes, dram_bytes: int, strict: bool, order_seed: int | None
) -> _Launch:
    program = decode_program(target, np.frombuffer(words, np.uint64).reshape(-1, 2))
    verify_program(target, program, dram_bytes, strict)
    flow = Flow.of(program)
    plan = schedule(flow, target.queue_depth, order_seed)
    _verify_schedule(target, program, flow, plan, strict)
    counters = Counters()
    for index in plan.order:
        counters.count(target, program[index])
    return _Launch([(index, program[index]) for index in plan.order], counters)


def _verify_schedule(
    target: Target, program: list[Instruction], flow: Flow, plan: Schedule, strict: bool
) -> None:
    if not plan.finished:
        index = plan.blocked[0][0] if plan.blocked else plan.fetch or 0
        reason = f"deadlock: {deadlock_reason(plan, target.queue_depth)}"
        raise SimulationError(index, program[index], reason)
    if not strict:
        return
    if len(plan.order) < len(program):
        ran = set(plan.order)
        for index, instruction in enumerate(program):
            if index not in ran and isinstance(instruction, Store):
                raise SimulationError(
                    index, instruction, "FINISH does not wait for it: it may not have happened"
                )
    verify_tokens(target, program, flow)


def run(
    target: Target,
    insns: NDArray[np.uint64],
    dram: NDArray[np.uint8],
    strict: bool = True,
    order_seed: int | None = None,
) -> tuple[NDArray[np.uint8], Counters]:
    """The DRAM image after a program, a new array, and what the run did (see `Simulator.run`)."""
    image = np.array(dram, dtype=np.uint8)
    counters = Simulator(target).run(insns, image, strict, order_seed)
    return image, counters


def execute(
    target: Target,
    insns: NDArray[np.uint64],
    dram: NDArray[np.uint8],
    strict: bool = True,
    order_seed: int | None = None,
) -> NDArray[np.uint8]:
    """The DRAM image after a program, a new array (see `Simulator.run`)."""
    return run(target, insns, dram, strict, order_seed)[0]


__all__ = ["Counters", "ReferenceMachine", "Simulator", "execute", "run"]
