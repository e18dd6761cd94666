"""Random programs of a cluster, correct by construction, with their meaning in NumPy.

A program is a list of tasks in the order in which a plan would state them. A task of a core loads
some blocks of activations and a tile of weights, multiplies, and stores a block. A task of the DMA
copies a block or a tile. Blocks and tiles lie in slots of DDR and GB, which tasks use again and
again; what must be ordered follows from the slots that tasks read and write. Order between units
is made by signals and waits, within a core by tokens, within the DMA by signals to itself.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.target import ClusterTarget, Memory
from vtac.dialects.target.windows import GB_BASE
from vtac.dialects.vta.dma import Copy, DmaCommand, DmaFinish, Signal, Wait, encode_dma
from vtac.dialects.vta.encoding import (
    Finish,
    Gemm,
    Instruction,
    Load,
    Store,
    encode,
    encode_micro_ops,
)

KERNEL, TILES, BLOCKS, RESULTS = 0x2000, 0x10000, 0x40000, 0x80000
IMAGE = 0x2010000
WAIT_SLOT = 1024
"""Element of INP that waits overwrite."""


@dataclass(frozen=True)
class Slot:
    """Where a block or a tile lies."""

    address: int
    nbytes: int
    is_tile: bool


@dataclass
class Task:
    """What one unit does: `reads` and `weights` to `writes`; a copy has one read, no weights."""

    unit: int
    reads: list[Slot]
    writes: Slot
    weights: Slot | None = None
    waits: list[int] = field(default_factory=list)
    signals: list[int] = field(default_factory=list)
    after_previous: bool = False
    """Whether it needs what an earlier task of its own unit has written, however late."""


Stream = list[Instruction] | list[DmaCommand]


@dataclass
class Program:
    """Streams by unit, the image that they start from, and the tasks."""

    cluster: ClusterTarget
    streams: list[Any]
    image: NDArray[np.uint8]
    tasks: list[Task]

    def words(self) -> list[NDArray[np.uint64]]:
        """The streams as words."""
        return words_of(self.cluster, self.streams)

    def expected(self) -> NDArray[np.uint8]:
        """The image after the program."""
        image = self.image.copy()
        for task in self.tasks:
            if task.weights is None:
                image[span(task.writes)] = image[span(task.reads[0])]
                continue
            weights = image[span(task.weights)].view(np.int8).reshape(16, 16).astype(np.int32)
            total = np.zeros((task.writes.nbytes // 16, 16), np.int32)
            for slot in task.reads:
                total += image[span(slot)].view(np.int8).reshape(-1, 16) @ weights.T
            image[span(task.writes)] = total.astype(np.int8).reshape(-1).view(np.uint8)
        return image


def words_of(cluster: ClusterTarget, streams: list[Any]) -> list[NDArray[np.uint64]]:
    """Streams of instructions and commands as words."""
    return [
        encode_dma(stream) if unit == cluster.cores else encode(cluster.core, stream)
        for unit, stream in enumerate(streams)
    ]


def span(slot: Slot) -> slice:
    return slice(slot.address, slot.address + slot.nbytes)


def random_cluster_program(
    cluster: ClusterTarget, seed: int, tasks: int = 12, elements: int = 4
) -> Program:
    """A correct program of so many tasks; blocks have `elements` elements."""
    rng = random.Random(seed)
    return build(cluster, random_tasks(cluster, rng, tasks, elements), seed, elements)


def random_tasks(
    cluster: ClusterTarget, rng: random.Random, count: int, elements: int
) -> list[Task]:
    block = 16 * elements
    at = {
        "ddr": [Slot(BLOCKS + n * block, block, False) for n in range(6)],
        "gb": [
            Slot(GB_BASE + n * block, block, False) for n in range(5 if cluster.gb_bytes else 0)
        ],
        "tiles": [Slot(TILES + 256 * n, 256, True) for n in range(4)],
        "rings": [Slot(GB_BASE + 4096 + 256 * n, 256, True) for n in range(2)],
    }
    written: set[Slot] = {*at["ddr"], *at["tiles"]}
    tasks: list[Task] = []
    for _ in range(count):
        unit = rng.randrange(cluster.units if cluster.gb_bytes else cluster.cores)
        if unit == cluster.cores:
            task = _random_copy(rng, unit, at, written)
        else:
            blocks = [s for s in written if not s.is_tile]
            tiles = [s for s in written if s.is_tile]
            blocks.sort(key=lambda s: s.address)
            tiles.sort(key=lambda s: s.address)
            reads = rng.sample(blocks, min(len(blocks), rng.randint(1, 3)))
            writes = rng.choice([*at["ddr"][3:], *at["gb"]])
            task = Task(unit, reads, writes, rng.choice(tiles))
        written.add(task.writes)
        tasks.append(task)
    return tasks


def _random_copy(
    rng: random.Random, unit: int, at: dict[str, list[Slot]], written: set[Slot]
) -> Task:
    held = [s for s in at["gb"] if s in written]
    kind = rng.choice(("tile", "in", "out" if held else "in"))
    if kind == "tile":
        return Task(unit, [rng.choice(at["tiles"])], rng.choice(at["rings"]))
    if kind == "in":
        return Task(unit, [rng.choice(at["ddr"])], rng.choice(at["gb"]))
    return Task(unit, [rng.choice(held)], rng.choice(at["ddr"][3:]))


def build(cluster: ClusterTarget, tasks: list[Task], seed: int, elements: int) -> Program:
    """The streams of tasks: edges that are needed, tokens, and instructions."""
    add_edges(tasks)
    own: list[list[Task]] = [[t for t in tasks if t.unit == u] for u in range(cluster.units)]
    streams: list[Any] = [
        dma_stream(cluster, mine) if unit == cluster.cores else core_stream(cluster, mine)
        for unit, mine in enumerate(own)
    ]
    rng = np.random.default_rng(seed)
    image = np.zeros(IMAGE if cluster.has_windows else RESULTS, np.uint8)
    image[TILES:RESULTS] = rng.integers(0, 256, RESULTS - TILES)
    kernel = encode_micro_ops(cluster.core, [0], [0], [0])
    image[KERNEL : KERNEL + 4] = kernel.view(np.uint8)
    return Program(cluster, streams, image, tasks)


def add_edges(tasks: list[Task]) -> None:
    """Signals and waits between tasks of different units, as few as pairs of units need."""
    writers: dict[Slot, int] = {}
    readers: dict[Slot, list[int]] = {}
    waited: dict[tuple[int, int], int] = {}
    for number, task in enumerate(tasks):
        inputs = [*task.reads, *([task.weights] if task.weights else [])]
        needed = {writers[slot] for slot in inputs if slot in writers}
        needed |= set(readers.get(task.writes, []))
        needed |= {writers[task.writes]} if task.writes in writers else set()
        last: dict[int, int] = {}
        for other in sorted(needed):
            last[tasks[other].unit] = other
        for unit, other in last.items():
            if unit == task.unit:
                task.after_previous = True
            elif waited.get((unit, task.unit), -1) < other:
                waited[unit, task.unit] = other
                tasks[other].signals.append(task.unit)
                task.waits.append(unit)
        for slot in inputs:
            readers.setdefault(slot, []).append(number)
        writers[task.writes], readers[task.writes] = number, []


def core_stream(cluster: ClusterTarget, tasks: list[Task]) -> list[Instruction]:
    """The instructions of one core's tasks, each token needed."""
    shape = {"y_size": 1, "x_size": 1, "x_stride": 1}
    program: list[Instruction] = [
        Load(memory=Memory.UOP, sram_base=0, dram_base=KERNEL // 4, **shape)
    ]
    unit = tasks[0].unit if tasks else 0
    for number, task in enumerate(tasks):
        first, serial = number == 0, number > 0 and task.after_previous
        if serial:
            program.append(_sync(pop_next=True, push_prev=True))
        next_serial = number + 1 < len(tasks) and tasks[number + 1].after_previous
        loads = [*_waits(cluster, unit, task.waits)]
        elements = task.writes.nbytes // 16
        for place, slot in enumerate(task.reads):
            loads.append(_load(Memory.INP, place * elements, slot.address // 16, elements))
        assert task.weights is not None
        loads.append(_load(Memory.WGT, 0, task.weights.address // 256, 1))
        flags: list[dict[str, bool]] = [{} for _ in loads]
        flags[0] = {"pop_next": not first}
        flags[-1] = {**flags[-1], "push_next": True}
        program += [_flagged(x, f) for x, f in zip(loads, flags, strict=True)]
        loops = {"uop_bgn": 0, "uop_end": 1, "dst_factor_in": 1}
        program.append(Gemm(reset=True, iter_out=1, iter_in=elements, **loops))
        program.append(
            Gemm(
                iter_out=len(task.reads),
                iter_in=elements,
                src_factor_out=elements,
                src_factor_in=1,
                pop_prev=True,
                pop_next=not first and not serial,
                push_prev=number + 1 < len(tasks) and not next_serial,
                push_next=True,
                **loops,
            )
        )
        stores = [_store(task.writes.address // 16, elements)]
        stores += _signals(cluster, unit, task.signals)
        flags = [{} for _ in stores]
        flags[0] = {"pop_prev": True}
        flags[-1] = {**flags[-1], "push_prev": True}
        program += [_flagged(x, f) for x, f in zip(stores, flags, strict=True)]
    program.append(Finish(pop_next=bool(tasks)))
    return program


def _flagged(x: Load | Store, flags: dict[str, bool]) -> Load | Store:
    kept = {name: getattr(x, name) for name in x.__dataclass_fields__}
    return type(x)(**{**kept, **flags})


def _sync(**flags: bool) -> Load:
    nothing = {"sram_base": 0, "dram_base": 0, "y_size": 0, "x_size": 0, "x_stride": 0}
    return Load(memory=Memory.UOP, **nothing, **flags)


def _load(memory: Memory, sram: int, dram: int, count: int) -> Load:
    shape = {"y_size": 1, "x_size": count, "x_stride": count}
    return Load(memory=memory, sram_base=sram, dram_base=dram, **shape)


def _store(dram: int, count: int) -> Store:
    shape = {"y_size": 1, "x_size": count, "x_stride": count}
    return Store(memory=Memory.OUT, sram_base=0, dram_base=dram, **shape)


def _pairs(addresses: list[int]) -> list[dict[str, int]]:
    """Transfers over semaphores, two of them in one where there are two."""
    found = []
    for first in range(0, len(addresses), 2):
        pair = sorted(addresses[first : first + 2])
        stride = (pair[-1] - pair[0]) // 16 or 4
        base = {"dram_base": pair[0] // 16, "y_size": len(pair), "x_size": 1, "x_stride": stride}
        found.append(base)
    return found


def _waits(cluster: ClusterTarget, unit: int, sources: list[int]) -> list[Load]:
    addresses = [cluster.semaphore_address(source, unit) for source in sources]
    return [Load(memory=Memory.INP, sram_base=WAIT_SLOT, **s) for s in _pairs(addresses)]


def _signals(cluster: ClusterTarget, unit: int, destinations: list[int]) -> list[Store]:
    addresses = [cluster.semaphore_address(unit, other) for other in destinations]
    return [Store(memory=Memory.OUT, sram_base=0, **s) for s in _pairs(addresses)]


def dma_stream(cluster: ClusterTarget, tasks: list[Task]) -> list[DmaCommand]:
    """The commands of the DMA's tasks; a signal to itself stands between copies that depend."""
    unit, commands = cluster.cores, list[DmaCommand]()
    fence = Signal(cluster.semaphore_number(unit, unit))
    for number, task in enumerate(tasks):
        if number and task.after_previous:
            commands.append(fence)
        commands += [Wait(cluster.semaphore_number(source, unit)) for source in task.waits]
        source, destination = task.reads[0].address, task.writes.address
        commands.append(Copy(nbytes=task.writes.nbytes, source=source, destination=destination))
        commands += [Signal(cluster.semaphore_number(unit, other)) for other in task.signals]
    return [*commands, DmaFinish()]
