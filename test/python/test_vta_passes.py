"""The passes of vta on random programs keep their meaning: placing, ordering, encoding."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from other_systems import loading_accumulators
from stage_programs import Programs, placed
from vta_reference import evaluate
from vta_runner import SEEDS, finish_program
from xdsl.dialects.builtin import NameLoc, NoneAttr, StringAttr, SymbolRefAttr, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from vtac.dialects.errors import CompileError
from vtac.dialects.target import COMPUTE, LOAD, Memory, Target
from vtac.dialects.vta import (
    AllocOp,
    BufferKind,
    BufferOp,
    FinishOp,
    GemmOp,
    LoadOp,
    MicroOps,
    ProgramOp,
    StoreOp,
    TransferOp,
    integer,
    integers,
    memory_attr,
)
from vtac.dialects.vta.encoding import Load, decode
from vtac.passes.vta.allocate import allocate
from vtac.sim import check, estimate, execute
from vtac.sim.timing.accounts import Cause

SMALL = Target.named("sim").replace(
    log_inp_buff_size=10, log_wgt_buff_size=13, log_acc_buff_size=12, uop_entries=24
)
TARGETS = {
    "small": SMALL,
    "few tokens": SMALL.replace(token_depth=2, queue_depth=8),
    "one token": SMALL.replace(token_depth=1, queue_depth=4),
    "chisel": Target.named("chisel-pynq"),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
    "2x16": Target.named("sim").replace(log_batch=1),
    "loads accumulators": loading_accumulators(SMALL),
}


def run(program: ProgramOp, seed: int) -> None:
    """All buffers after the program are those of its plain meaning, in every order."""
    rng = np.random.default_rng(seed)
    dram = {
        name: rng.integers(0, 256, op.bytes.value.data, np.uint8)
        for name, op in program.buffers().items()
    }
    program.verify()
    wanted = evaluate(program, dram)
    binary = finish_program(program)
    addresses, words, image = placed(binary, dram)
    report = check(binary.target, words, image)
    assert report.ok, str(report)
    for order in SEEDS:
        after = execute(binary.target, words, image, strict=True, order_seed=order)
        for name, data in wanted.items():
            assert np.array_equal(after[addresses[name] :][: len(data)], data), (name, order)


@pytest.mark.parametrize("name", TARGETS)
def test_random_programs(name: str) -> None:
    @settings(max_examples=12)
    @given(st.integers(0, 1 << 30))
    def check_one(seed: int) -> None:
        run(Programs(random.Random(seed), TARGETS[name]).program(), seed)

    check_one()


def test_a_machine_whose_load_module_loads_accumulators_needs_tokens_for_them() -> None:
    other, races, moved = TARGETS["loads accumulators"], 0, 0
    for seed in range(12):
        words, images = {}, {}
        for target in (SMALL, other):
            binary = finish_program(Programs(random.Random(seed), target).program())
            _, words[target], images[target] = placed(binary, {})
        loads = [
            index
            for index, x in enumerate(decode(other, words[other]))
            if isinstance(x, Load) and x.memory is Memory.ACC
        ]
        races += "ACC elements" in str(check(other, words[SMALL], images[SMALL]))
        assert check(other, words[other], images[other]).ok
        report = estimate(other, words[other], "chisel-pynq")
        assert (report.work.module[loads] == LOAD).all()
        moved += Cause.TRANSFER in estimate(SMALL, words[SMALL]).total.modules[COMPUTE]
        assert Cause.TRANSFER not in report.total.modules[COMPUTE]
    assert races > 3 and moved > 3


@pytest.mark.parametrize("name", TARGETS)
def test_buffers_that_share_bytes(name: str) -> None:
    """Buffers placed at shared bytes behave as one buffer with all these bytes."""

    @settings(max_examples=12)
    @given(st.integers(0, 1 << 30))
    def check_one(seed: int) -> None:
        rng = random.Random(seed)
        programs = Programs(rng, TARGETS[name])
        _, one, two, _ = programs.buffers
        align = one.align.value.data
        offsets = {"d1": 0, "d2": rng.randrange(programs.size // align + 1) * align}
        program = programs.program()
        plain = merged(program, offsets, programs.size + offsets["d2"])
        one.set_place("dram", offsets["d1"])
        two.set_place("dram", offsets["d2"])
        run_shared(program, plain, offsets, seed)

    check_one()


def merged(program: ProgramOp, offsets: dict[str, int], size: int) -> ProgramOp:
    """The program over one buffer, @all, instead of the ones with these offsets in it."""
    plain = program.clone()
    for op in plain.buffers().values():
        if op.sym_name.data in offsets:
            op.detach()
    first = plain.body.block.first_op
    assert first is not None
    whole = BufferOp("all", BufferKind.SCRATCH, size, 256)
    plain.body.block.insert_op_before(whole, first)
    for op in plain.instructions():
        if isinstance(op, TransferOp) and op.buffer_name in offsets:
            more = offsets[op.buffer_name] // plain.target.element_bytes(op.memory_id)
            op.properties["dram_base"] = integer(op.dram_base.value.data + more)
            op.properties["buffer"] = SymbolRefAttr("all")
    return plain


def run_shared(program: ProgramOp, plain: ProgramOp, offsets: dict[str, int], seed: int) -> None:
    """As `run`, but the expected bytes are those that another program leaves."""
    rng = np.random.default_rng(seed)
    dram = {
        name: rng.integers(0, 256, op.bytes.value.data, np.uint8)
        for name, op in plain.buffers().items()
    }
    wanted = evaluate(plain, dram)
    binary = finish_program(program)
    addresses = binary.place()
    places = {name: addresses[name] for name in dram if name in addresses}
    places["all"] = addresses["d1"] - offsets["d1"]
    image = np.zeros(max(addresses[b.name] + b.size for b in binary.buffers), np.uint8)
    for buffer in binary.buffers:
        if buffer.data is not None:
            data = np.frombuffer(buffer.data, np.uint8)
            image[addresses[buffer.name] :][: buffer.size] = data
    for name, data in dram.items():
        image[places[name] :][: len(data)] = data
    words = binary.relocate(addresses)
    report = check(binary.target, words, image)
    assert report.ok, str(report)
    for order in SEEDS:
        after = execute(binary.target, words, image, strict=True, order_seed=order)
        for name, data in wanted.items():
            assert np.array_equal(after[places[name] :][: len(data)], data), (name, order)


def test_many_tokens_do_not_overflow() -> None:
    """Ten loads before ten products: their tokens would pile up."""
    target = SMALL.replace(token_depth=3)
    buffer = BufferOp("d0", BufferKind.INPUT, 1 << 12, 256, 0)
    out = BufferOp("d1", BufferKind.OUTPUT, 1 << 12, 256, 0)
    weights = AllocOp.of(Memory.WGT, 100, 1, 1)
    acc = AllocOp.of(Memory.ACC, 101, 1, 1)
    inputs = [AllocOp.of(Memory.INP, site, 1, 1) for site in range(10)]

    def load(memory: Memory, into: SSAValue) -> Operation:
        return LoadOp.create(
            operands=[into],
            properties={
                "memory": memory_attr(memory),
                "sram_base": integer(0),
                "buffer": SymbolRefAttr("d0"),
                "dram_base": integer(0),
                "size": integers(1, 1),
                "stride": integer(1),
            },
        )

    one = {"micro_ops": MicroOps.of([[0, 0, 0]]), "loops": integers(1, 1)}
    ops: list[Operation] = [buffer, out, weights, acc, *inputs, load(Memory.WGT, weights.buffer)]
    ops += [load(Memory.INP, op.buffer) for op in inputs]
    ops.append(GemmOp.create(operands=[acc.buffer], properties={**one, "reset": UnitAttr()}))
    ops += [
        GemmOp.create(operands=[acc.buffer, op.buffer, weights.buffer], properties=dict(one))
        for op in inputs
    ]
    ops.append(
        StoreOp.create(
            operands=[acc.buffer],
            properties={
                "sram_base": integer(0),
                "buffer": SymbolRefAttr("d1"),
                "dram_base": integer(0),
                "size": integers(1, 1),
                "stride": integer(1),
            },
        )
    )
    run(ProgramOp("p", target, Region(Block([*ops, FinishOp.create()]))), 0)


def test_what_does_not_fit_is_named() -> None:
    alloc = AllocOp.of(Memory.INP, 0, 2, SMALL.inp_depth)
    alloc.location = NameLoc(StringAttr("conv7"), NoneAttr())
    other = AllocOp.of(Memory.INP, 0, 2, SMALL.inp_depth)
    program = ProgramOp("p", SMALL, Region(Block([alloc, other, FinishOp.create()])))
    with pytest.raises(CompileError, match=r"conv7: needs 128 elements of inp"):
        allocate(program)


def test_neighbouring_layers_are_placed_apart() -> None:
    rng = random.Random(5)
    program = Programs(rng, Target.named("pynq")).program()
    allocate(program)
    bases: dict[str, set[int]] = {}
    for op in program.instructions():
        if isinstance(op, TransferOp) and op.memory_id is Memory.INP:
            assert isinstance(op.location, NameLoc)
            bases.setdefault(op.location.desc.data, set()).add(op.sram_base.value.data)
    stages = list(bases.values())
    assert len(stages) > 1
    assert all(not one & other for one, other in itertools.pairwise(stages))
