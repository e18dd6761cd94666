"""`vta-join-compute`: random programs against NumPy, and networks with the pass and without it."""

import re
from collections.abc import Iterable, Iterator

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from vta_runner import context, finish_program, parse, run_binary

from vtac.dialects.vta import ComputeOp, StoreOp, StreamOp, streams_of
from vtac.dialects.vta.encoding import Opcode
from vtac.passes.vta.accesses import Space
from vtac.passes.vta.join_compute import join_compute
from vtac.passes.vta.join_loads import join_loads
from vtac.passes.vta.list_schedule import run
from vtac.passes.vta.order_instructions import order_instructions, work_of_program
from vtac.passes.vta.precedence import Span
from vtac.passes.vta.program_precedence import precedence_of
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.levels import Criteria

CHUNK = 8
"""Elements of INP that a load brings."""

Event = tuple[str, int, tuple[int, ...]]
"""A kind, a tile of accumulators, and numbers that depend on the kind."""


def events(draw, tiles: int, chunks: int, size: int) -> Iterator[Event]:
    """What happens to each tile, in an order in which tiles take turns at random.

    A tile is cleared, takes products of some chunks, goes through the same operations as the
    others but for its shift, and is stored.
    """
    operations = draw(st.lists(st.sampled_from(["max", "min", "add", "shr"]), min_size=1))
    immediates = [draw(st.integers(0, 9)) for _ in operations]
    left = []
    for tile in range(tiles):
        own: list[Event] = [("reset", tile, ())]
        for _ in range(draw(st.integers(1, 3))):
            first = draw(st.integers(0, CHUNK - size))
            own.append(("gemm", tile, (draw(st.integers(0, chunks - 1)), first, draw(WEIGHTS))))
        for operation, immediate in zip(operations, immediates, strict=True):
            changed = immediate + (operation == "shr" and draw(st.booleans()))
            own.append((operation, tile, (changed,)))
        own.append(("store", tile, ()))
        left.append(own)
    while any(left):
        number = draw(st.sampled_from([n for n, own in enumerate(left) if own]))
        yield left[number].pop(0)


WEIGHTS = st.integers(0, 3)


def text_of(order: list[Event], size: int, tiles: int, chunks: int, target: str) -> str:
    """A program that does these things; chunks are loaded before their first use."""
    lines = [
        f'vta.program @p attributes {{vtac.target = #target.vta<"{target}">}} {{',
        f"vta.buffer @x input index 0 bytes {chunks * CHUNK * 16} align 256",
        "vta.buffer @w input index 1 bytes 1024 align 256",
        f"vta.buffer @y output index 0 bytes {tiles * size * 16} align 256",
        "vta.load wgt sram 0 from @w dram 0 size [1, 4] stride 4",
    ]
    loaded = set[int]()
    loops = f"loops [1, {size}] dst [0, 1]"
    for kind, tile, numbers in order:
        base = tile * size
        if kind == "reset":
            lines.append(f"vta.gemm reset micro_ops <[{base}, 0, 0]> {loops}")
        elif kind == "store":
            lines.append(f"vta.store sram {base} to @y dram {base} size [1, {size}] stride {size}")
        elif kind == "gemm":
            chunk, first, weights = numbers
            if chunk not in loaded:
                loaded.add(chunk)
                at = chunk * CHUNK
                lines.append(
                    f"vta.load inp sram {at} from @x dram {at} size [1, {CHUNK}] stride {CHUNK}"
                )
            source = chunk * CHUNK + first
            lines.append(f"vta.gemm micro_ops <[{base}, {source}, {weights}]> {loops} src [0, 1]")
        else:
            micro_ops = f"micro_ops <[{base}, {base}, 0]>"
            lines.append(f"vta.alu {kind} imm {numbers[0]} {micro_ops} {loops} src [0, 1]")
    return "\n".join([*lines, "vta.finish", "}"])


def expected(order: list[Event], size: int, tiles: int, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The same in NumPy."""
    acc = np.zeros((tiles * size, 16), np.int32)
    y = np.zeros((tiles * size, 16), np.int8)
    for kind, tile, numbers in order:
        rows = slice(tile * size, (tile + 1) * size)
        if kind == "reset":
            acc[rows] = 0
        elif kind == "store":
            y[rows] = acc[rows].astype(np.int8)
        elif kind == "gemm":
            chunk, first, weights = numbers
            source = x[chunk * CHUNK + first :][:size].astype(np.int32)
            acc[rows] += source @ w[weights].astype(np.int32).T
        elif kind == "shr":
            acc[rows] >>= numbers[0]
        else:
            change = {"max": np.maximum, "min": np.minimum, "add": np.add}[kind]
            acc[rows] = change(acc[rows], numbers[0])
    return y


@settings(max_examples=60)
@given(st.data(), st.sampled_from(["chisel-pynq", "pynq", "sim"]))
def test_random_programs_compute_the_same(data: st.DataObject, target: str) -> None:
    tiles, chunks = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 3))
    size = data.draw(st.integers(2, CHUNK))
    order = list(events(data.draw, tiles, chunks, size))
    ctx = context()
    module = parse(ctx, text_of(order, size, tiles, chunks, target))
    (program,) = streams_of(module)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.integers(-128, 128, (chunks * CHUNK, 16)).astype(np.int8)
    w = rng.integers(-128, 128, (4, 16, 16)).astype(np.int8)
    outputs = run_binary(finish_program(program), {"x": x, "w": w})
    found = np.frombuffer(outputs["y"], np.int8).reshape(-1, 16)
    assert np.array_equal(found, expected(order, size, tiles, x, w))


@settings(max_examples=30)
@given(st.data())
def test_tiles_of_equal_work_become_one(data: st.DataObject) -> None:
    """Products of several tiles take one instruction, since nothing waits for those of the first.

    How many operations behind them are joined is limited by the stores, which come last.
    """
    tiles, size = data.draw(st.integers(2, 6)), data.draw(st.integers(2, CHUNK))
    kinds = ["max", "shr", "min"][: data.draw(st.integers(1, 3))]
    steps: list[tuple[str, tuple[int, ...]]] = [("reset", ()), ("gemm", (0, 0, 0))]
    steps += [(kind, (3,)) for kind in kinds]
    order = [(kind, tile, numbers) for kind, numbers in steps for tile in range(tiles)]
    order += [("store", tile, ()) for tile in range(tiles)]
    module = parse(context(), text_of(order, size, tiles, 1, "chisel-pynq"))
    (program,) = streams_of(module)
    join_compute(program)
    computes = [op for op in program.instructions() if isinstance(op, ComputeOp) and op.micro_ops]
    assert [op.name for op in computes].count("vta.gemm") == 2
    assert sum(op.micro_ops.count for op in computes if op.micro_ops) == len(steps) * tiles


@settings(max_examples=60)
@given(st.data())
def test_no_signal_comes_later(data: st.DataObject) -> None:
    """By the model; other units wait for the signals behind some stores."""
    tiles, size = data.draw(st.integers(2, 6)), data.draw(st.integers(2, CHUNK))
    order = list(events(data.draw, tiles, 1, size))
    lines = []
    for line in text_of(order, size, tiles, 1, "chisel-pynq").splitlines():
        lines.append(line)
        if "output" in line:
            lines.append("vta.buffer @s semaphore bytes 576 align 64")
        elif "vta.store" in line and data.draw(st.booleans()):
            lines.append("vta.store sram 0 to @s dram 0 size [1, 1] stride 4")
    (program,) = streams_of(parse(context(), "\n".join(lines)))
    before = starts_of_signals(program)
    join_compute(program)
    after = starts_of_signals(program)
    assert len(before) == len(after)
    assert all(mine <= other for mine, other in zip(after, before, strict=True))


def starts_of_signals(program: StreamOp) -> list[int]:
    """The cycle in which each signal starts, by the model."""
    *moved, _ = program.instructions()
    work, before = work_of_program(program.target, moved), precedence_of(program, moved).before
    starts = run(program.target, work, before, keep_order=True).starts
    return [
        start
        for op, start in zip(moved, starts, strict=True)
        if isinstance(op, StoreOp) and op.buffer_name == "s"
    ]


@settings(max_examples=40)
@given(st.data(), st.sampled_from(["chisel-pynq", "pynq", "sim"]))
def test_what_passes_keep_of_a_program_is_what_is_found_anew(
    data: st.DataObject, target: str
) -> None:
    tiles, chunks = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 3))
    order = list(events(data.draw, tiles, chunks, CHUNK))
    text = text_of(order, CHUNK, tiles, chunks, target)
    module = parse(context(), halved(text))
    (program,) = streams_of(module)
    for one in (order_instructions, join_loads, join_compute):
        one(program)
        (again,) = streams_of(module.clone())
        kept, found = (precedence_of(each, each.instructions()[:-1]) for each in (program, again))
        assert kept.before == found.before
        assert list(map(elements, kept.spans)) == list(map(elements, found.spans))
    loads = [op for op in program.instructions() if op.OPCODE is Opcode.LOAD]
    assert len(loads) == text.count("vta.load")


def elements(spans: Iterable[Span]) -> set[tuple[Space, int, bool]]:
    """The elements that spans consist of."""
    return {(s.space, at, s.writes) for s in spans for at in range(s.start, s.end)}


def halved(text: str) -> str:
    """The program with each load of a chunk as two."""
    half = CHUNK // 2

    def two(match: re.Match[str]) -> str:
        sram, dram = map(int, match.groups())
        return "\n".join(
            f"vta.load inp sram {sram + at} from @x dram {dram + at} size [1, {half}] stride {half}"
            for at in (0, half)
        )

    return re.sub(r"vta.load inp sram (\d+) from @x dram (\d+) .*", two, text)


def depthwise(channels: int, pixels: int, stride: int) -> onnx.ModelProto:
    """A convolution, a depthwise one with padding, and another convolution; random weights."""
    rng = np.random.default_rng(channels + pixels + stride)
    shapes = (channels, 16, 1, 1), (channels, 1, 3, 3), (16, channels, 1, 1)
    weights = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    tensors = [numpy_helper.from_array(w, name) for w, name in zip(weights, "abc", strict=True)]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["f"]),
        helper.make_node("Relu", ["f"], ["g"]),
        helper.make_node(
            "Conv", ["g", "b"], ["h"], group=channels, pads=[1] * 4, strides=[stride] * 2
        ),
        helper.make_node("Relu", ["h"], ["i"]),
        helper.make_node("Conv", ["i", "c"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, pixels, pixels])
    last = -(-pixels // stride)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, last, last])
    graph = helper.make_graph(nodes, "depthwise", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("channels, pixels, stride", [(64, 8, 1), (128, 7, 1), (48, 14, 2)])
def test_networks_take_fewer_instructions_and_no_more_cycles(
    channels: int, pixels: int, stride: int
) -> None:
    model = depthwise(channels, pixels, stride)
    samples = np.random.default_rng(1).normal(size=(4, 1, 16, pixels, pixels)).astype(np.float32)
    joined = compile_model(model, "chisel-pynq", {"x": samples})
    apart = compile_model(
        model, "chisel-pynq", {"x": samples}, pipeline=lambda p: p.without("vta-join-compute")
    )
    found, other = (m.run({"x": samples[0]})["y"] for m in (joined, apart))
    assert np.array_equal(found, other)
    counts = [m.profile().launches[0].report.total.instructions for m in (joined, apart)]
    assert counts[0] < counts[1]
    assert joined.profile().cycles <= apart.profile().cycles


@pytest.mark.parametrize("machine", ["cluster-2", "cluster-4"])
@pytest.mark.parametrize("channels, pixels, stride", [(64, 8, 1), (128, 7, 1), (48, 14, 2)])
def test_cores_that_wait_for_each_other_join(
    channels: int, pixels: int, stride: int, machine: str
) -> None:
    """Each compilation looks for faults, deadlocks among them, before it returns."""
    model = depthwise(channels, pixels, stride)
    samples = np.random.default_rng(1).normal(size=(4, 1, 16, pixels, pixels)).astype(np.float32)
    joined, apart = (
        compile_model(
            model,
            machine,
            {"x": samples},
            criteria=Criteria(compare=False),
            trials=False,
            pipeline=lambda p, s=several: p.with_options("vta-join-compute", several=s),
        )
        for several in (True, False)
    )
    assert sum(joined.report.instructions.values()) < sum(apart.report.instructions.values())
    for order in (None, 1, 2):
        for x in samples[:2]:
            found, other = (m.run({"x": x}, order_seed=order)["y"] for m in (joined, apart))
            assert np.array_equal(found, other)
