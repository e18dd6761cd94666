"""Cheap epilogues: exact on the simulator, whatever way biases, shifts and addends take."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import REWRITES, IntegerFunction
from residuals import CHISEL, TARGETS, residual
from vta_runner import lower_loops, run_loops
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import SSAValue

from vtac.dialects import te
from vtac.dialects.vta.encoding import Alu, AluOpcode, decode
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.lowering.te_to_vta.immediates import parts_of
from vtac.passes.te.block_immediates import BlockImmediatesPass
from vtac.passes.te.epilogue_costs import CHOICES
from vtac.passes.te.nest_shifts import NestShiftsPass
from vtac.passes.te.place_biases import PlaceBiasesPass, digits_of, inputs_needed, lanes_of


@settings(max_examples=10)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(TARGETS)))
def test_epilogues_are_exact(random: Random, target: str) -> None:
    f = IntegerFunction(TARGETS[target], random.randrange(1 << 30))
    module = residual(f, random, random.choice([5, f.target.block, 3 * f.target.block - 2]))
    f.lower(module)
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), 2)


@pytest.mark.parametrize(
    ("rest", "way", "shifts"), [(0, "one shift", 1), (2, "nested", 2)], ids=["same", "more"]
)
def test_an_addend_needs_few_shifts(rest: int, way: str, shifts: int) -> None:
    """Channels scale the addend differently, all by the shift or by a quarter of it."""
    f = IntegerFunction(CHISEL)
    acc = f.conv(f.input(1, 16, 14, 14), 32, (1, 1))
    amounts = [7 + c % 5 for c in range(32)]
    acc = f.add(acc, f.shift_left(f.input(1, 32, 14, 14), amounts))
    module = f.finish(f.requantize(acc, shifts=[amount + rest for amount in amounts]))
    passes = (NestShiftsPass, PlaceBiasesPass, BlockImmediatesPass)
    f.apply(module, [GraphToTePass, *REWRITES, *passes])
    (kernel,) = [op for op in module.ops if isinstance(op, te.KernelOp)]
    choices = kernel.attributes[CHOICES]
    assert isinstance(choices, ArrayAttr)
    assert f"shift_left: {way}," in choices.data[0].data
    ends = [type(te.yielded(compute.body).owner).__name__ for compute in kernel.computes]
    assert ends.count("ShRSIOp") == shifts and "ShLIOp" not in ends


@settings(max_examples=12)
@given(st.lists(st.integers(2, 9), min_size=3, max_size=3), st.integers(0, 3), st.randoms())
def test_blocks_with_small_addends_are_shifted_once(
    blocks: list[int], rest: int, random: Random
) -> None:
    """Blocks whose addends are products with int8 weights get no instruction of the first shift."""
    f = IntegerFunction(CHISEL, random.randrange(1 << 30))
    acc = f.conv(f.input(1, 16, 9, 14), 48, (1, 1))
    amounts = [amount for amount in blocks for _ in range(16)]
    acc = f.add(acc, f.shift_left(f.input(1, 48, 9, 14), amounts))
    module = f.finish(f.requantize(acc, shifts=[amount + 1 + rest for amount in amounts]))
    f.lower(module)
    copy = module.clone()
    (binary,) = lower_loops(f.ctx, copy)
    instructions = decode(f.target, binary.relocate(binary.place()))
    shifts = [i for i in instructions if isinstance(i, Alu) and i.alu_opcode is AluOpcode.SHR]
    assert shifts and all(shift.imm for shift in shifts)
    shifted = sum(
        shift.iter_out * shift.iter_in * (shift.uop_end - shift.uop_bgn) for shift in shifts
    )
    assert shifted == 9 * 14 * (3 + sum(amount > 6 for amount in blocks))
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), 2)


def planes(f: IntegerFunction, addends: int, low: int, rest: int) -> ModuleOp:
    """Products of high planes, raised by 8 bits, and of low planes, shifted by 8 + rest."""
    raised = [_product(f)]
    for _ in range(addends - 1):
        raised.append(f.add(raised[-1], _product(f)))
    acc = f.shift_left(raised[-1], [8] * 16)
    for _ in range(low):
        acc = f.add(acc, _product(f))
    return f.finish(f.requantize(acc, shifts=[8 + rest] * 16, lo=-128, largest_bias=1 << 20))


def _product(f: IntegerFunction) -> SSAValue:
    return f.conv(f.input(1, 16, 6, 7), 16, (1, 1))


@settings(max_examples=10)
@given(st.randoms(use_true_random=False), *[st.integers(1, 3)] * 2, st.integers(0, 7))
def test_planes_of_several_products_are_exact(
    random: Random, addends: int, low: int, rest: int
) -> None:
    f = IntegerFunction(CHISEL, random.randrange(1 << 30))
    module = planes(f, addends, low, rest)
    f.lower(module)
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), 2)


@pytest.mark.parametrize(("addends", "low"), [(1, 1), (2, 2), (3, 1), (1, 3)])
def test_planes_of_several_products_start_from_their_bias(addends: int, low: int) -> None:
    f = IntegerFunction(CHISEL)
    module = planes(f, addends, low, 6)
    f.apply(module, [GraphToTePass, *REWRITES, NestShiftsPass, PlaceBiasesPass])
    (kernel,) = [op for op in module.ops if isinstance(op, te.KernelOp)]
    ends = [type(te.yielded(compute.body).owner).__name__ for compute in kernel.computes]
    products = [compute for compute in kernel.computes if compute.reduce]
    assert "ShLIOp" not in ends and ends.count("ShRSIOp") == 2
    assert len(products) == addends + low
    assert all(product.init is not None for product in products)


@settings(max_examples=40)
@given(st.lists(st.integers(-(1 << 24), 1 << 24), min_size=1, max_size=9), st.sampled_from([8, 16]))
def test_digits_give_the_values(values: list[int], block: int) -> None:
    array = np.array(values, np.int32)
    inputs = inputs_needed(array, block)
    digits = digits_of(array, inputs, block)
    assert digits.shape == (inputs, len(values), block)
    total = np.einsum("dk,dok->o", lanes_of(inputs, block).astype(np.int64), digits.astype(int))
    np.testing.assert_array_equal(total, array)
    reach = 127 * 127 * (inputs * block - 1) + 63
    assert np.abs(array.astype(int)).max() <= reach


def test_one_input_reaches_what_is_said() -> None:
    assert inputs_needed(np.array([241_998, -241_998]), 16) == 1
    assert inputs_needed(np.array([241_999]), 16) == 2


@settings(max_examples=30)
@given(st.randoms(use_true_random=False))
def test_tables_are_cut_into_boxes(random: Random) -> None:
    """Each iteration lies in one box, which has its immediate; neighbours that agree share one."""
    counts = [random.randint(1, 4) for _ in range(3)]
    rows = []
    for _ in range(random.randint(0, 2)):
        steps = {axis: random.choice([0, 1, 1]) for axis in range(3) if random.random() < 0.6}
        rows.append((random.randint(0, 2), steps))
    table = np.array([random.randint(-1, 1) for _ in range(12 ** len(rows))], np.int32).reshape(
        [12] * len(rows)
    )
    (intrinsic,) = [i for i in te.standard_intrinsics(CHISEL) if i.sym_name.data == "shr_imm"]
    found = np.full(counts, 99)
    for part in parts_of(table, rows, counts, intrinsic):
        box = tuple(slice(s, s + n) for s, n in zip(part.start, part.counts, strict=True))
        assert np.all(found[box] == 99)
        found[box] = part.immediate
    for place in np.ndindex(*counts):
        at = tuple(first + sum(by * place[axis] for axis, by in s.items()) for first, s in rows)
        assert found[place] == table[at]
