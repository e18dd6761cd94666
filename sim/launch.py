"""A program made ready to run: decoded, verified, its modules brought into one order.

A `Launch` follows from the words, the size of the image and the seed of the order, so launches are
cached.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ..dialects.target import Memory, Target
from ..dialects.vta.encoding import Alu, Gemm, Instruction, Store, Transfer
from .errors import SimulationError
from .legality import decode_program, verify_program
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

    @classmethod
    def of(cls, target: Target, instructions: Sequence[Instruction]) -> "Counters":
        """The counters of a run of these instructions."""
        counters = cls(len(instructions))
        elements = dict.fromkeys(Memory, 0)
        for instruction in instructions:
            if isinstance(instruction, Transfer):
                elements[instruction.memory] += instruction.y_size * instruction.x_size
            elif isinstance(instruction, Alu):
                counters.alu_micro_ops += instruction.micro_ops
            elif isinstance(instruction, Gemm) and instruction.reset:
                counters.reset_micro_ops += instruction.micro_ops
            elif isinstance(instruction, Gemm):
                counters.gemm_micro_ops += instruction.micro_ops
        for memory, count in elements.items():
            name = "acc" if memory is Memory.ACC_8BIT else memory.name.lower()
            counters.bytes_moved[name] += count * target.element_bytes(memory)
        return counters


@dataclass(frozen=True, eq=False)
class Launch:
    """A verified program in the order in which it runs: places and instructions.

    `counters` are those of the complete run.
    """

    places: list[int]
    instructions: list[Instruction]
    strict: bool
    counters: Counters


@lru_cache(maxsize=64)
def launch(
    target: Target, words: bytes, dram_bytes: int, strict: bool, order_seed: int | None
) -> Launch:
    """The program of ``words`` on an image of ``dram_bytes``. Raises `SimulationError`.

    See `Simulator.run` for ``strict`` and ``order_seed``.
    """
    program = decode_program(target, np.frombuffer(words, np.uint64).reshape(-1, 2))
    verify_program(target, program, dram_bytes, strict)
    flow = Flow.of(program, target.system)
    plan = schedule(flow, target.queue_depth, order_seed)
    _verify_schedule(target, program, flow, plan, strict)
    instructions = [program[index] for index in plan.order]
    return Launch(plan.order, instructions, strict, Counters.of(target, instructions))


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
    verify_tokens(target, program, flow, plan.order)
