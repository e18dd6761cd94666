"""Small programs for the clock: made by hand or at random, always free of deadlock."""

import random
from typing import Any

from vtac.dialects.target import Memory, Target, TimingPreset
from vtac.dialects.vta.encoding import Alu, AluOpcode, Finish, Gemm, Instruction, Load, Store

MEMORIES = (Memory.INP, Memory.WGT, Memory.ACC, Memory.UOP)


def sync(module: str, **flags: bool) -> Instruction:
    """An instruction of a module ("load", "compute", "store") that only pops and pushes."""
    memory = {"load": Memory.INP, "compute": Memory.UOP, "store": Memory.OUT}[module]
    kind = Store if module == "store" else Load
    return kind(memory=memory, sram_base=0, dram_base=0, y_size=0, x_size=0, x_stride=0, **flags)


def load(memory: Memory, dram: int, y: int, x: int, stride: int = 0, **rest: Any) -> Load:
    """Rows of elements from DRAM byte `dram` on; the stride is x unless given."""
    size = {Memory.INP: 16, Memory.WGT: 256, Memory.ACC: 64, Memory.UOP: 4}[memory]
    shape = {"y_size": y, "x_size": x, "x_stride": stride or x}
    return Load(memory=memory, sram_base=0, dram_base=dram // size, **shape, **rest)


def store(dram: int, y: int, x: int, stride: int = 0, **flags: bool) -> Store:
    """Rows of OUT elements to DRAM byte `dram` on."""
    shape = {"y_size": y, "x_size": x, "x_stride": stride or x}
    return Store(memory=Memory.OUT, sram_base=0, dram_base=dram // 16, **shape, **flags)


def gemm(outer: int, inner: int, uops: int, **rest: bool) -> Gemm:
    """outer x inner x uops micro-ops."""
    return Gemm(uop_bgn=0, uop_end=uops, iter_out=outer, iter_in=inner, **rest)


def alu(count: int, immediate: bool = True, **flags: bool) -> Alu:
    """So many micro-ops of an addition."""
    loops = {"uop_bgn": 0, "uop_end": 1, "iter_out": count, "iter_in": 1}
    return Alu(**loops, alu_opcode=AluOpcode.ADD, use_imm=immediate, **flags)


def random_program(target: Target, rng: random.Random, length: int) -> list[Instruction]:
    """Instructions of all kinds; in program order every token is pushed before it is popped."""
    tokens = {"lc": 0, "cl": 0, "cs": 0, "sc": 0}
    program: list[Instruction] = []
    for _ in range(length):
        module = rng.choice(("load", "compute", "compute", "store"))
        before, after = {"load": ("", "c"), "compute": ("l", "s"), "store": ("c", "")}[module]
        flags = {}
        for flag, side in (("pop_prev", before), ("pop_next", after)):
            queue = side + module[0]
            flags[flag] = bool(side) and tokens[queue] > 0 and rng.random() < 0.6
            tokens[queue] = tokens.get(queue, 0) - flags[flag]
        for flag, side in (("push_prev", before), ("push_next", after)):
            queue = module[0] + side
            flags[flag] = bool(side) and rng.random() < 0.4
            tokens[queue] = tokens.get(queue, 0) + flags[flag]
        program.append(_random_instruction(target, rng, module, flags))
    pops = {"pop_prev": tokens["lc"] > 0, "pop_next": tokens["sc"] > 0}
    return [*program, Finish(**pops)]


def _random_instruction(
    target: Target, rng: random.Random, module: str, flags: dict[str, bool]
) -> Instruction:
    if rng.random() < 0.2:
        return sync(module, **flags)
    rows, columns = rng.choice(((1, 1), (1, 9), (1, 40), (5, 3), (12, 1), (3, 7)))
    stride = columns + rng.choice((0, 0, 1, 5))
    dram = 4096 + 256 * rng.randrange(8) + 16 * rng.choice((0, 0, 3, 5))
    if module == "store":
        return store(dram, rows, columns, stride, **flags)
    if module == "compute" and rng.random() < 0.5:
        if rng.random() < 0.5:
            return gemm(rng.randint(1, 6), rng.randint(1, 5), rng.randint(1, 4), **flags)
        return alu(rng.randint(1, 40), immediate=rng.random() < 0.5, **flags)
    memory = rng.choice(MEMORIES[:2] if module == "load" else MEMORIES[2:])
    if memory is Memory.WGT:
        rows, columns = min(rows, 4), min(columns, 4)
    pads = {}
    if rng.random() < 0.4:
        names = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
        pads = {name: rng.choice((0, 0, 1, 2, 5)) for name in names}
    size = target.element_bytes(memory)
    base = -(-dram // size) + (rng.choice((0, 1)) if memory is Memory.UOP else 0)
    shape = {"y_size": rows, "x_size": columns, "x_stride": stride}
    return Load(memory=memory, sram_base=0, dram_base=base, **shape, **pads, **flags)


def random_preset(rng: random.Random) -> TimingPreset:
    """Any machine that the plain definition knows."""
    return TimingPreset.named(rng.choice(("chisel-pynq", "chisel-de10"))).replace(
        latency=rng.choice((0, 1, 5, 16, 40)),
        outstanding=rng.choice((1, 2, 3, 16, 40)),
        request_interval=rng.choice((1, 2, 3)),
        read_channels=rng.choice((1, 2, 3)),
        burst_beats=rng.choice((2, 8, 16, 64)),
        port_bytes=rng.choice((4, 8, 16, 32)),
        aligned_bursts=rng.random() < 0.5,
        fetch_batch=rng.choice((None, 1, 3, 20)),
        queue_depth=rng.choice((1, 2, 4, 512)),
        gemm_cycles=rng.choice((1, 2)),
        alu_register_cycles=rng.choice((1, 2)),
        store_idle_cycles=rng.choice((0, 1)),
        store_request_cycles=rng.choice((0, 3)),
    )
