"""Each scheduling primitive on a kernel that no layer has: what it keeps, and what it refuses."""

import numpy as np
import pytest
from te_interpreter import kernel_named, run_loops
from te_kernels import SMALL
from verifier import Verifier
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from vtac.dialects import te
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError
from vtac.dialects.target import TARGET_ATTRIBUTE
from vtac.passes.te.apply_schedule import TeApplySchedule
from vtac.passes.te.declare_intrinsics import TeDeclareIntrinsics
from vtac.passes.te.simplify_loops import TeSimplifyLoops
from vtac.passes.te.te_to_loops import TeToLoops
from vtac.tools.driver.discovery import load_dialects
from vtac.tools.tune.evaluate import evaluate_kernel

KERNEL = """
te.kernel @k(%x: tensor<5x3x2x2x2xi8>, %w: tensor<3x3x2x2xi8>, %c: tensor<3x2x2xi32>)
    -> (tensor<2x4x3x2x2xi8>) {
  %z = te.compute "z" (v = 2, u = 4, r = 3, p = 2, q = 2) reduce (s = 3, t = 2)
      ins (%x[u + 2 * s - 1, r, v, p, t] outside 0 : tensor<5x3x2x2x2xi8>,
           %w[r, s, q, t] : tensor<3x3x2x2xi8>) identity 0 {
  ^bb0(%acc: i32, %a: i8, %b: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %b : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    te.yield %3 : i32
  } -> tensor<2x4x3x2x2xi32>
  %y = te.compute "y" (v = 2, u = 4, r = 3, p = 2, q = 2)
      ins (%z[v, u, r, p, q] : tensor<2x4x3x2x2xi32>, %c[r, p, q] : tensor<3x2x2xi32>) {
  ^bb0(%a: i32, %b: i32):
    %0 = arith.addi %b, %a : i32
    te.yield %0 : i32
  } -> tensor<2x4x3x2x2xi32>
  %o = te.compute "o" (v = 2, u = 4, r = 3, p = 2, q = 2)
      ins (%y[v, u, r, p, q] : tensor<2x4x3x2x2xi32>) {
  ^bb0(%a: i32):
    %0 = arith.constant 3 : i32
    %1 = arith.shrsi %a, %0 : i32
    %2 = arith.trunci %1 : i32 to i8
    te.yield %2 : i8
  } -> tensor<2x4x3x2x2xi8>
  te.yield %o : tensor<2x4x3x2x2xi8>
}
"""
ROOT = "%v, %u, %r, %p, %q = te.axes %o (v, u, r, p, q)\n"
AXES = "%v1, %u1, %r1, %p1, %q1 = te.axes %y (v, u, r, p, q)\n"
SUM = "%v2, %u2, %r2, %p2, %q2, %s, %t = te.axes %z (v, u, r, p, q, s, t)\n"
PLACED = """
  %n = te.cache_write %o scope <acc> slots 1
  %v, %u, %r, %p, %q = te.axes %o (v, u, r, p, q)
  %uo, %ui = te.split %u factor 3
  te.reorder %uo, %r, %v, %ui
  te.set_scope %y scope <acc> slots 1
  te.set_scope %z scope <acc> slots 2
  te.compute_at %n, %r
  te.compute_at %y, %r
  te.compute_at %z, %uo
"""
TENSORIZED = (
    PLACED
    + AXES
    + SUM
    + """
  te.dma %o at %v
  te.in_place %n operand 0
  te.reorder %s, %r2, %v2, %u2
  %xc = te.cache_read %z operand 0 scope <inp> slots 2
  te.compute_at %xc, %r2
  %wc = te.cache_read %z operand 1 scope <wgt> slots 2
  te.compute_at %wc, %s
  %cc = te.cache_read %y operand 1 scope <acc> slots 1
  te.compute_at %cc, %uo
  te.tensorize %z at %v2 by [@gemm]
  %i = te.init %z
  %v3, %u3, %r3, %p3, %q3 = te.axes %i (v, u, r, p, q)
  te.tensorize %i at %v3 by [@reset]
  te.tensorize %y at %u1 by [@reset, @add, @add]
  %v4, %u4, %r4, %p4, %q4 = te.axes %n (v, u, r, p, q)
  te.tensorize %n at %v4 by [@shr_imm]
"""
)


def parsed(schedule: str) -> ModuleOp:
    context = VtacContext()
    load_dialects(context)
    arguments = "(%z: !te.stage, %y: !te.stage, %o: !te.stage)"
    text = f"{KERNEL}te.schedule @k {{\n^bb0{arguments}:\n{schedule}\n}}"
    module = Parser(context, text).parse_module()
    module.attributes[TARGET_ATTRIBUTE] = SMALL
    return module


def applied(schedule: str) -> te.KernelOp:
    """Apply a schedule, and compare what the kernel computes before and after."""
    module, verifier = parsed(schedule), Verifier()
    verifier.verify(module)
    kernel = kernel_named(module, "k")
    generator = np.random.default_rng(7)
    shapes = [argument.type.get_shape() for argument in kernel.body.block.args]
    inputs = [generator.integers(-100, 100, shape) for shape in shapes]
    [expected] = evaluate_kernel(kernel, inputs)
    for step in (TeDeclareIntrinsics(), TeToLoops(), TeApplySchedule()):
        step.apply(VtacContext(), module)
        verifier.verify(module)
    [found] = run_loops(kernel, inputs)
    np.testing.assert_array_equal(expected, found)
    before = sum(isinstance(op, te.InvokeOp | te.CopyOp) for op in kernel.walk())
    TeSimplifyLoops().apply(VtacContext(), module)
    verifier.verify(module)
    [found] = run_loops(kernel, inputs)
    np.testing.assert_array_equal(expected, found)
    assert before == sum(isinstance(op, te.InvokeOp | te.CopyOp) for op in kernel.walk())
    return kernel


SCHEDULES = {
    "nothing": "",
    "split": ROOT + "%uo, %ui = te.split %u factor 3\n te.reorder %r, %uo, %p, %ui, %v",
    "split twice": ROOT + "%a, %b = te.split %u factor 1\n %c, %d = te.split %a factor 2",
    "sizes": ROOT + "%uo, %ui = te.split %u sizes [1, 2, 1]\n te.compute_at %y, %uo",
    "tile": ROOT + "%a, %b, %c, %d = te.tile %u, %r factors [3, 2]\n te.compute_at %y, %b",
    "fuse": AXES + "%a, %b = te.split %u1 factor 4\n %f = te.fuse %a, %b\n te.reorder %f, %v1",
    "fuse two": ROOT + "%f = te.fuse %v, %u\n te.compute_at %y, %f\n te.compute_at %z, %f",
    "fuse, split": ROOT
    + "te.reorder %u, %r, %v\n %uo, %ui = te.split %u factor 3\n te.reorder %uo, %r, %ui, %v\n"
    "%f = te.fuse %uo, %r\n te.reorder %f, %v, %ui\n %fo, %fi = te.split %f factor 4\n"
    "te.compute_at %y, %fo\n te.compute_at %z, %fo",
    "fuse three": ROOT + "%f = te.fuse %v, %u\n %g = te.fuse %f, %r\n te.compute_at %y, %g",
    "fuse a reduction": SUM + "%f = te.fuse %s, %t\n %fo, %fi = te.split %f factor 4\n"
    "te.reorder %r2, %fo, %p2, %fi\n %c = te.cache_read %z operand 0 scope <inp> slots 1\n"
    "te.compute_at %c, %fo",
    "inline": "te.inline %y",
    "inline after tiles": PLACED + "te.inline %n",
    "cache_write": PLACED,
    "unroll": PLACED + "te.unroll %uo",
    "unroll in place": TENSORIZED + "te.unroll %uo",
    "vthread": TENSORIZED + "te.vthread %uo",
    "vthread of halves": (
        "te.set_scope %y scope <acc> slots 1\n"
        + ROOT
        + "%uo, %u1 = te.split %u factor 2\n %a, %b = te.split %u1 factor 1\n"
        + "te.reorder %uo, %r, %a, %v\n te.compute_at %y, %a\n te.vthread %uo"
    ),
    "vthread of rows": ROOT + "te.compute_at %y, %v\n te.compute_at %z, %v\n te.vthread %v",
    "compute_at deeper": PLACED + SUM + "te.compute_at %z, %r",
    "tensorize": TENSORIZED,
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_primitives_keep_results(name: str) -> None:
    applied(SCHEDULES[name])


def test_everything_is_tensorized_without_names() -> None:
    kernel = applied(TENSORIZED)
    assert not any(isinstance(op, te.UpdateOp) for op in kernel.walk())
    assert sum(isinstance(op, te.InvokeOp) for op in kernel.walk()) == 6


def test_vthread_runs_inner_loops_once_for_all() -> None:
    kernel = applied(SCHEDULES["vthread"])
    loads = [op for op in kernel.walk() if isinstance(op, te.CopyOp) and op.is_load]
    assert len(loads) == 6, "each thread has buffers of its own"
    loops = [op for op in kernel.body.block.ops if isinstance(op, te.ForOp)]
    assert "u" not in [loop.label.data for loop in loops]


def test_threads_share_loops_over_tiles_that_lie_apart() -> None:
    kernel = applied(SCHEDULES["vthread of halves"])
    [outer] = [op for op in kernel.body.block.ops if isinstance(op, te.ForOp)][2:]
    tiles = [op for op in outer.body.block.ops if isinstance(op, te.ForOp)]
    assert [loop.label.data for loop in (outer, *tiles)] == ["r", "u"]
    allocs = [op for op in tiles[0].body.block.ops if isinstance(op, te.AllocOp)]
    assert len(allocs) == 2, "each thread has a buffer of its own"


REFUSED = {
    "names of axes": (
        "%a, %b = te.axes %y (v, u)",
        'the loops of stage "y" are (v, u, r, p, q)',
    ),
    "init of no reduction": ("%i = te.init %y", "is no reduction"),
    "sizes that do not fit": (ROOT + "%a, %b = te.split %u sizes [3, 3]", "add up to 6"),
    "split of a tile loop": (
        ROOT + "%a, %b = te.split %u factor 3\n %c, %d = te.split %a factor 4",
        "4 is no multiple",
    ),
    "tile inside out": (
        ROOT + "%a, %b = te.split %u factor 2\n te.reorder %b, %a",
        "must stay outside",
    ),
    "reorder of two stages": (ROOT + AXES + "te.reorder %u, %u1", "loops of one stage"),
    "reorder around another stage": (
        ROOT + "te.compute_at %y, %v\n te.reorder %u, %v",
        "other operations between them",
    ),
    "fuse of unlike loops": (SUM + "%f = te.fuse %q2, %s", "one is a reduction, one is not"),
    "fuse of a tile": (
        ROOT + "%uo, %ui = te.split %u factor 2\n te.reorder %uo, %r, %ui\n%f = te.fuse %r, %ui",
        '"u" has no known range in even tiles',
    ),
    "a fused lane loop": (
        PLACED + SUM + "%xc = te.cache_read %z operand 0 scope <inp> slots 1\n"
        "%wc = te.cache_read %z operand 1 scope <wgt> slots 1\n"
        "te.reorder %p2, %q2, %t, %v2, %u2, %s\n %f = te.fuse %p2, %q2\n"
        "te.tensorize %z at %s by [@gemm]",
        "is not subscripted by one loop over [0, 2)",
    ),
    "an instruction of fused loops": (
        SUM + "te.set_scope %z scope <acc> slots 1\n %i = te.init %z\n"
        "%v3, %u3, %r3, %p3, %q3 = te.axes %i (v, u, r, p, q)\n"
        "%f = te.fuse %v3, %u3\n te.tensorize %i at %f by [@reset]",
        '"v_u" is a fused loop, an instruction\'s loops are single axes',
    ),
    "fuse of no neighbours": (ROOT + "%f = te.fuse %v, %r", "the next one inside it"),
    "scope of a result": ("te.set_scope %o scope <acc> slots 1", "is a result of the kernel"),
    "compute_at of a result": (ROOT + AXES + "te.compute_at %o, %v1", "nothing reads"),
    "compute_at inside itself": (AXES + "te.compute_at %y, %v1", "inside itself"),
    "compute_at after in_place": (
        ROOT + "te.in_place %y operand 0\n te.compute_at %z, %v",
        "is also written by",
    ),
    "compute_with of no result": (ROOT + "te.compute_with %y, %v", "is no result"),
    "inline of a reduction": ("te.inline %z", "is a reduction"),
    "in_place over a parameter": ("te.in_place %y operand 1", "cannot work in place"),
    "in_place of a reduction": ("te.in_place %z operand 0", "it accumulates"),
    "cache_write of a reduction": ("%n = te.cache_write %z scope <acc> slots 1", "is a reduction"),
    "cache_read of nothing": ("%n = te.cache_read %z operand 2 scope <inp> slots 1", "no 2"),
    "dma of a computation": (
        "te.set_scope %y scope <acc> slots 1\n" + ROOT + "te.dma %o at %v",
        "is not store: the statement is trunc(shr(operand 0, 3)), but @store is trunc(source 0)",
    ),
    "dma from main memory": (
        "%n = te.cache_write %o scope <dram> slots 1\n" + ROOT + "te.dma %o at %v",
        "the copy goes from dram to dram; declared are @load_inp (dram to inp)",
    ),
    "unknown intrinsic": (SUM + "te.tensorize %z at %v2 by [@conv]", "there is no te.intrinsic"),
    "scopes": (SUM + "te.tensorize %z at %v2 by [@gemm]", "is in acc, the buffer %z is in dram"),
    "lanes": (
        PLACED + SUM + "%a, %b = te.split %t factor 1\n"
        "%xc = te.cache_read %z operand 0 scope <inp> slots 1\n"
        "%wc = te.cache_read %z operand 1 scope <wgt> slots 1\n"
        "te.tensorize %z at %v2 by [@gemm]",
        "is not subscripted by one loop over [0, 2)",
    ),
    "a lane as the axis": (
        PLACED + SUM + "%xc = te.cache_read %z operand 0 scope <inp> slots 1\n"
        "%wc = te.cache_read %z operand 1 scope <wgt> slots 1\n"
        "te.tensorize %z at %t by [@gemm]",
        "is a lane of the intrinsic",
    ),
    "not in place": (
        PLACED + AXES + "%cc = te.cache_read %y operand 1 scope <acc> slots 1\n"
        "te.tensorize %y at %v1 by [@add]",
        "share the operand's buffer first",
    ),
    "another operation": (
        PLACED + AXES + "te.compute_at %z, %r\n te.in_place %y operand 0\n"
        "%cc = te.cache_read %y operand 1 scope <acc> slots 1\n"
        "te.tensorize %y at %v1 by [@max]",
        "the statement is add(destination, operand 1), but @max is max(destination, source 0)",
    ),
    "tensorize twice": (TENSORIZED + "te.tensorize %z at %u2 by [@gemm]", "no scalar statement"),
    "vthread of a reduction": (SUM + "te.vthread %s", "share a sum"),
    "a stage that was copied": (PLACED + "te.unroll %uo\n" + AXES, "has made copies of stage"),
    "a loop that was copied": (PLACED + AXES + "te.unroll %uo\n te.unroll %u1", "no longer there"),
    "a loop that is gone": (TENSORIZED + "te.unroll %t", "is no longer there"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_primitives_refuse(name: str) -> None:
    schedule, message = REFUSED[name]
    module = parsed(schedule)
    TeDeclareIntrinsics().apply(VtacContext(), module)
    TeToLoops().apply(VtacContext(), module)
    with pytest.raises(CompileError) as caught:
        TeApplySchedule().apply(VtacContext(), module)
    assert message in str(caught.value)
    assert "te.schedule @k, step" in caught.value.problems[0].where
