"""The hazard checker: golden programs pass, a missing token is objected to, and it scales."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import (
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    Store,
    decode,
    encode,
    encode_micro_ops,
)
from vtac.sim import HazardKind, HazardReport, SimulationError, check, execute

GOLDEN = Path(__file__).parents[2] / ".." / "shared" / "golden"
PATHS = [p for room in ("streams", "rtl", "layers") for p in sorted((GOLDEN / room).glob("*.npz"))]
needs_golden = pytest.mark.skipif(not PATHS, reason="../shared/golden is absent")
SIM = Target.named("sim")
FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
KERNELS, DATA, RESULTS = 8192, 16384, 131072
IMAGE_BYTES = 1 << 22


def golden(path: Path) -> tuple[Target, NDArray[np.uint64], NDArray[np.uint8]]:
    with np.load(path) as stream:
        target = Target.named("chisel-pynq")
        if path.parent.name == "streams":
            config = json.loads(str(stream["config"]))
            target = Target.from_vta_config(config, alu_mul=True, alu_bypass=True)
        return target, stream["insns"], stream["dram_in"]


def image() -> NDArray[np.uint8]:
    """Micro-op i at KERNELS works on element 8 i of every buffer."""
    dram = np.ones(IMAGE_BYTES, np.uint8)
    words = encode_micro_ops(SIM, np.arange(16) * 8, np.arange(16) * 8, np.arange(16) * 8)
    dram[KERNELS : KERNELS + 64] = words.view(np.uint8)
    return dram


def load(memory: Memory, sram: int, address: int, count: int = 8, **tokens: bool) -> Load:
    fields = {"y_size": 1, "x_size": count, "x_stride": count, **tokens}
    base = address // SIM.element_bytes(memory)
    return Load(memory=memory, sram_base=sram, dram_base=base, **fields)


def store(sram: int, address: int, count: int = 8, **tokens: bool) -> Store:
    fields = {"y_size": 1, "x_size": count, "x_stride": count, **tokens}
    return Store(memory=Memory.OUT, sram_base=sram, dram_base=address // 16, **fields)


def gemm(slot: int, **tokens: bool) -> Gemm:
    loops = {"uop_bgn": slot, "uop_end": slot + 1, "iter_out": 1, "iter_in": 8}
    return Gemm(dst_factor_in=1, src_factor_in=1, **loops, **tokens)


MICRO_OPS = load(Memory.UOP, 0, KERNELS, 16)


def tiles(count: int, slots: int = 2) -> list[Instruction]:
    """A double-buffered pipeline: load a tile, multiply, store, each slot in turn."""
    program: list[Instruction] = [MICRO_OPS]
    for i in range(count):
        slot = i % slots
        again, last = i >= slots, i >= count - slots
        program += [
            load(Memory.INP, 8 * slot, DATA, pop_next=again),
            load(Memory.WGT, 8 * slot, DATA, push_next=True),
            gemm(slot, pop_prev=True, pop_next=again, push_prev=not last, push_next=True),
            store(8 * slot, RESULTS + 128 * (i % 4096), pop_prev=True, push_prev=True),
        ]
    wait = load(Memory.UOP, 0, KERNELS, 0, pop_next=True)
    return [*program, *[wait] * (slots - 1), Finish(pop_next=True)]


def report_of(program: list[Instruction]) -> HazardReport:
    return check(SIM, encode(SIM, program), image())


def only(report: HazardReport, kind: HazardKind) -> str:
    assert [hazard.kind for hazard in report.hazards] == [kind], str(report)
    return report.hazards[0].message


@needs_golden
@pytest.mark.parametrize("room", ["streams", "rtl", "layers"])
def test_golden_programs_have_no_hazards(room: str) -> None:
    for path in PATHS:
        if path.parent.name == room:
            report = check(*golden(path))
            assert report.ok and report.exact, f"{path.stem}: {report}"


def pairs(target: Target, program: list[Instruction]) -> list[tuple[int, int, str]]:
    """Each push with the pop it matches."""
    sides = {"pop_prev": ("push_next", Load), "pop_next": ("push_prev", Load)}
    found = []
    modules = [
        "store"
        if isinstance(x, Store)
        else "load"
        if isinstance(x, Load) and x.memory in (Memory.INP, Memory.WGT)
        else "compute"
        for x in program
    ]
    for name, (push, _) in sides.items():
        for producer, consumer in (
            (("load", "compute"), ("compute", "store"))
            if name == "pop_prev"
            else (("compute", "load"), ("store", "compute"))
        ):
            pushes = [
                i for i, x in enumerate(program) if modules[i] == producer and getattr(x, push)
            ]
            pops = [i for i, x in enumerate(program) if modules[i] == consumer and getattr(x, name)]
            found += [(a, b, name) for a, b in zip(pushes, pops, strict=False)]
    return found


@needs_golden
def test_a_golden_program_without_one_token_is_objected_to_or_still_exact() -> None:
    """Where the checker has nothing against it, every order must still give the same image."""
    objections = 0
    for path in [p for p in PATHS if "pipe" in p.stem][::4]:
        target, insns, dram = golden(path)
        program = decode(target, insns)
        expected = execute(target, insns, dram)
        for push, pop, name in pairs(target, program)[::3]:
            changed = list(program)
            changed[pop] = replace(changed[pop], **{name: False})
            counterpart = "push_next" if name == "pop_prev" else "push_prev"
            changed[push] = replace(changed[push], **{counterpart: False})
            words = encode(target, changed)
            if not check(target, words, dram).ok:
                objections += 1
                continue
            for seed in range(6):
                result = execute(target, words, dram, order_seed=seed)
                np.testing.assert_array_equal(result, expected)
    assert objections > 20


def test_the_pipeline_is_safe_and_its_tokens_needed() -> None:
    """All but one: stores are in order, so FINISH need only wait for the last."""
    program = tiles(8)
    assert str(report_of(program)) == "no hazards"
    needed = 0
    for push, pop, name in pairs(SIM, program):
        changed = list(program)
        counterpart = "push_next" if name == "pop_prev" else "push_prev"
        changed[pop] = replace(changed[pop], **{name: False})
        changed[push] = replace(changed[push], **{counterpart: False})
        needed += not report_of(changed).ok
    assert needed == len(pairs(SIM, program)) - 1


def test_load_against_compute_in_both_directions() -> None:
    program = [MICRO_OPS, load(Memory.INP, 0, DATA), gemm(0), Finish()]
    message = only(report_of(program), HazardKind.RACE)
    assert "instruction 2 (GEMM" in message and "instruction 1 (LOAD INP" in message
    assert "INP elements 0 to 7" in message and "make" in message
    ordered = [MICRO_OPS, load(Memory.INP, 0, DATA, push_next=True), gemm(0, pop_prev=True)]
    assert report_of([*ordered, Finish()]).ok
    reload = [*ordered, load(Memory.INP, 4, DATA), Finish()]
    message = only(report_of(reload), HazardKind.RACE)
    assert "INP elements 4 to 7" in message and "compute to load" in message


def test_micro_ops_make_ranges_exact() -> None:
    program = [MICRO_OPS, load(Memory.INP, 8, DATA), gemm(0), Finish()]
    assert report_of(program).ok
    guessed = check(SIM, encode(SIM, program))
    assert not guessed.ok and not guessed.exact


def test_compute_against_store() -> None:
    start = [MICRO_OPS, gemm(0, push_next=True), store(0, RESULTS, pop_prev=True, push_prev=True)]
    assert report_of([*start, gemm(1), Finish(pop_next=True)]).ok
    message = only(report_of([*start, gemm(0), Finish(pop_next=True)]), HazardKind.RACE)
    assert "OUT elements 0 to 7" in message


def test_a_reset_leaves_out_alone() -> None:
    start = [MICRO_OPS, gemm(0, push_next=True), store(0, RESULTS, pop_prev=True, push_prev=True)]
    assert report_of([*start, replace(gemm(0), reset=True), Finish(pop_next=True)]).ok


@pytest.mark.parametrize("memory", [Memory.INP, Memory.WGT, Memory.ACC, Memory.UOP])
def test_dram_between_store_and_loads(memory: Memory) -> None:
    start = [MICRO_OPS, gemm(0, push_next=True), store(0, RESULTS, pop_prev=True, push_prev=True)]
    racing = load(memory, 512, RESULTS, 1)
    message = only(report_of([*start, racing, Finish(pop_next=True)]), HazardKind.RACE)
    size = SIM.element_bytes(memory)
    assert f"DRAM bytes {RESULTS} to {RESULTS + min(size, 128) - 1}" in message
    beside = load(memory, 512, RESULTS + (128 if size <= 64 else 256), 1)
    assert report_of([*start, beside, Finish(pop_next=True)]).ok


def test_store_to_load_goes_through_compute() -> None:
    start = [MICRO_OPS, gemm(0, push_next=True), store(0, RESULTS, pop_prev=True, push_prev=True)]
    relay = load(Memory.UOP, 0, KERNELS, 0, pop_next=True, push_prev=True)
    again = load(Memory.INP, 64, RESULTS, pop_next=True)
    assert report_of([*start, relay, again, Finish()]).ok


def test_strided_rows_touch_only_their_elements() -> None:
    rows = {"y_size": 4, "x_size": 2, "x_stride": 8}
    out = Store(memory=Memory.OUT, sram_base=0, dram_base=RESULTS // 16, pop_prev=True,
                push_prev=True, **rows)  # fmt: skip
    start = [MICRO_OPS, gemm(0, push_next=True), out]

    def between(offset: int) -> HazardReport:
        base = RESULTS // 16 + offset
        other = Load(memory=Memory.INP, sram_base=64, dram_base=base, **rows)
        return report_of([*start, other, Finish(pop_next=True)])

    assert between(2).ok and between(6).ok
    assert "DRAM bytes" in only(between(1), HazardKind.RACE)


def test_stores_that_finish_does_not_wait_for() -> None:
    program = [MICRO_OPS, gemm(0, push_next=True), store(0, RESULTS, pop_prev=True), Finish()]
    assert "does not wait for instruction 2 (STORE" in only(report_of(program), HazardKind.FINISH)


def test_tokens() -> None:
    program = [load(Memory.INP, 0, DATA, push_next=True), Finish()]
    assert "1 load to compute token" in only(report_of(program), HazardKind.LEFTOVER)
    program = [load(Memory.INP, 0, DATA, pop_next=True), Finish()]
    assert "instruction 0 waits" in only(report_of(program), HazardKind.DEADLOCK)
    push = load(Memory.INP, 0, DATA, push_next=True)
    pop = load(Memory.UOP, 0, KERNELS, 0, pop_prev=True)
    program = [push, pop] * 1025
    assert "may be one too many" in only(report_of([*program, Finish()]), HazardKind.OVERFLOW)
    assert report_of([*program[2:], Finish()]).ok


def test_full_queues() -> None:
    waits = load(Memory.INP, 0, DATA, 0, pop_next=True)
    answer = load(Memory.UOP, 0, KERNELS, 0, push_prev=True)
    nothing = load(Memory.INP, 0, DATA, 0)
    assert report_of([waits, *[nothing] * 511, answer, Finish()]).ok
    message = only(report_of([waits, *[nothing] * 512, answer, Finish()]), HazardKind.DEADLOCK)
    assert "fetch waits at instruction 512" in message


def test_what_is_wrong_in_itself() -> None:
    report = report_of([store(4000, RESULTS), Finish()])
    assert "OUT elements 4000 to 4007" in only(report, HazardKind.INVALID)
    bad = np.array([[7, 0]], np.uint64)
    assert "unknown opcode 7" in only(check(SIM, bad), HazardKind.INVALID)
    whole = load(Memory.INP, 0, DATA, 2048)
    words = encode(SIM, [whole, Finish()])
    assert not check(SIM, words, image()).warnings
    assert "whole INP buffer" in str(check(Target.named("chisel-de10"), words, image()))


def test_adjacent_micro_ops_without_bypass() -> None:
    chisel = Target.named("chisel-pynq")
    fields: dict[str, Any] = {"uop_bgn": 0, "uop_end": 1, "iter_out": 2, "iter_in": 1}
    alu = Alu(alu_opcode=AluOpcode.ADD, use_imm=True, imm=1, **fields)
    words = encode(chisel, [MICRO_OPS, alu, Finish()])
    assert "before it" in only(check(chisel, words, image()), HazardKind.INVALID)


def test_orders_agree_with_the_simulator() -> None:
    """Random tokens on a small program: whatever passes gives one image in every order."""
    rng = np.random.default_rng(5)
    passed = 0
    program = tiles(3)
    for _ in range(150):
        changed = list(program)
        for index in rng.integers(1, len(program), 2):
            flag = FLAGS[rng.integers(0, 4)]
            changed[index] = replace(changed[index], **{flag: not getattr(changed[index], flag)})
        words = encode(SIM, changed)
        if not check(SIM, words, image()).ok:
            continue
        passed += 1
        images = [execute(SIM, words, image(), order_seed=seed) for seed in (None, 1, 2, 3)]
        assert all((other == images[0]).all() for other in images[1:])
    assert passed < 75


def test_a_long_program_is_proved() -> None:
    report = check(SIM, encode(SIM, tiles(25_000)), image())
    assert report.ok, str(report)


def test_a_race_between_many_is_reported_and_ends() -> None:
    program = [x if isinstance(x, Finish) else replace(x, pop_next=False) for x in tiles(4000)]
    report = report_of([*program])
    assert not report.ok
    assert len(report.hazards) < 100


def test_errors_of_the_simulator_are_value_errors() -> None:
    assert issubclass(SimulationError, ValueError)
