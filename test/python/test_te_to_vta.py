"""Lowered loops of te on the simulator, compared with the direct evaluation of the loops."""

import itertools
import math
import random
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_reference import evaluate_function
from vta_runner import context, parse, run_loops

from vtac.dialects.target import Target
from vtac.dialects.te import row_major
from vtac.lowering.te_to_vta.compute import MicroOpNest, depends_on_neighbour, plan
from vtac.lowering.te_to_vta.taps import ElementDimension, TapLoop
from vtac.lowering.te_to_vta.transfers import Transfers

TARGETS = {
    "pynq": Target.named("pynq"),
    "chisel": Target.named("chisel-pynq"),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
    "2x16": Target.named("sim").replace(log_batch=1),
}


@given(st.data())
def test_rectangles_cover_the_box_once(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    shape = [data.draw(st.integers(1, 6)) for _ in range(rank)]
    largest = data.draw(st.integers(1, 60))

    def interval(low: int, high: int) -> tuple[int, int]:
        start = data.draw(st.integers(low, high - 1))
        return start, data.draw(st.integers(1, high - start))

    window = [interval(0, size) for size in shape]
    box = [interval(start, start + length) for start, length in window]
    tensor = np.arange(math.prod(shape)).reshape(shape)
    wanted = tensor[tuple(slice(s, s + n) for s, n in box)]
    pad = np.full([length for _, length in window], -1)
    place, relative = Transfers(row_major(shape), largest).of(tuple(box), tuple(window))
    parts = [part._replace(dram=part.dram + place) for part in relative]
    flat = pad.reshape(-1)
    for part in parts:
        assert part.y * part.x <= largest
        for row, column in itertools.product(range(part.y), range(part.x)):
            at = part.sram + row * part.x + column
            assert flat[at] == -1
            flat[at] = part.dram + row * part.stride + column
    inside = tuple(slice(s - f, s - f + n) for (s, n), (f, _) in zip(box, window, strict=True))
    assert np.array_equal(pad[inside], wanted)
    assert (pad != -1).sum() == wanted.size


def test_whole_tiles_are_one_transfer() -> None:
    box = ((0, 1), (0, 4), (3, 5), (0, 7))
    place, whole = Transfers(row_major([1, 8, 9, 7]), 1 << 16).of(box, box)
    assert place == 3 * 7
    assert [(part.y, part.x, part.stride) for part in whole] == [(4, 35, 63)]


@given(st.data())
def test_nests_run_every_point_inside_once(data: st.DataObject) -> None:
    axes = [
        TapLoop(data.draw(st.integers(1, 4)), data.draw(st.booleans()))
        for _ in range(data.draw(st.integers(0, 4)))
    ]
    operands = []
    for operand in range(data.draw(st.integers(1, 3))):
        places = []
        for _ in range(data.draw(st.integers(1, 3))):
            steps = tuple(data.draw(st.sampled_from([0, 0, 1, 1, 2, -1])) for _ in axes)
            box = [(0, axis.count - 1) for axis in axes]
            low, high = ElementDimension(0, steps, 1, 0, 1).reach(box)
            cut = (0, 0)
            if operand:
                cut = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
            base = -low - cut[0]
            length = max(1, high - low + 1 - cut[0] - cut[1])
            places.append(ElementDimension(base, steps, length, 0, length))
        operands.append(places)
    entries = data.draw(st.sampled_from([1, 2, 3, 7, 50]))
    wanted = []
    for point in itertools.product(*(range(axis.count) for axis in axes)):
        at = [
            [place.base + sum(map(int.__mul__, place.steps, point)) for place in places]
            for places in operands
        ]
        if all(
            0 <= a < p.length
            for row, ps in zip(at, operands, strict=True)
            for a, p in zip(row, ps, strict=True)
        ):
            wanted.append(
                tuple(
                    int(np.ravel_multi_index(row, [place.length for place in places]))
                    for row, places in zip(at, operands, strict=True)
                )
            )
    nests = plan(axes, operands, entries)
    assert all(len(nest.micro_ops) <= entries for nest in nests)
    assert all(min(loop.by) >= 0 for nest in nests for loop in nest.loops)
    got = [tuple(row) for nest in nests for row in nest.sequence().tolist()]
    assert sorted(got) == sorted(wanted)


def test_no_micro_op_depends_on_its_neighbour() -> None:
    axes = [TapLoop(3, True), TapLoop(4, False), TapLoop(2, True)]
    places = [[ElementDimension(0, (0, 1, 0), 4, -9, 9)]]

    def refuses(nest: MicroOpNest) -> bool:
        return depends_on_neighbour(nest, immediate=True)

    nests = plan(axes, places, 64, refuses)
    assert not any(map(refuses, nests))
    assert sum(len(nest.sequence()) for nest in nests) == 24


def hardware_nest(rng: random.Random, bounds: dict[str, str], order: list[str], body: str) -> str:
    """Loops of one instruction around a body, in any order of their axes."""
    rng.shuffle(order)
    for axis in order:
        kind = "reduce " if axis in ("d", "fp", "fq", "t") else ""
        loop = f'te.for "{axis}" {kind}[%{axis}_i : %{axis}_k] in [{bounds[axis]}] hardware'
        body = f"{loop} {{\n{body}\n}}"
    return body


def module_text(target: Target, x: str, w: str, v: str, y: str, body: str) -> str:
    """A function of tensors of these types that calls a kernel, with a body, on two constants."""
    return f"""
builtin.module attributes {{vtac.target = {target}}} {{
  func.func private @f(%x: tensor<{x}>) -> tensor<{y}> attributes {{codegen = "vta"}} {{
    %w = te.constant #vtac.resource<"w", "W"> : tensor<{w}>
    %v = te.constant #vtac.resource<"v", "V"> : tensor<{v}>
    %y = te.call @k(%x, %w, %v) : (tensor<{x}>, tensor<{w}>, tensor<{v}>) -> tensor<{y}>
    func.return %y : tensor<{y}>
  }}
  te.kernel @k(%x: memref<{x}, #te.scope<dram>>, %w: memref<{w}, #te.scope<dram>>,
               %v: memref<{v}, #te.scope<dram>>, %y: memref<{y}, #te.scope<dram>>) {{
    {body}
    te.yield
  }}
}}
"""


def loops_text(rng: random.Random, target: Target) -> str:
    """A kernel over axes with odd names: a windowed product, two ALU stages, a windowed maximum."""
    b, o = target.batch, target.block
    n, c, d = rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 3)
    p, q = rng.randint(1, 7), rng.randint(1, 7)
    fp, fq = rng.randint(1, 3), rng.randint(1, 3)
    sp, sq = rng.randint(1, 2), rng.randint(1, 2)
    up, uq = rng.randint(0, fp - 1), rng.randint(0, fq - 1)
    ip, iq = (p - 1) * sp + fp - up - rng.randint(0, fp - 1), (q - 1) * sq + fq - uq
    ip, iq = max(ip, 1), max(iq, 1)
    tp, tc, td = rng.randint(1, p), rng.randint(1, c), rng.randint(1, d)
    slots, shift = rng.randint(1, 2), rng.randint(0, 9)
    x, w = f"{n}x{d}x{ip}x{iq}x{b}x{o}xi8", f"{c}x{d}x{fp}x{fq}x{o}x{o}xi8"
    y, v = f"{n}x{c}x{p}x{q}x{b}x{o}xi", f"{c}x{b}x{o}xi32"
    vector = rng.choice(["add", "max", "min"])
    whole = {"n": n, "q": q, "fp": fp, "fq": fq, "t": 3}
    bounds = {axis: f"0 : {size}" for axis, size in whole.items()}
    bounds |= {axis: f"%{axis} : %{axis}_n" for axis in ("c", "p", "d")}
    nest = partial(hardware_nest, rng, bounds)
    out = "%acc[%n_i, %c_i, %p_i, %q_i]"
    highest = "%m[%n_i, %c_i, %p_i, %q_i]"
    spatial = ["n", "c", "p", "q"]
    largest = f'te.invoke @max "m" {highest} (%acc[%n_i, %c_i, %p_i, %q_i + %t_i - 1])'
    gemm = (
        f'te.invoke @gemm "dot" {out} (%xb[%n_i, %d_i, {sp} * %p_i + %fp_i - {up},'
        f" {sq} * %q_i + %fq_i - {uq}], %wb[%c_i, %d_i, %fp_i, %fq_i])"
    )
    body = f"""
    te.for "c" [%c : %c_n] in [0 : {c}] step {tc} {{
      %vb = te.alloc [%c : %c_n, 0 : {b}, 0 : {o}] slots {slots} : memref<{v}, #te.scope<acc>>
      te.copy %v to %vb
      te.for "p" [%p : %p_n] in [0 : {p}] step {tp} {{
        %acc = te.alloc [0 : {n}, %c : %c_n, %p : %p_n, 0 : {q}, 0 : {b}, 0 : {o}] slots {slots}
          : memref<{y}32, #te.scope<acc>>
        {nest([*spatial], f'te.invoke @reset "dot" {out} ()')}
        te.for "d" reduce [%d : %d_n] in [0 : {d}] step {td} {{
          %s, %s_n = te.span {sp} * [%p : %p_n] + [{-up} : {fp}] within {ip}
          %xb = te.alloc [0 : {n}, %d : %d_n, %s : %s_n, 0 : {iq}, 0 : {b}, 0 : {o}]
            slots {slots} : memref<{x}, #te.scope<inp>>
          te.copy %x to %xb
          %wb = te.alloc [%c : %c_n, %d : %d_n, 0 : {fp}, 0 : {fq}, 0 : {o}, 0 : {o}]
            slots {slots} : memref<{w}, #te.scope<wgt>>
          te.copy %w to %wb
          {nest([*spatial, "d", "fp", "fq"], gemm)}
        }}
        {nest([*spatial], f'te.invoke @{vector} "v" {out} (%vb[%c_i])')}
        {nest([*spatial], f'te.invoke @shr_imm "s" {out} () immediate {shift}')}
        %m = te.alloc [0 : {n}, %c : %c_n, %p : %p_n, 0 : {q}, 0 : {b}, 0 : {o}] slots {slots}
          : memref<{y}32, #te.scope<acc>>
        {nest([*spatial], f'te.invoke @reset "m" {highest} ()')}
        {nest([*spatial], f'te.invoke @add_imm "m" {highest} () immediate -32768')}
        {nest([*spatial, "t"], largest)}
        te.copy %m to %y
      }}
    }}
"""
    return module_text(target, x, w, v, f"{y}8", body)


def assert_runs_alike(text: str, seed: int, span: int = 128) -> None:
    """Fill in the constants of a text, run it both ways, and compare."""
    ctx = context()
    rng = np.random.default_rng(seed)
    for name, low, high in (("w", -span, span), ("v", -5000, 5000)):
        marker = f'%{name} = te.constant #vtac.resource<"{name}", "{name.upper()}"> : tensor<'
        if marker in text:
            *shape, element = text.split(marker)[1].split(">")[0].split("x")
            dtype = np.int8 if element == "i8" else np.int32
            array = rng.integers(low, high, [int(size) for size in shape], dtype)
            attr = ctx.resources.add(array, name)
            text = text.replace(f'"{name}", "{name.upper()}"', f'"{name}", "{attr.digest.data}"')
    module = parse(ctx, text)
    *shape, _ = text.split("@f(%x: tensor<")[1].split(">")[0].split("x")
    x = rng.integers(-128, 128, [int(size) for size in shape], np.int8)
    wanted = evaluate_function(ctx, module, [x])
    got = run_loops(ctx, module, [x])
    for one, other in zip(got, wanted, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("name", TARGETS)
def test_random_kernels(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=8)
    @given(st.integers(0, 1 << 30))
    def check(seed: int) -> None:
        assert_runs_alike(loops_text(random.Random(seed), target), seed)

    check()


def test_micro_op_memory_is_reloaded() -> None:
    small = Target.named("pynq").replace(uop_entries=6)
    for seed in range(8):
        assert_runs_alike(loops_text(random.Random(seed), small), seed)
