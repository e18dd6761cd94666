"""The bound that follows data: against a plain account of it, the clock, and other orders."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from clock_programs import random_preset
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from stage_programs import Programs, placed

from vtac.dialects.target import Memory, Target, TimingPreset
from vtac.dialects.vta import ProgramOp
from vtac.dialects.vta.encoding import (
    Alu,
    Compute,
    Finish,
    Gemm,
    Instruction,
    Load,
    Store,
    decode,
    decode_micro_ops,
    encode,
    encode_micro_ops,
)
from vtac.lowering.vta_to_binary import encode_program
from vtac.passes.vta.allocate import allocate
from vtac.passes.vta.insert_dependences import insert_dependences
from vtac.passes.vta.order_instructions import order_instructions
from vtac.passes.vta.plan_microops import plan_micro_ops
from vtac.passes.vta.program_precedence import precedence_of
from vtac.sim import check, estimate
from vtac.sim.data_flow import producers
from vtac.sim.timing.flow_bound import flow_bound, one_machine
from vtac.sim.timing.work import InstructionKind

Words = NDArray[np.uint64]
Image = NDArray[np.uint8]

CHISEL = Target.named("chisel-pynq")
TARGETS = (CHISEL, Target.named("pynq"), Target.named("sim").replace(log_batch=1))


def shuffled(program: ProgramOp, rng: random.Random) -> None:
    """Put the instructions into a random order in which each follows what it must follow."""
    *moved, finish = program.instructions()
    before = precedence_of(program, moved).before
    done, left = set[int](), list(range(len(moved)))
    while left:
        number = rng.choice([n for n in left if before[n] <= done])
        left.remove(number)
        done.add(number)
        moved[number].detach()
        program.body.block.insert_op_before(moved[number], finish)


def finished(program: ProgramOp, order: int | None) -> tuple[Words, Image]:
    """The words of a program and its memory; by the pass (None), or in a random order."""
    allocate(program)
    if order is None:
        order_instructions(program)
    else:
        shuffled(program, random.Random(order))
    plan_micro_ops(program)
    insert_dependences(program)
    program.verify()
    _, words, image = placed(encode_program(program), {})
    assert check(program.target, words, image).ok
    return words, image


def plain_producers(target: Target, program: list[Instruction], dram: Image) -> list[set[int]]:
    """Who wrote last what each instruction reads: one element after the other."""
    writer: dict[tuple[object, int], int] = {}
    micro_ops = np.zeros(target.uop_entries, np.uint32)
    found = []
    for index, x in enumerate(program):
        reads, writes = list[tuple[object, int]](), list[tuple[object, int]]()
        if isinstance(x, Load | Store) and x.x_size and x.y_size:
            unit = target.element_bytes(x.memory)
            rows = [(x.dram_base + y * x.x_stride) * unit for y in range(x.y_size)]
            there = [("DRAM", at + n) for at in rows for n in range(x.x_size * unit)]
            here = [(x.memory, x.sram_base + n) for n in range(x.sram_size)]
            reads, writes = (here, there) if isinstance(x, Store) else (there, here)
            if x.memory is Memory.UOP:
                data = np.concatenate([dram[at : at + 4 * x.x_size] for at in rows])
                micro_ops[x.sram_base : x.sram_base + x.sram_size] = data.view(np.uint32)
        elif isinstance(x, Compute):
            for op in range(x.uop_bgn, x.uop_end):
                reads.append((Memory.UOP, op))
                indices = decode_micro_ops(target, micro_ops[op : op + 1])[0]
                for i, j in itertools.product(range(x.iter_out), range(x.iter_in)):
                    dst = indices[0] + i * x.dst_factor_out + j * x.dst_factor_in
                    src = indices[1] + i * x.src_factor_out + j * x.src_factor_in
                    writes.append((Memory.ACC, dst))
                    if isinstance(x, Alu):
                        alone = x.use_imm and target.alu_imm_src
                        reads += [(Memory.ACC, n) for n in ([src] if alone else [dst])]
                        reads += [] if x.use_imm else [(Memory.ACC, src)]
                    elif not x.reset:
                        wgt = indices[2] + i * x.wgt_factor_out + j * x.wgt_factor_in
                        reads += [(Memory.ACC, dst), (Memory.INP, src), (Memory.WGT, wgt)]
                    if not x.reset:
                        writes.append((Memory.OUT, dst))
        own = {writer[place] for place in reads if place in writer} - {index}
        found.append(own)
        writer.update(dict.fromkeys(writes, index))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_producers_are_those_of_a_plain_account(seed: int) -> None:
    target = TARGETS[seed % len(TARGETS)]
    words, image = finished(Programs(random.Random(seed), target).program(), None)
    program = list(decode(target, words))
    found = producers(target, program, image)
    assert list(map(set, found)) == plain_producers(target, program, image)
    assert any(map(len, found))


JOBS = st.lists(st.tuples(*[st.integers(0, 30)] * 3), min_size=1, max_size=6)


@given(JOBS)
def test_one_machine_is_the_largest_bound_of_all_sets(jobs: list[tuple[int, int, int]]) -> None:
    sets = (c for n in range(1, len(jobs) + 1) for c in itertools.combinations(jobs, n))
    bounds = (
        min(job[0] for job in chosen) + sum(job[1] for job in chosen) + min(j[2] for j in chosen)
        for chosen in sets
    )
    assert one_machine(jobs) == max(bounds)


@given(JOBS)
def test_no_order_of_jobs_beats_one_machine(jobs: list[tuple[int, int, int]]) -> None:
    def ends(order: tuple[tuple[int, int, int], ...]) -> Iterator[int]:
        now = 0
        for head, work, tail in order:
            now = max(now, head) + work
            yield now + tail

    assert one_machine(jobs) <= min(max(ends(order)) for order in itertools.permutations(jobs))


def work_of(target: Target, words: Words) -> Counter[tuple[int, int, int]]:
    """What the instructions of a program do, in any order."""
    work = estimate(target, words).work
    columns = (work.kind, work.micro_ops, work.beats)
    every: Counter[tuple[int, int, int]] = Counter(zip(*(c.tolist() for c in columns), strict=True))
    every.pop((InstructionKind.SYNC, 0, 0), None)
    return every


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.timing.name)
def test_no_order_of_a_program_beats_its_bound(target: Target) -> None:
    compared = 0
    for seed in range(16):
        orders = [
            finished(Programs(random.Random(seed), target).program(), order)
            for order in (None, 0, 1, 2)
        ]
        presets = [target.timing, *(random_preset(random.Random(4 * seed + n)) for n in range(3))]
        presets.append(TimingPreset.named(f"{target.timing.name}-ideal"))
        for preset in presets:
            reports = [estimate(target, words, preset) for words, _ in orders]
            cycles = [report.cycles for report in reports]
            for (words, image), report in zip(orders, reports, strict=True):
                bound = flow_bound(report, image).cycles
                assert bound <= report.cycles, (seed, preset)
                same = [work_of(target, words) == work_of(target, w) for w, _ in orders]
                compared += sum(same) - 1
                others = [c for c, is_same in zip(cycles, same, strict=True) if is_same]
                assert bound <= min(others), (seed, preset)
    assert compared > 100


def test_a_layer_behind_a_layer_is_bounded_by_the_way_of_its_data() -> None:
    """One element is loaded, multiplied, stored, loaded again, multiplied and stored."""
    dram = np.zeros(1 << 16, np.uint8)
    dram[4096:4100] = encode_micro_ops(CHISEL, [0], [0], [0]).view(np.uint8)
    one = {"sram_base": 0, "y_size": 1, "x_size": 1, "x_stride": 1}
    gemm = Gemm(uop_bgn=0, uop_end=1, iter_out=1, iter_in=1, pop_prev=True, push_next=True)
    program: list[Instruction] = [
        Load(memory=Memory.UOP, dram_base=1024, **one),
        Load(memory=Memory.WGT, dram_base=64, **one),
    ]
    for place in (512, 513):
        flags = {"pop_next": True} if place > 512 else {}
        program += [
            Load(memory=Memory.INP, dram_base=place, push_next=True, **flags, **one),
            gemm,
            Store(memory=Memory.OUT, dram_base=place + 1, pop_prev=True, push_prev=True, **one),
            Load(memory=Memory.UOP, x_size=0, y_size=0, x_stride=0, sram_base=0, dram_base=0,
                 pop_next=True, push_prev=place == 512),
        ]  # fmt: skip
    program.append(Finish())
    words = encode(CHISEL, program)
    assert check(CHISEL, words, dram).ok
    report = estimate(CHISEL, words)
    found = flow_bound(report, dram)
    first = 23 + 2 * len(program)
    assert report.timeline.start.min() == first
    # The weights come at first + 22 + 32 beats; the product takes 7 cycles, the store 6, the load
    # at least 2 beats and 6; whatever follows starts a cycle later.
    ends = itertools.accumulate((7, 6, 8, 7, 6), lambda end, cycles: end + 1 + cycles,
                                initial=first + 54)  # fmt: skip
    assert found.bounds["path"] == [*ends][-1] + 1
    assert found.bounds["path"] <= found.cycles <= report.cycles
    assert report.total.lower_bound < 100
