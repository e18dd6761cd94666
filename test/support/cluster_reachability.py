"""Whether tokens and semaphores of a cluster order everything, by brute force.

An independent judgement beside `vtac.sim.cluster.check_cluster`, for the programs of
`cluster_programs`: what each step touches is written out as sets, what is done before what is the
transitive closure of a graph, and every pair is looked at.
"""

import itertools
from typing import Any

from reachability import module_of

from vtac.dialects.target import ClusterTarget, Memory
from vtac.dialects.vta.dma import Copy, DmaFinish, Signal, Wait
from vtac.dialects.vta.encoding import Gemm, Instruction, Load, Store

SEM, HIGH = 0x0200_0000, 0x0300_0000
Step = tuple[int, int]
FLAGS = {
    "load": (("pop_next", "cl"), ("push_next", "lc")),
    "compute": (("pop_prev", "lc"), ("pop_next", "sc"), ("push_prev", "cl"), ("push_next", "cs")),
    "store": (("pop_prev", "cs"), ("push_prev", "sc")),
}


def semaphores(cluster: ClusterTarget, x: Any) -> list[tuple[int, int]]:
    """Source and destination of each semaphore that a step exchanges."""
    numbers: list[int] = []
    if isinstance(x, Wait | Signal):
        numbers = [x.semaphore]
    elif isinstance(x, Load | Store) and x.x_size and x.memory in (Memory.INP, Memory.OUT):
        rows = [16 * (x.dram_base + r * x.x_stride) for r in range(x.y_size)]
        numbers = [(at - SEM) // 64 for at in rows if SEM <= at < HIGH]
    pairs = [divmod(number, cluster.cores + 1)[::-1] for number in numbers]
    return [pair for pair in pairs if pair[0] != pair[1]]


def exchanges(cluster: ClusterTarget, step: Step, x: Any) -> tuple[list[Any], list[Any]]:
    """The queues that a step pops and pushes."""
    unit, pops, pushes = step[0], list[Any](), list[Any]()
    if isinstance(x, Instruction):
        for flag, queue in FLAGS[module_of(x)]:
            if getattr(x, flag):
                (pops if flag.startswith("pop") else pushes).append((unit, queue))
    (pops if isinstance(x, Load | Wait) else pushes).extend(semaphores(cluster, x))
    return pops, pushes


def touched(cluster: ClusterTarget, step: Step, x: Any) -> tuple[set[Any], set[Any]]:
    """What a step reads and writes: bytes by 8, and elements of the core's buffers."""
    unit, reads, writes = step[0], set[Any](), set[Any]()
    if isinstance(x, Copy):
        words = range(x.nbytes // 8)
        reads |= {x.source // 8 + n for n in words}
        writes |= {x.destination // 8 + n for n in words}
    elif isinstance(x, Load | Store) and x.x_size:
        name = {Memory.INP: "inp", Memory.WGT: "wgt", Memory.OUT: "out"}.get(x.memory)
        elements = {(unit, name, x.sram_base + n) for n in range(x.y_size * x.x_size)}
        size, memory = cluster.core.element_bytes(x.memory), set[Any]()
        if not semaphores(cluster, x):
            first, count = x.dram_base * size // 8, x.x_size * size // 8
            memory = {first + n for n in range(count)} if x.y_size == 1 else set()
        if isinstance(x, Load):
            reads, writes = memory, elements if name else set()
        elif not semaphores(cluster, x):
            reads, writes = elements, memory
    elif isinstance(x, Gemm) and not x.reset:
        writes = {(unit, "out", n) for n in range(x.iter_in)}
        reads = {(unit, "inp", n) for n in range(x.iter_in * x.iter_out)} | {(unit, "wgt", 0)}
    return reads, writes


def has_race(cluster: ClusterTarget, streams: list[Any]) -> bool:
    """Whether two steps that conflict are in no fixed order. No deadlock, no lost signals."""
    steps = [(u, i) for u, stream in enumerate(streams) for i in range(len(stream))]
    place = {step: n for n, step in enumerate(steps)}
    after: list[set[int]] = [set() for _ in steps]
    pushed: dict[Any, list[int]] = {}
    popped: dict[Any, list[int]] = {}
    for step in steps:
        x = streams[step[0]][step[1]]
        pops, pushes = exchanges(cluster, step, x)
        for queue in pops:
            popped.setdefault(queue, []).append(place[step])
        for queue in pushes:
            pushed.setdefault(queue, []).append(place[step])
    for queue, sources in pushed.items():
        for source, sink in zip(sources, popped.get(queue, []), strict=False):
            after[source].add(sink)
    modules: dict[Any, list[int]] = {}
    for step in steps:
        x = streams[step[0]][step[1]]
        is_dma = step[0] == cluster.cores
        modules.setdefault((step[0], "dma" if is_dma else module_of(x)), []).append(place[step])
    for (_, name), members in modules.items():
        for one, other in itertools.combinations(members, 2):
            later = streams[steps[other][0]][steps[other][1]]
            earlier = streams[steps[one][0]][steps[one][1]]
            overlap = isinstance(earlier, Copy) and not isinstance(later, Signal | DmaFinish)
            if name != "dma" or not overlap:
                after[one].add(other)
    reach = _closure(after)
    sets = [touched(cluster, step, streams[step[0]][step[1]]) for step in steps]
    for a, b in itertools.combinations(range(len(steps)), 2):
        (reads, writes), (more, written) = sets[a], sets[b]
        conflict = writes & more or writes & written or reads & written
        if conflict and not reach[a] >> b & 1 and not reach[b] >> a & 1:
            return True
    return False


def _closure(after: list[set[int]]) -> list[int]:
    """What is reachable from each node, as bits; the graph has no cycle."""
    reach: list[int | None] = [None] * len(after)
    for root in range(len(after)):
        stack = [root]
        while stack:
            node = stack[-1]
            if open_ := [n for n in after[node] if reach[n] is None]:
                stack += open_
                continue
            stack.pop()
            bits = 1 << node
            for n in after[node]:
                bits |= reach[n] or 0
            reach[node] = bits
    return [bits or 0 for bits in reach]
