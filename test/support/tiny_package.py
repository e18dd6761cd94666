"""A package made by hand: a host part, one program that negates 16 int8 values, a host part."""

import dataclasses

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.attributes import BufferKind
from vtac.dialects.vta.encoding import Finish, Gemm, Load, Store, encode, encode_micro_ops
from vtac.dialects.vta.program import BinaryProgram, Buffer, Names
from vtac.runtime.host import detach_blobs
from vtac.runtime.package import (
    HOST,
    LAUNCH,
    Output,
    Package,
    Packing,
    Placement,
    Quantisation,
    Step,
    Value,
    lifetimes,
)
from vtac.runtime.vta_program import to_function

LANES = 16


def negation(target: Target) -> BinaryProgram:
    """The program: y = low byte of -x, through a diagonal weight block."""
    block = np.zeros((LANES, LANES), np.int8)
    np.fill_diagonal(block, -1)
    weights = block.tobytes()
    micro_ops = encode_micro_ops(target, 0, 0, 0).astype("<u4").tobytes()
    one = {"sram_base": 0, "dram_base": 0, "y_size": 1, "x_size": 1, "x_stride": 1}
    loop = {"uop_bgn": 0, "uop_end": 1, "iter_out": 1, "iter_in": 1}
    instructions = encode(
        target,
        [
            Load(memory=Memory.UOP, **one),
            Load(memory=Memory.INP, **one),
            Load(memory=Memory.WGT, push_next=True, **one),
            Gemm(reset=True, **loop),
            Gemm(pop_prev=True, push_next=True, **loop),
            Store(memory=Memory.OUT, pop_prev=True, push_prev=True, **one),
            Finish(pop_next=True),
        ],
    )
    shape = (1, 1, LANES, LANES)
    buffers = (
        Buffer("uops", BufferKind.MICRO_OPS, len(micro_ops), 256, data=micro_ops),
        Buffer("x", BufferKind.INPUT, LANES, 256, 0),
        Buffer("w", BufferKind.CONSTANT, len(weights), 256, data=weights, shape=shape),
        Buffer("y", BufferKind.OUTPUT, LANES, 256, 0),
    )
    relocations = ((0, "uops"), (1, "x"), (2, "w"), (5, "y"))
    layers = ("negation",) * len(instructions)
    return BinaryProgram(
        "vta_0", target, instructions, relocations, buffers, Names(("u0",), layers)
    )


def host_models() -> tuple[bytes, bytes, dict[str, bytes]]:
    """``pack``: float [1, 16] to int8 [1, 1, 1, 16]; ``unpack``: back, plus a large constant."""
    shape = numpy_helper.from_array(np.array([1, 1, 1, LANES], np.int64), "shape")
    before = helper.make_graph(
        [
            helper.make_node("Cast", ["image"], ["c"], to=TensorProto.INT8),
            helper.make_node("Reshape", ["c", "shape"], ["packed"]),
        ],
        "pack",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, LANES])],
        [helper.make_tensor_value_info("packed", TensorProto.INT8, [1, 1, 1, LANES])],
        [shape],
    )
    large = numpy_helper.from_array(np.full((100, LANES), 0.5, np.float32), "large")
    flat = numpy_helper.from_array(np.array([1, LANES], np.int64), "flat")
    after = helper.make_graph(
        [
            helper.make_node("Reshape", ["packed_y", "flat"], ["r"]),
            helper.make_node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["f", "large"], ["result"]),
        ],
        "unpack",
        [helper.make_tensor_value_info("packed_y", TensorProto.INT8, [1, 1, 1, LANES])],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, [100, LANES])],
        [large, flat],
    )
    blobs: dict[str, bytes] = {}
    models = []
    for graph in (before, after):
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        blobs |= detach_blobs(model)
        models.append(model.SerializeToString(deterministic=True))
    return models[0], models[1], blobs


def tiny_package() -> Package:
    """``result = 0.5 - image``, the negation on the accelerator."""
    target = Target.named("pynq")
    function, blobs = to_function(negation(target), {})
    pack, unpack, more = host_models()
    steps = (
        Step(HOST, "host_0", ("image",), ("x",)),
        Step(LAUNCH, "vta_0", ("x",), ("y",)),
        Step(HOST, "host_1", ("y",), ("result",)),
    )
    spans = lifetimes(["image"], ["result"], steps)
    layout = Packing(1, LANES)
    values = [
        Value("image", "tensor(float)", (1, LANES)),
        Value("x", "tensor(int8)", (1, LANES), layout),
        Value("y", "tensor(int8)", (1, LANES), layout),
        Value("result", "tensor(float)", (100, LANES)),
    ]
    return Package(
        target,
        ("image",),
        (Output("result", "result"),),
        tuple(
            dataclasses.replace(v, first=spans[v.name][0], last=spans[v.name][1]) for v in values
        ),
        steps,
        {"host_0": pack, "host_1": unpack},
        {"vta_0": function},
        blobs | more,
        (Quantisation("image", "quantize", (1.0,), 0),),
        (Placement("neg", "graph.conv", "vta_0"), Placement("add", "graph.add", "host", "float")),
        {"vta": "builtin.module {\n}\n"},
    )
