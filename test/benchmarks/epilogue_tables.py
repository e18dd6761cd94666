"""What the forms of epilogues cost by the clock, and what choosing among them gains per network.

`forms` times instructions of two lengths on each machine; `Mechanisms` compiles a network again
and again from the level at which a mechanism acts, without it. `bench_choices` prints both tables.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.target import Memory, Target
from vtac.dialects.vta import ProgramOp
from vtac.dialects.vta.encoding import (
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    Store,
    encode,
)
from vtac.lowering.vta_to_binary import encode_program
from vtac.passes.pipeline import Pipeline
from vtac.sim import estimate
from vtac.tools.driver.discovery import OurPasses
from vtac.tools.driver.pipelines import built_passes

MACHINES = {"Chisel": "chisel-pynq", "HLS": "pynq"}
"""The machines of the table of forms, by the name of their column."""

SHORT, LONG = 128, 640
"""Elements of the two instructions whose times tell the cycles of one element."""

WITHOUT: Mapping[str, Callable[[Pipeline], Pipeline]] = {
    "clips proved void": lambda p: p.without("te-drop-clips"),
    "shifts nested": lambda p: p.without("te-nest-shifts"),
    "biases placed": lambda p: p.without("te-place-biases"),
    "shifts of blocks": lambda p: p.without("te-block-immediates"),
    "extremes first": lambda p: p.without("te-extremes-first"),
    "channels sorted": lambda p: p.without("sort-channels"),
}
"""The mechanisms that work on integers, and the pipelines without each."""

SHARED, ALL = "shifts shared", "all"
"""Shifts that layers and channels share are chosen with the integers, so the network is quantised
anew without them; and the network with no mechanism at all.
"""

WHOLE = "cycles"
"""The cycles of a network as it is compiled."""

COLUMNS = (WHOLE, *WITHOUT, SHARED, ALL)


def _of(count: int, **fields: Any) -> dict[str, Any]:
    steps = {"dst_factor_out": 1, "src_factor_out": 1, "uop_bgn": 0, "uop_end": 1}
    return {"iter_out": count, "iter_in": 1, **steps, **fields}


def _alu(opcode: AluOpcode, *, immediate: bool = True) -> Callable[[int], Instruction]:
    return lambda count: Alu(alu_opcode=opcode, use_imm=immediate, imm=1, **_of(count))


def _load(memory: Memory, count: int, **tokens: bool) -> Load:
    # Rows begin where a burst does, whatever the size of an element.
    return Load(
        memory=memory, sram_base=0, dram_base=4096, y_size=1, x_size=count, x_stride=count, **tokens
    )


INSTRUCTIONS: Mapping[str, Callable[[int], Instruction]] = {
    "product": lambda count: Gemm(**_of(count)),
    "reset": lambda count: Gemm(reset=True, **_of(count)),
    "copy": _alu(AluOpcode.ADD),
    "addition of a constant": _alu(AluOpcode.ADD),
    "shift by a constant": _alu(AluOpcode.SHR),
    "clip at one end": _alu(AluOpcode.MIN),
    "addition of a vector": _alu(AluOpcode.ADD, immediate=False),
    "shift by a vector": _alu(AluOpcode.SHR, immediate=False),
    "maximum of two elements": _alu(AluOpcode.MAX, immediate=False),
    "load of an accumulator": lambda count: _load(Memory.ACC, count),
    "load of an input": lambda count: _load(Memory.INP, count, push_next=True),
    "store of a result": lambda count: Store(
        memory=Memory.OUT, sram_base=0, dram_base=4096, y_size=1, x_size=count, x_stride=count,
        push_prev=True,
    ),
}  # fmt: skip
"""Instructions for so many elements, by what they do for each."""

EPILOGUES: Mapping[str, tuple[str, ...]] = {
    "bias and shift as vectors": (
        "reset", "addition of a vector", "shift by a vector", "clip at one end", "clip at one end",
    ),
    "one shift for a block": (
        "reset", "addition of a vector", "shift by a constant", "clip at one end",
        "clip at one end",
    ),
    "and the bias as a product": (
        "reset", "product", "shift by a constant", "clip at one end", "clip at one end",
    ),
    "or the bias copied": ("copy", "shift by a constant", "clip at one end", "clip at one end"),
    "and one clip void": ("copy", "shift by a constant", "clip at one end"),
    "a residual addend as a load": ("load of an accumulator", "addition of a vector"),
    "a residual addend as a product": ("load of an input", "product"),
}  # fmt: skip
"""What an epilogue does for an element, one instruction after the other."""


def cycles_an_element(target: Target, make: Callable[[int], Instruction]) -> tuple[float, float]:
    """Cycles of one element, and those of an instruction beside its elements."""

    def took(count: int) -> int:
        instruction = make(count)
        waits = {
            "pop_prev": getattr(instruction, "push_next", False) and isinstance(instruction, Load),
            "pop_next": isinstance(instruction, Store),
        }
        words = encode(target, [instruction, Finish(**waits)])
        timeline = estimate(target, words).timeline
        return int(timeline.end[0] - timeline.start[0])

    one = (took(LONG) - took(SHORT)) / (LONG - SHORT)
    return one, took(SHORT) - SHORT * one


def forms() -> Iterator[str]:
    """The rows of the table of instructions, and of that of epilogues."""
    targets = {column: Target.named(name) for column, name in MACHINES.items()}
    taken = {
        (what, column): cycles_an_element(target, make)
        for what, make in INSTRUCTIONS.items()
        for column, target in targets.items()
        if what != "copy" or target.alu_imm_src
    }
    yield f"| for 16 values | {' | '.join(f'{c} | beside' for c in targets)} |"
    yield f"| --- |{' ---: |' * 2 * len(targets)}"
    for what in INSTRUCTIONS:
        cells = (taken.get((what, column)) for column in targets)
        numbers = (f"{one:.3g} | {beside:.3g}" if one else "- | -" for one, beside in _pairs(cells))
        yield f"| {what} | {' | '.join(numbers)} |"
    yield ""
    yield f"| epilogue of 16 values | {' | '.join(targets)} |"
    yield f"| --- |{' ---: |' * len(targets)}"
    for name, parts in EPILOGUES.items():
        sums = (
            sum(taken[part, c][0] for part in parts)
            if all((part, c) in taken for part in parts)
            else None
            for c in targets
        )
        yield f"| {name} | {' | '.join('-' if s is None else f'{s:.3g}' for s in sums)} |"


def _pairs(cells: Iterable[tuple[float, float] | None]) -> Iterator[tuple[float, float]]:
    return ((0.0, 0.0) if cell is None else cell for cell in cells)


@dataclass
class Mechanisms:
    """Cycles of networks with all mechanisms and without each, kept in a file.

    found: cycles by network and column of `COLUMNS`.
    """

    path: Path | None
    found: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the file, if there is one."""
        if self.path is not None and self.path.exists():
            self.found = json.loads(self.path.read_text())

    def measure(self, name: str, model: Path, feeds: Mapping[str, NDArray[Any]], to: str) -> None:
        """Measure the columns of a network that the file does not have.

        model, feeds: as `vtac.compile` takes them. to: the target.
        """
        columns = self.found.setdefault(name, {})
        missing = [column for column in COLUMNS if column not in columns]
        if not missing:
            return
        network = _Quantised(model, feeds, to)
        for column in missing:
            columns[column] = network.cycles(column)
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(json.dumps(self.found, indent=1) + "\n")

    def rows(self, names: Iterable[str]) -> Iterator[str]:
        """The table: cycles, and how many more a network takes without each mechanism."""
        yield f"| network | {' | '.join(COLUMNS)} | in all |"
        yield f"| --- |{' ---: |' * (1 + len(COLUMNS))}"
        for name in names:
            cycles = self.found.get(name, {})
            if all(column in cycles for column in COLUMNS):
                whole, *others = (cycles[column] for column in COLUMNS)
                more = (f"{other - whole:,}" if other != whole else "" for other in others)
                share = f"{1 - whole / cycles[ALL]:.0%}"
                yield f"| {name} | {whole:,} | {' | '.join(more)} | {share} |"


class _Quantised:
    """A network compiled once, and kept at the level at which it is in integers."""

    def __init__(self, model: Path, feeds: Mapping[str, NDArray[Any]], target: str) -> None:
        self._given = model, target, feeds
        self._kept: tuple[ModuleOp, VtacContext] | None = None
        self._pipeline = Pipeline(())
        module = vtac.compile(*self._given, observe=self._keep, pipeline=self._see, tuning=False)
        self._cycles = module.profile().cycles

    def _keep(self, level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            self._kept = module.clone(), ctx

    def _see(self, pipeline: Pipeline) -> Pipeline:
        self._pipeline = pipeline
        return pipeline

    def cycles(self, column: str) -> int:
        """The cycles of a column of `COLUMNS`."""
        if column == WHOLE:
            return self._cycles
        if column in WITHOUT:
            return self._lowered(WITHOUT[column])
        changes = [*WITHOUT.values()] if column == ALL else []

        def changed(pipeline: Pipeline) -> Pipeline:
            for change in changes:
                pipeline = change(pipeline)
            return pipeline.with_options("quantize", shift="channel")

        compiled = vtac.compile(*self._given, pipeline=changed, tuning=False)
        return int(compiled.profile().cycles)

    def _lowered(self, change: Callable[[Pipeline], Pipeline]) -> int:
        """The cycles of the rest of the pipeline with a change."""
        assert self._kept is not None
        kept, ctx = self._kept
        module = kept.clone()
        for found in built_passes(change(self._pipeline.since("quantised")).passes, OurPasses()):
            found.apply(ctx, module)
        return sum(map(_program_cycles, (op for op in module.walk() if isinstance(op, ProgramOp))))


def _program_cycles(program: ProgramOp) -> int:
    binary = encode_program(program)
    return estimate(binary.target, binary.relocate(binary.place())).cycles


def page_marks(part: str) -> tuple[str, str]:
    """What encloses a table in a page."""
    return f"<!-- bench_choices {part} -->", f"<!-- end of {part} -->"
