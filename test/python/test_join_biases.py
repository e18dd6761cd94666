"""`vta-join-biases`: random programs against NumPy, and networks with the pass and without it."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from vta_runner import context, finish_program, parse, run_binary

from vtac.dialects.target import Memory
from vtac.dialects.vta import BufferKind, LoadOp, ProgramOp, streams_of
from vtac.passes.vta.join_biases import join_biases
from vtac.tools.driver.compiler import compile_model

PLACES = 16
"""Accumulators that a program uses."""

LENGTH = 6
"""Elements of each constant."""

Event = tuple[str, tuple[int, ...]]
"""A kind, and numbers that depend on it."""


@st.composite
def events(draw: st.DrawFn, constants: int) -> list[Event]:
    """Loads of constants, changes and stores of accumulators, in any order."""
    place = st.integers(0, PLACES - 1)
    found: list[Event] = [("reset", ())]
    end = 0
    for _ in range(draw(st.integers(2, 25))):
        kind = draw(st.sampled_from(["load", "load", "load", "add", "shift", "store"]))
        if kind == "load":
            length = draw(st.integers(1, 3))
            start = end if draw(st.booleans()) else draw(place)
            start = min(start, PLACES - length)
            end = start + length
            dram = draw(st.integers(0, LENGTH - length))
            found.append((kind, (draw(st.integers(0, constants - 1)), dram, start, length)))
        elif kind == "add":
            found.append((kind, (draw(place), draw(place))))
        else:
            found += stored(draw(place)) if kind == "store" else [(kind, (draw(place),))]
    return [*found, *(event for each in range(PLACES) for event in stored(each))]


def stored(place: int) -> list[Event]:
    """A store; results are what the ALU has written, so it comes first."""
    return [("shift", (place,)), ("store", (place,))]


def text_of(order: list[Event], constants: list[np.ndarray], target: str) -> str:
    """A program that does these things, the instructions of two layers in turn."""
    stores = sum(kind == "store" for kind, _ in order)
    lines = [
        f'vta.program @p attributes {{vtac.target = #target.vta<"{target}">}} {{',
        f"vta.buffer @y output index 0 bytes {stores * 16} align 256",
    ]
    for number, value in enumerate(constants):
        values = str(value.tolist())
        type = f"tensor<{LENGTH}x16xi32>"
        size = LENGTH * 64
        lines.append(
            f"vta.buffer @c{number} constant bytes {size} align 256 value dense<{values}> : {type}"
        )
    done = 0
    for number, (kind, numbers) in enumerate(order):
        if kind == "reset":
            line = f"vta.gemm reset micro_ops <[0, 0, 0]> loops [1, {PLACES}] dst [0, 1]"
        elif kind == "load":
            name, dram, sram, length = numbers
            line = (
                f"vta.load acc sram {sram} from @c{name} dram {dram} size [1, {length}]"
                f" stride {length}"
            )
        elif kind == "add":
            line = f"vta.alu add micro_ops <[{numbers[0]}, {numbers[1]}, 0]> loops [1, 1]"
        elif kind == "shift":
            line = f"vta.alu shr imm 1 micro_ops <[{numbers[0]}, {numbers[0]}, 0]> loops [1, 1]"
        else:
            line = f"vta.store sram {numbers[0]} to @y dram {done} size [1, 1] stride 1"
            done += 1
        lines.append(f'{line} loc("layer{number % 2}")')
    return "\n".join([*lines, "vta.finish", "}"])


def expected(order: list[Event], constants: list[np.ndarray]) -> np.ndarray:
    """The same in NumPy."""
    acc = np.zeros((PLACES, 16), np.int32)
    stored = []
    for kind, numbers in order:
        if kind == "load":
            name, dram, sram, length = numbers
            acc[sram : sram + length] = constants[name][dram : dram + length]
        elif kind == "add":
            acc[numbers[0]] += acc[numbers[1]]
        elif kind == "shift":
            acc[numbers[0]] >>= 1
        elif kind == "store":
            stored.append(acc[numbers[0]].astype(np.int8))
    return np.array(stored)


def loads_of(program: ProgramOp) -> list[LoadOp]:
    """Its loads of accumulators."""
    loads = [op for op in program.instructions() if isinstance(op, LoadOp)]
    return [op for op in loads if op.memory_id is Memory.ACC]


@settings(max_examples=100)
@given(st.data(), st.sampled_from(["chisel-pynq", "pynq", "sim"]))
def test_random_programs_compute_the_same(data: st.DataObject, target: str) -> None:
    count = data.draw(st.integers(1, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape = (LENGTH, 16)
    constants = [rng.integers(-99, 100, shape).astype(np.int32) for _ in range(count)]
    order = data.draw(events(count))
    ctx = context()
    (program,) = streams_of(parse(ctx, text_of(order, constants, target)))
    assert isinstance(program, ProgramOp)
    count_before = len(loads_of(program))
    join_biases(ctx, program)
    loads = loads_of(program)
    kinds = {name: buffer.kind.data for name, buffer in program.buffers().items()}
    if len(loads) < count_before:
        assert {n for n, kind in kinds.items() if kind is BufferKind.CONSTANT} == {
            op.buffer_name for op in loads
        }
    outputs = run_binary(finish_program(program), {}, ctx.resources)
    found = np.frombuffer(outputs["y"], np.int8).reshape(-1, 16)
    assert np.array_equal(found, expected(order, constants))


@settings(max_examples=40)
@given(st.lists(st.integers(1, 3), min_size=2, max_size=5), st.randoms())
def test_constants_side_by_side_come_by_one_load(lengths: list[int], random) -> None:
    """In whatever order they are loaded, the last of them next to one that is loaded already."""
    starts = [sum(lengths[:number]) for number in range(len(lengths))]
    first = random.randrange(len(lengths))
    below, above = list(reversed(range(first))), list(range(first + 1, len(lengths)))
    order: list[Event] = [("reset", ())]
    for number in [first, *below, *above]:
        order.append(("load", (number % 2, random.randrange(3), starts[number], lengths[number])))
        order.append(("add", (PLACES - 1, starts[number])))
    order.append(("store", (PLACES - 1,)))
    constants = [np.arange(LENGTH * 16, dtype=np.int32).reshape(LENGTH, 16) - 7 * n for n in (0, 1)]
    ctx = context()
    (program,) = streams_of(parse(ctx, text_of(order, constants, "chisel-pynq")))
    assert isinstance(program, ProgramOp)
    join_biases(ctx, program)
    (load,) = loads_of(program)
    assert load.sizes[1] == sum(lengths)
    outputs = run_binary(finish_program(program), {}, ctx.resources)
    found = np.frombuffer(outputs["y"], np.int8).reshape(-1, 16)
    assert np.array_equal(found, expected(order, constants))


def layers(channels: int, pixels: int, count: int) -> onnx.ModelProto:
    """Depthwise convolutions and others 1x1, in turn; random weights and biases."""
    rng = np.random.default_rng(channels + pixels + count)
    tensors, nodes = [], []
    for number in range(count):
        depthwise = number % 2 == 0
        size = (channels, 1, 3, 3) if depthwise else (channels, channels, 1, 1)
        weights = rng.normal(size=size) / np.sqrt(np.prod(size[1:]))
        fields = {"group": channels, "pads": [1] * 4} if depthwise else {}
        tensors.append(numpy_helper.from_array(weights.astype(np.float32), f"w{number}"))
        biases = rng.normal(size=channels).astype(np.float32)
        tensors.append(numpy_helper.from_array(biases, f"b{number}"))
        name = "x" if number == 0 else f"r{number - 1}"
        operands = [name, f"w{number}", f"b{number}"]
        nodes.append(helper.make_node("Conv", operands, [f"c{number}"], **fields))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"]))
    shape = [1, channels, pixels, pixels]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info(f"r{count - 1}", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "layers", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("channels, pixels, count", [(64, 8, 4), (128, 7, 3), (48, 12, 5)])
def test_networks_take_fewer_instructions_and_no_more_cycles(
    channels: int, pixels: int, count: int
) -> None:
    model = layers(channels, pixels, count)
    rng = np.random.default_rng(1)
    samples = rng.normal(size=(4, 1, channels, pixels, pixels)).astype(np.float32)
    joined = compile_model(model, "chisel-pynq", {"x": samples})
    apart = compile_model(
        model, "chisel-pynq", {"x": samples}, pipeline=lambda p: p.without("vta-join-biases")
    )
    (found,), (other,) = (m.run({"x": samples[0]}).values() for m in (joined, apart))
    assert np.array_equal(found, other)
    counts = [m.profile().launches[0].report.total.instructions for m in (joined, apart)]
    assert counts[0] < counts[1]
    assert joined.profile().cycles < apart.profile().cycles
