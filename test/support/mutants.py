"""Valid programs with something changed, for fuzzing, and what may come of them.

Whatever the bits are, the simulators and the checker end soon, in little memory, with a result or
with a diagnostic: nothing else is let through.
"""

import contextlib
import random
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
from launches import Program, launches_of
from numpy.typing import NDArray
from onnx import helper
from small_models import floats, small_model

import vtac
from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import (
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    Opcode,
    Store,
    decode,
    encode,
    encode_micro_ops,
    instruction_fields,
)
from vtac.sim import SimulationError, check, estimate, execute
from vtac.sim.timing import preset_for

Words = NDArray[np.uint64]
Image = NDArray[np.uint8]

SECONDS = 20
"""Processor time after which a mutant hangs."""

MEMORY = 3 << 30
"""Address space that a mutant may take, beyond what the process has already."""

TARGETS = {
    "1x16": Target.named("sim"),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
    "chisel": Target.named("chisel-pynq"),
}
_KERNELS, _DATA, _RESULTS, _BYTES = 8192, 16384, 40960, 65536


def pipeline(name: str) -> Program:
    """Tiles in two slots on one of `TARGETS`: every memory, every opcode, all four queues."""
    target = TARGETS[name]
    dram = np.random.default_rng(1).integers(0, 256, _BYTES).astype(np.uint8)
    words = encode_micro_ops(target, np.arange(8) * 4, np.arange(8) * 4, np.arange(8) % 4)
    dram[_KERNELS : _KERNELS + 32] = words.view(np.uint8)

    def load(memory: Memory, sram: int, count: int, address: int = _DATA, **rest: int) -> Load:
        base = address // target.element_bytes(memory)
        shape = {"sram_base": sram, "dram_base": base, "y_size": 1, "x_size": count}
        return Load(memory=memory, x_stride=count, **shape, **rest)

    program: list[Instruction] = [load(Memory.UOP, 0, 8, _KERNELS)]
    for tile in range(3):
        slot, again, last = tile % 2, tile >= 2, tile >= 1
        span = {"uop_bgn": 2 * slot, "uop_end": 2 * slot + 2, "iter_out": 1, "iter_in": 4}
        steps = {**span, "dst_factor_in": 1, "src_factor_in": 1}
        inp, wgt = load(Memory.INP, 8 * slot, 6, x_pad_0=1, x_pad_1=1), load(Memory.WGT, 0, 4)
        clip = Alu(alu_opcode=AluOpcode.MAX, use_imm=True, imm=0, **steps)
        moved = {"sram_base": 8 * slot, "dram_base": (_RESULTS + 2048 * tile) // target.batch // 16}
        program += [
            replace(inp, pop_next=again),
            *([replace(wgt, push_next=True)] if tile == 0 else [replace(inp, push_next=True)]),
            Gemm(reset=True, pop_prev=True, **steps),
            Gemm(push_prev=not last, pop_next=again, **steps),
            clip,
            Alu(alu_opcode=AluOpcode.SHR, use_imm=True, imm=3, **steps),
            Alu(alu_opcode=AluOpcode.ADD, push_next=True, **steps),
            Store(memory=Memory.OUT, y_size=2, x_size=4, x_stride=4, pop_prev=True,
                  push_prev=True, **moved),
        ]  # fmt: skip
    program.insert(5, load(Memory.ACC, 40, 2))
    program += [load(Memory.UOP, 0, 0, pop_next=True), Finish(pop_next=True)]
    return Program(f"pipeline {name}", target, encode(target, program), dram)


def compiled(*targets: str) -> list[Program]:
    """The launches of a small network, compiled for each of these machines."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    weights = {"w": floats((20, 3, 3, 3)), "b": floats((20,), 1)}
    model = small_model(nodes, {"x": [1, 3, 8, 8]}, ["y"], weights)
    model = onnx.shape_inference.infer_shapes(model)
    samples = floats((4, 3, 8, 8), 2)
    programs = []
    for name in targets:
        module = vtac.compile(model, name, samples)
        programs += launches_of(f"compiled {name}", module, {"x": samples[:1]})
    return programs


class Mutator:
    """Makes mutants of one program."""

    def __init__(self, program: Program) -> None:
        self._program, self._rng = program, random.Random()
        target = program.target
        self._micro_ops = [
            4 * load.dram_base + 4 * i
            for load in decode(target, program.insns)
            if isinstance(load, Load) and load.memory is Memory.UOP
            for i in range(load.x_size)
        ]

    def mutant(self, rng: random.Random) -> tuple[Words, Image]:
        """The program and its memory, one to three times changed."""
        self._rng = rng
        words, dram = self._program.insns.copy(), self._program.dram.copy()
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            change = self._rng.choices(
                (self._flip, self._field, self._move, self._micro_op), (3, 6, 1, 2)
            )[0]
            words = change(words, dram)
        return words, dram

    def _flip(self, words: Words, dram: Image) -> Words:
        """A bit of an instruction."""
        row, bit = self._rng.randrange(len(words)), self._rng.randrange(128)
        words[row, bit // 64] ^= np.uint64(1 << bit % 64)
        return words

    def _field(self, words: Words, dram: Image) -> Words:
        """A field of an instruction: an extreme, a neighbour, or anything."""
        row, rng = self._rng.randrange(len(words)), self._rng
        opcode = int(words[row, 0]) & 7
        if opcode > max(Opcode):
            return self._flip(words, dram)
        field = rng.choice(instruction_fields(self._program.target)[Opcode(opcode)])
        old, most = int(field.extract(words[row : row + 1])[0]), (1 << field.width) - 1
        new = rng.choice(
            (0, 1, most, most >> 1, old + 1, old - 1, 2 * old, rng.randrange(most + 1))
        )
        word = int(words[row, field.word]) & ~(most << field.offset)
        words[row, field.word] = np.uint64(word | (new & most) << field.offset)
        return words

    def _move(self, words: Words, dram: Image) -> Words:
        """An instruction twice, gone, somewhere else, or the end of the program missing."""
        at, to = self._rng.randrange(len(words)), self._rng.randrange(len(words))
        rest = np.delete(words, at, axis=0)
        moved = np.insert(rest, min(to, len(rest)), words[at], axis=0)
        twice = np.insert(words, to, words[at], axis=0)
        return self._rng.choice((rest if len(rest) else words, words[: at + 1], moved, twice))

    def _micro_op(self, words: Words, dram: Image) -> Words:
        """A bit of a micro-op, or all of it."""
        if not self._micro_ops:
            return self._flip(words, dram)
        at, rng = self._rng.choice(self._micro_ops), self._rng
        if rng.random() < 0.7:
            dram[at + rng.randrange(4)] ^= 1 << rng.randrange(8)
        else:
            dram[at : at + 4] = list(rng.randbytes(4))
        return words


def judge(target: Target, words: Words, dram: Image, rng: random.Random) -> str:
    """Check, run and time a program: what became of it. Raises whatever must not happen.

    What costs time and finds little is done only now and then.
    """
    report = check(target, words, dram)
    if rng.random() < 0.1:
        check(target, words)
    orders = [None, *(rng.randrange(100) for _ in range(rng.choice((0, 0, 0, 2))))]
    images = [_attempt(target, words, dram, True, seed) for seed in orders]
    if report.ok:
        _verify_one_result(images)
    if rng.random() < 0.1:
        _attempt(target, words, dram, False, None)
    if rng.random() < 0.3:
        _time(target, words, rng)
    if images[0] is None:
        return "refused while it runs" if report.ok else "refused"
    return "runs" if report.ok else "runs in program order only"


def _verify_one_result(images: list[Image | None]) -> None:
    """What passes the checker has one result, in whatever order."""
    first = images[0]
    for other in images[1:]:
        same = first is other if first is None or other is None else np.array_equal(first, other)
        assert same, "the checker has no objection, but orders differ"


def _attempt(
    target: Target, words: Words, dram: Image, strict: bool, seed: int | None
) -> Image | None:
    try:
        return execute(target, words, dram, strict=strict, order_seed=seed)
    except SimulationError as error:
        assert error.reason, "an error without a reason"
        return None


def _time(target: Target, words: Words, rng: random.Random) -> None:
    preset = preset_for(target, rng.choice((None, "chisel-de10", "hls-pynq", "chisel-pynq-ideal")))
    if rng.random() < 0.2:
        preset = preset.replace(queue_depth=rng.choice((1, 4)), read_channels=rng.choice((1, 3)))
    try:
        report = estimate(target, words, preset)
    except SimulationError as error:
        assert error.reason, "an error without a reason"
        return
    if rng.random() < 0.2:
        assert report.cycles >= report.total.lower_bound
        assert len(report.events) <= len(words)


class Hang(Exception):  # noqa: N818
    """A mutant took longer than `SECONDS`."""


@contextlib.contextmanager
def confined() -> Iterator[None]:
    """Warnings are errors, and memory is limited, until the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    linux = sys.platform == "linux"
    try:
        if linux:
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        if linux:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def in_time(seconds: float = SECONDS) -> Iterator[None]:
    """Raise `Hang` if the processor is busy for longer."""

    def stop(*_: object) -> None:
        raise Hang(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
