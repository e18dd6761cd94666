"""Functions that compute a piece of what another function computes, and what they should leave."""

from collections.abc import Sequence
from random import Random

import numpy as np
from graph_reference import run_reference
from integer_groups import Array, IntegerFunction
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from vtac.dialects.graph import ConstantOp
from vtac.dialects.graph.pieces import Rectangle, unit_of, whole
from vtac.dialects.graph.split_rules import demands_of
from vtac.dialects.target import TARGET_ATTRIBUTE
from vtac.passes.graph.cluster.cut import Cutter


def random_rectangle(random: Random, value: SSAValue, dimensions: Sequence[int]) -> Rectangle:
    """A rectangle of a value, cut in some dimensions, that divides no element of its layout."""
    ranges = list(whole(value))
    for dimension in dimensions:
        if dimension < len(ranges):
            extent, unit = ranges[dimension][1], unit_of(value, dimension)
            units = -(-extent // unit)
            first = random.randrange(units)
            last = random.randint(first + 1, units)
            ranges[dimension] = (first * unit, min(last * unit, extent))
    return tuple(ranges)


def entry(module: ModuleOp) -> FuncOp:
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    return function


def piece_function(f: IntegerFunction, module: ModuleOp, rectangle: Rectangle) -> ModuleOp | None:
    """The module whose function computes this rectangle of all results; None: it cannot."""
    old = entry(module)
    block = Block(arg_types=old.body.block.arg_types)
    last = old.body.block.last_op
    assert isinstance(last, ReturnOp)
    ops = [op for op in old.body.block.ops if not isinstance(op, ConstantOp | ReturnOp)]
    demands = demands_of(ops, dict.fromkeys(last.arguments, rectangle))
    if isinstance(demands, Operation):
        return None
    cutter = Cutter(f.ctx, block)
    for before, after in zip(old.body.block.args, block.args, strict=True):
        cutter.values[before] = after, whole(before)
    for op in ops:
        if op in demands.pieces:
            cutter.add(op, demands.pieces[op])
    results = [cutter.read(value, rectangle) for value in last.arguments]
    block.add_op(ReturnOp(*results))
    types = block.arg_types, [value.type for value in results]
    function = FuncOp("vta_0", types, Region(block), "private")
    function.attributes["codegen"] = StringAttr("vta")
    made = ModuleOp([function], {TARGET_ATTRIBUTE: f.target})
    made.verify()
    return made


def reference(f: IntegerFunction, module: ModuleOp) -> list[Array]:
    """The results of a module's function on the inputs of ``f``, by the reference in NumPy."""
    inputs = {f"input_{i}": f.values[value] for i, value in enumerate(f.inputs)}
    return list(run_reference(entry(module), inputs, f.ctx.resources).values())


def check_piece(f: IntegerFunction, made: ModuleOp, rectangle: Rectangle) -> None:
    """The reference of the piece equals the rectangle of what the whole function computes."""
    taken = tuple(slice(start, end) for start, end in rectangle)
    for found, value in zip(reference(f, made), f.results, strict=True):
        np.testing.assert_array_equal(found, f.values[value][taken])
