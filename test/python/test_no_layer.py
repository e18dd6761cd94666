"""Nothing below graph knows layers: a computation no ONNX op has runs like any other.

Four spatial axes beside the lanes and three reduction axes beside the depth, named after nothing,
one of them read with stride and outside its operand, from the default schedule to the simulator.
"""

from itertools import product
from textwrap import dedent

import numpy as np
import pytest
from numpy.typing import NDArray
from vta_runner import context, parse, run_loops

from vtac.dialects.target import Target
from vtac.lowering.codegens.vta import LOWERING
from vtac.tools.driver.discovery import OurPasses
from vtac.tools.driver.pipelines import built_passes

TARGETS = {
    "1x16": Target.named("pynq"),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
    "chisel": Target.named("chisel-pynq"),
}

TEXT = """
builtin.module attributes {{vtac.target = {target}}} {{
  func.func @main(%x: {x}) -> {y} attributes {{codegen = "vta", vtac.target = {target}}} {{
    %m = te.constant #vtac.resource<"m", "{digest}"> : {m}
    %y = te.call @marsh(%x, %m) : ({x}, {m}) -> {y}
    func.return %y : {y}
  }}
  te.kernel @marsh(%x: {x}, %m: {m}) -> {y} {{
    %sum = te.compute "sum" (owl = 2, fern = 3, dusk = 5, moss = 7, b = {b}, o = {o})
        reduce (reed = 2, gull = 3, newt = 2, k = {o})
        ins (%x[reed, 2 * dusk + gull - 1, fern + newt, moss, b, k] outside 0 : {x},
             %m[fern, owl, newt, reed, gull, o, k] : {m}) identity 0 {{
    ^bb0(%acc: i32, %p: i8, %q: i8):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    }} -> {acc}
    %low = te.compute "low" (owl = 2, fern = 3, dusk = 5, moss = 7, b = {b}, o = {o})
        ins (%sum[owl, fern, dusk, moss, b, o] : {acc}) {{
    ^bb0(%a: i32):
      %c = arith.constant 6 : i32
      %0 = arith.shrsi %a, %c : i32
      te.yield %0 : i32
    }} -> {acc}
    %narrow = te.compute "narrow" (owl = 2, fern = 3, dusk = 5, moss = 7, b = {b}, o = {o})
        ins (%low[owl, fern, dusk, moss, b, o] : {acc}) {{
    ^bb0(%a: i32):
      %0 = arith.trunci %a : i32 to i8
      te.yield %0 : i8
    }} -> {y}
    te.yield %narrow : {y}
  }}
}}
"""


def expected(x: NDArray[np.int8], m: NDArray[np.int8]) -> NDArray[np.int8]:
    """The same sum, written as loops over everything but the lanes."""
    acc = np.zeros((2, 3, 5, 7, x.shape[-2], m.shape[-2]), np.int64)
    for owl, fern, dusk, reed, gull, newt in product(*map(range, (2, 3, 5, 2, 3, 2))):
        row = 2 * dusk + gull - 1
        if 0 <= row < x.shape[1]:
            lanes = x[reed, row, fern + newt].astype(np.int64)  # [moss, b, k]
            acc[owl, fern, dusk] += lanes @ m[fern, owl, newt, reed, gull].T.astype(np.int64)
    return (acc >> 6).astype(np.int8)


@pytest.mark.parametrize("name", TARGETS)
def test_a_computation_that_is_no_layer(name: str) -> None:
    target, rng, ctx = TARGETS[name], np.random.default_rng(7), context()
    b, o = target.batch, target.block
    x = rng.integers(-128, 128, (2, 10, 4, 7, b, o)).astype(np.int8)
    m = rng.integers(-128, 128, (3, 2, 2, 2, 3, o, o)).astype(np.int8)
    types = {
        "x": f"tensor<2x10x4x7x{b}x{o}xi8>",
        "m": f"tensor<3x2x2x2x3x{o}x{o}xi8>",
        "acc": f"tensor<2x3x5x7x{b}x{o}xi32>",
        "y": f"tensor<2x3x5x7x{b}x{o}xi8>",
    }
    digest = ctx.resources.add(m, "m").digest.data
    text = TEXT.format(target=target, b=b, o=o, digest=digest, **types)
    module = parse(ctx, dedent(text))
    for one in built_passes(LOWERING.until("loops").passes, OurPasses()):
        if one.name not in ("graph-to-te", "te-declare-intrinsics"):  # done by hand, and by parse
            one.apply(ctx, module)
    (result,) = run_loops(ctx, module, [x])
    np.testing.assert_array_equal(result, expected(x, m))
