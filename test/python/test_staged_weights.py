"""Where copies of weights stand: ``vta-stage-weights`` on random programs of two cores."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.parser import Parser

from vtac.dialects.context import VtacContext
from vtac.dialects.vta import ClusterOp, CopyOp, StepOp
from vtac.passes.vta.stage_weights import stage_weights
from vtac.tools.driver.discovery import load_dialects

WEIGHTS = 8192
"""Bytes that a step loads as weights, twice: about as many cycles of DDR as a copy takes, twice."""

LOOPS = st.integers(300, 4000)
"""Turns of a step's GEMM of 16 micro-ops: more cycles than one copy takes."""


@settings(max_examples=40, deadline=None)
@given(st.lists(LOOPS, min_size=2, max_size=8))
def test_copies_that_find_ddr_idle_wait_for_no_step(loops: list[int]) -> None:
    """With room for all weights and no other traffic, copies stand in front of all steps."""
    program = chain(loops, 1 << 20)
    stage_weights(program)
    copies, before = stands(program)
    assert len(copies) == len(loops) - 1
    assert max(copies) < min(before)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(300, 500), min_size=12, max_size=14))
def test_late_copies_wait_for_steps(loops: list[int]) -> None:
    """If they are to take little of DDR from loads, later copies stand behind steps."""
    program = chain(loops, 1 << 20)
    stage_weights(program, late=True)
    copies, before = stands(program)
    assert max(copies) > min(before)


@settings(max_examples=40, deadline=None)
@given(st.lists(LOOPS, min_size=3, max_size=8))
def test_copies_without_room_wait_for_the_readers_before(loops: list[int]) -> None:
    """A buffer of one piece takes the next one when its reader is done."""
    program = chain(loops, WEIGHTS)
    stage_weights(program)
    copies, before = stands(program)
    for copy, other in pairwise(copies):
        assert any(copy < step < other for step in before)


def stands(program: ClusterOp) -> tuple[list[int], list[int]]:
    """The numbers of the steps that copy, and of all others."""
    assert program.dma is not None
    copies = [
        op.number.value.data
        for op in program.dma.body.block.ops
        if isinstance(op, StepOp) and isinstance(op.next_op, CopyOp)
    ]
    others = [
        op.number.value.data for core in program.cores().values() for op in core.all_of(StepOp)
    ]
    return copies, others


def chain(loops: Sequence[int], gb_bytes: int) -> ClusterOp:
    """Steps on two cores in turn: each loads weights of its own twice, and computes."""
    buffers = [
        f"vta.buffer @w{number} constant bytes {WEIGHTS} align 256 "
        f'value #vtac.resource<"w", "0123456789abcdef">'
        for number in range(len(loops))
    ]
    cores = [
        "\n".join(step(number, count) for number, count in enumerate(loops) if number % 2 == core)
        for core in range(2)
    ]
    machine = (
        f'#target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = {gb_bytes}, dma = true>'
    )
    ctx = VtacContext()
    load_dialects(ctx)
    module = Parser(
        ctx,
        f"vta.cluster @f attributes {{vtac.target = {machine}}} {{\n"
        + "\n".join(buffers)
        + "".join(f"\nvta.core {core} {{\n{ops}\nvta.finish\n}}" for core, ops in enumerate(cores))
        + "\n}",
    ).parse_module()
    (program,) = module.body.block.ops
    assert isinstance(program, ClusterOp)
    return program


def step(number: int, count: int) -> str:
    """One step, whose results nobody reads."""
    load = f"vta.load wgt %w{number} sram 0 from @w{number} dram 0 size [1, 32] stride 32"
    return f"""
    vta.step {number}
    %w{number} = vta.alloc site {2 * number} slots 1 size 32 : !vta.sram<wgt>
    {load}
    {load}
    %a{number} = vta.alloc site {2 * number + 1} slots 1 size 16 : !vta.sram<acc>
    vta.gemm reset %a{number} micro_ops <[0, 0, 0]> loops [{count}, 16] dst [0, 1]"""
