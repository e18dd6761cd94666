"""The modules of a core, the token queues between them, and who reaches which memory: data.

Modules run instructions of their own, each in order. They stand in a row, and neighbours exchange
tokens through two queues, one for each direction: that is what the flags *prev* and *next* of an
instruction mean. Which module runs an instruction follows from its opcode, and for LOAD and STORE
from the memory that they name; so a `System` says both, and everything else follows: which modules
read and write a memory, which memories need tokens because several modules reach them, how an order
gets from one module to another. `CORE` describes VTA (technical report, section 2.3). The clock,
the checker and the passes ask the system of a target, `Target.system`; none names a module.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any


class Memory(enum.IntEnum):
    """The buffers, by the memory id that LOAD and STORE carry. ACC_8BIT loads int8 into ACC."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5


class Module(int):
    """A module of a core. As a number it is its place in the row."""

    name: str

    def __new__(cls, place: int, name: str) -> "Module":
        """The module of that name at a place."""
        module = super().__new__(cls, place)
        module.name = name
        return module

    def __getnewargs__(self) -> tuple[Any, ...]:
        return int(self), self.name

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


class Queue(int):
    """A queue of tokens, which one module pushes and another one pops. As a number: its place."""

    source: Module
    sink: Module

    def __new__(cls, place: int, source: Module, sink: Module) -> "Queue":
        """The queue at a place."""
        queue = super().__new__(cls, place)
        queue.source, queue.sink = source, sink
        return queue

    def __getnewargs__(self) -> tuple[Any, ...]:
        return int(self), self.source, self.sink

    def __repr__(self) -> str:
        return f"{self.source} to {self.sink}"

    __str__ = __repr__


Side = tuple[Module, bool, bool]
"""A module, and its flags *prev* and *next*."""

_READS = {
    "GEMM": (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC),
    "ALU": (Memory.UOP, Memory.ACC),
}
_WRITES = {"GEMM": (Memory.ACC, Memory.OUT), "ALU": (Memory.ACC, Memory.OUT)}
"""The memories that instructions read and write. Each result goes to ACC, and narrowed to OUT."""


@dataclass(frozen=True, eq=False)
class System:
    """The modules of a core, and what each of them does.

    modules: in their row. moves: the module that runs the LOADs of a memory, or the STOREs. runs:
    the module of every other opcode, by its name.
    """

    modules: tuple[Module, ...]
    moves: Mapping[Memory, Module]
    runs: Mapping[str, Module]

    micro_ops = Memory.UOP
    activations = Memory.INP
    weights = Memory.WGT
    accumulators = Memory.ACC
    results = Memory.OUT
    """The only memory that is stored; all others are loaded."""
    buffered = (Memory.INP, Memory.WGT, Memory.ACC)
    """The memories in which programs keep buffers. A result has the place of its accumulator."""

    def place_of(self, memory: Memory) -> Memory:
        """The memory whose elements a transfer touches: ACC_8BIT fills accumulators."""
        return Memory.ACC if memory is Memory.ACC_8BIT else memory

    @cached_property
    def queues(self) -> tuple[Queue, ...]:
        """Both queues of each two neighbours, along the row."""
        pairs = zip(self.modules, self.modules[1:], strict=False)
        ends = [ends for one, other in pairs for ends in ((one, other), (other, one))]
        return tuple(Queue(place, *pair) for place, pair in enumerate(ends))

    def neighbours(self, module: Module) -> tuple[Module, ...]:
        """The modules with which a module exchanges tokens, the one before it first."""
        return self.modules[max(module - 1, 0) : module] + self.modules[module + 1 : module + 2]

    def towards(self, module: Module, other: Module) -> Module:
        """The neighbour of a module on the way to another one, perhaps that one itself."""
        return self.modules[module + 1 if other > module else module - 1]

    @cached_property
    def pops(self) -> Mapping[Side, tuple[Queue, ...]]:
        """The queues that an instruction of a module pops, by its flags."""
        return self._by_flags({(queue.sink, queue.source): queue for queue in self.queues})

    @cached_property
    def pushes(self) -> Mapping[Side, tuple[Queue, ...]]:
        """The queues that an instruction of a module pushes, by its flags."""
        return self._by_flags({(queue.source, queue.sink): queue for queue in self.queues})

    def _by_flags(
        self, queues: Mapping[tuple[Module, Module], Queue]
    ) -> Mapping[Side, tuple[Queue, ...]]:
        """Flags towards a module that does not exist name no queue."""
        found: dict[Side, tuple[Queue, ...]] = {}
        for module in self.modules:
            for prev in (False, True):
                for next_ in (False, True):
                    sides = [*[-1] * prev, *[1] * next_]
                    ends = [other for other in self.modules if other - module in sides]
                    found[module, prev, next_] = tuple(queues[module, other] for other in ends)
        return found

    @cached_property
    def _ways(self) -> Mapping[Memory, tuple[tuple[Module, bool], ...]]:
        ways: dict[Memory, dict[tuple[Module, bool], None]] = {memory: {} for memory in Memory}
        for memory, module in self.moves.items():
            ways[self.place_of(memory)][module, memory is not self.results] = None
        for opcode, module in self.runs.items():
            for memory in _WRITES.get(opcode, ()):
                ways[memory][module, True] = None
            for memory in _READS.get(opcode, ()):
                ways[memory][module, False] = None
        return {memory: tuple(found) for memory, found in ways.items()}

    def ways(self, memory: Memory) -> tuple[tuple[Module, bool], ...]:
        """The modules that read (False) and write (True) the elements of a memory."""
        return self._ways[self.place_of(memory)]

    def written_by(self, memory: Memory) -> tuple[Module, ...]:
        """The modules that write the elements of a memory."""
        return tuple(module for module, writes in self.ways(memory) if writes)

    def read_by(self, memory: Memory) -> tuple[Module, ...]:
        """The modules that read the elements of a memory."""
        return tuple(module for module, writes in self.ways(memory) if not writes)

    @cached_property
    def shared(self) -> frozenset[Memory]:
        """The memories that several modules reach. In all others, instructions are in order."""
        places = {self.place_of(memory) for memory in Memory}
        return frozenset(m for m in places if len({module for module, _ in self.ways(m)}) > 1)

    @property
    def computes(self) -> Module:
        """The module of products."""
        return self.runs["GEMM"]

    @property
    def stores(self) -> Module:
        """The module that stores results."""
        return self.moves[self.results]

    @cached_property
    def loaders(self) -> frozenset[Module]:
        """The modules that run LOADs and nothing else."""
        loads = {module for memory, module in self.moves.items() if memory is not self.results}
        return frozenset(loads - {*self.runs.values(), self.moves[self.results]})

    @cached_property
    def dram_ways(self) -> tuple[tuple[Module, bool], ...]:
        """The modules that read (False) and write (True) DRAM, those that write it first."""
        found = {(module, memory is self.results) for memory, module in self.moves.items()}
        return tuple(sorted(found, key=lambda way: (not way[1], way[0])))

    def carrier(self, module: Module) -> Memory:
        """The memory whose LOAD the module runs: an empty one only pops and pushes tokens."""
        return next(m for m, mover in self.moves.items() if mover == module and m != self.results)


LOAD, COMPUTE, STORE = (Module(*each) for each in enumerate(("load", "compute", "store")))

CORE = System(
    modules=(LOAD, COMPUTE, STORE),
    moves={
        Memory.UOP: COMPUTE,
        Memory.WGT: LOAD,
        Memory.INP: LOAD,
        Memory.ACC: COMPUTE,
        Memory.OUT: STORE,
        Memory.ACC_8BIT: COMPUTE,
    },
    runs=dict.fromkeys(("GEMM", "ALU", "FINISH"), COMPUTE),
)
"""The core of VTA."""
