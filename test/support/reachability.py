"""Whether tokens order everything, by brute force: each pair of instructions, all paths.

An independent judgement beside `vtac.sim.check`, for small programs: what an instruction touches is
written out as sets of bits, what is done before what is the transitive closure of a graph, and
every pair is looked at. Shares only the decoder with the simulator.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from launches import Program
from numpy.typing import NDArray

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import (
    Alu,
    Finish,
    Gemm,
    Instruction,
    Load,
    Store,
    decode,
    decode_micro_ops,
)

LOAD, COMPUTE, STORE = "load", "compute", "store"
QUEUES = ((LOAD, COMPUTE), (COMPUTE, LOAD), (COMPUTE, STORE), (STORE, COMPUTE))
"""Producer and consumer."""

_NEXT = {(LOAD, COMPUTE), (COMPUTE, STORE)}
_GRANULE = 4


def module_of(instruction: Instruction) -> str:
    if isinstance(instruction, Store):
        return STORE
    data = isinstance(instruction, Load) and instruction.memory in (Memory.INP, Memory.WGT)
    return LOAD if data else COMPUTE


def flags_of(queue: tuple[str, str]) -> tuple[str, str]:
    """The names of the flags that push and pop a queue."""
    return ("push_next", "pop_prev") if queue in _NEXT else ("push_prev", "pop_next")


def tokens_of(program: list[Instruction], queue: tuple[str, str]) -> tuple[list[int], list[int]]:
    """The instructions that push a queue and those that pop it: the k-th match."""
    push, pop = flags_of(queue)
    producer, consumer = queue
    return (
        [i for i, x in enumerate(program) if module_of(x) == producer and getattr(x, push)],
        [i for i, x in enumerate(program) if module_of(x) == consumer and getattr(x, pop)],
    )


Access = dict[str, int]
"""By space the elements, as bits."""


def _bits(indices: NDArray[np.int64]) -> int:
    marks = np.zeros(int(indices.max()) + 1 if len(indices) else 0, np.uint8)
    marks[indices] = 1
    return int.from_bytes(np.packbits(marks, bitorder="little").tobytes(), "little")


@dataclass
class _Accesses:
    """Follows the micro-op buffer; what each instruction reads and writes."""

    target: Target
    dram: NDArray[np.uint8]

    def __post_init__(self) -> None:
        self.uop = np.zeros(self.target.uop_entries, np.uint32)

    def of(self, x: Instruction) -> tuple[Access, Access]:
        match x:
            case Load() if x.x_size:
                return self._load(x)
            case Store() if x.x_size:
                return {"out": _bits(x.sram_base + np.arange(x.x_size * x.y_size))}, {
                    "dram": self._dram(x)
                }
            case Gemm() | Alu():
                return self._compute(x)
        return {}, {}

    def _rows(self, x: Load | Store) -> NDArray[np.int64]:
        rows = x.dram_base + np.arange(x.y_size)[:, None] * x.x_stride + np.arange(x.x_size)
        return rows.reshape(-1)

    def _dram(self, x: Load | Store) -> int:
        size = self.target.element_bytes(x.memory) // _GRANULE
        return _bits((self._rows(x)[:, None] * size + np.arange(size)).reshape(-1))

    def _load(self, x: Load) -> tuple[Access, Access]:
        read = {"dram": self._dram(x)}
        if x.memory is Memory.UOP:
            words = self.dram[: len(self.dram) // 4 * 4].view(np.uint32)[self._rows(x)]
            self.uop[x.sram_base : x.sram_base + len(words)] = words
            return read, {}
        name = x.memory.name.lower()
        if name not in ("inp", "wgt"):
            return read, {}
        return read, {name: _bits(x.sram_base + np.arange(x.sram_size))}

    def _compute(self, x: Gemm | Alu) -> tuple[Access, Access]:
        micro_ops = decode_micro_ops(self.target, self.uop[x.uop_bgn : x.uop_end]).astype(np.int64)
        i, j = np.meshgrid(np.arange(x.iter_out), np.arange(x.iter_in), indexing="ij")

        def touched(column: int, out: int, inner: int) -> int:
            steps = (i * out + j * inner).reshape(-1, 1)
            return _bits((steps + micro_ops[:, column]).reshape(-1))

        if x.reset:
            return {}, {}
        written = {"out": touched(0, x.dst_factor_out, x.dst_factor_in)}
        if isinstance(x, Alu):
            return {}, written
        return {
            "inp": touched(1, x.src_factor_out, x.src_factor_in),
            "wgt": touched(2, x.wgt_factor_out, x.wgt_factor_in),
        }, written


class Oracle:
    """All conflicts of a program, whatever its tokens."""

    def __init__(self, program: Program) -> None:
        self.instructions = decode(program.target, program.insns)
        accesses = _Accesses(program.target, program.dram)
        touched = [accesses.of(x) for x in self.instructions]
        modules = [module_of(x) for x in self.instructions]
        self.conflicts = [
            (a, b)
            for b in range(len(touched))
            for a in range(b)
            if modules[a] != modules[b] and _conflict(touched[a], touched[b])
        ]

    def unordered(self, program: list[Instruction]) -> list[tuple[int, int]] | None:
        """Conflicts, and stores with FINISH, that these tokens do not order; None if they block.

        Also None if tokens are left over.
        """
        after = _closure(program)
        if after is None:
            return None
        finish = next(i for i, x in enumerate(program) if isinstance(x, Finish))
        stores = [(i, finish) for i, x in enumerate(program) if isinstance(x, Store)]
        return [
            (a, b)
            for a, b in [*self.conflicts, *stores]
            if not after[a] >> b & 1 and not after[b] >> a & 1
        ]


def _conflict(a: tuple[Access, Access], b: tuple[Access, Access]) -> bool:
    for one, other in ((a, b), (b, a)):
        for space, written in one[1].items():
            if written & (other[0].get(space, 0) | other[1].get(space, 0)):
                return True
    return False


def _closure(program: list[Instruction]) -> list[int] | None:
    """For each instruction the set of those that can start only when it is done, as bits."""
    following: list[list[int]] = [[] for _ in program]
    waits = [0] * len(program)
    edges = []
    for module in (LOAD, COMPUTE, STORE):
        members = [i for i, x in enumerate(program) if module_of(x) == module]
        edges += list(itertools.pairwise(members))
    for queue in QUEUES:
        pushes, pops = tokens_of(program, queue)
        if len(pushes) != len(pops):
            return None
        edges += list(zip(pushes, pops, strict=True))
    for a, b in edges:
        following[a].append(b)
        waits[b] += 1
    ready = [i for i, count in enumerate(waits) if not count]
    order = []
    while ready:
        order.append(ready.pop())
        for b in following[order[-1]]:
            waits[b] -= 1
            if not waits[b]:
                ready.append(b)
    if len(order) < len(program):
        return None
    after = [0] * len(program)
    for a in reversed(order):
        for b in following[a]:
            after[a] |= after[b] | 1 << b
    return after
