"""A codegen of one's own: sines and cosines, which otherwise stay on the host.

Complete: what it takes, a pass for its functions, what it makes of them, and what runs that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

import vtac
from vtac.dialects.context import Array, VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import CompositeOp, HostOp
from vtac.dialects.payload import Payload
from vtac.dialects.target import Target
from vtac.passes.graph.patterns import Predicate
from vtac.passes.graph.reasons import Kind, Reason
from vtac.runtime.engine import FunctionEngine, Run, Signature

KNOWN: Mapping[str, Callable[[Array], Array]] = {"Sin": np.sin, "Cos": np.cos}


def why_not(op: Operation) -> str | None:
    """The predicate: None, or the reason that ``--explain`` gives."""
    assert isinstance(op, HostOp)
    name = op.op_type.data
    if name not in KNOWN:
        return Reason(f"{name} is neither a sine nor a cosine", Kind.OPERATOR)
    return None


@dataclass(frozen=True)
class DropUnusedPass(ModulePass):
    """A pass of the codegen: what no result needs is not computed."""

    name = "drop-unused"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Take the module of one function."""
        for composite in reversed([inner for inner in op.walk() if isinstance(inner, CompositeOp)]):
            if not any(result.uses for result in composite.results):
                composite.detach()
                composite.erase()


class TrigonometryEngine(FunctionEngine):
    """The run half: a function is a list of (op, number of its operand)."""

    def load(self, payload: Payload, signature: Signature, where: str) -> Run:
        """Check what was read, then interpret it."""
        steps, outputs = payload.metadata.get("steps"), payload.metadata.get("outputs")
        if not isinstance(steps, list) or not {op for op, _ in steps} <= set(KNOWN):
            raise CompileError(Problem(where, "is no list of sines and cosines"))

        def run(inputs: Sequence[Array]) -> list[Array]:
            values = list(inputs)
            for op, operand in steps:
                values.append(KNOWN[op](values[operand]))
            return [values[number] for number in outputs or ()]

        return run


class TrigonometryCodegen(vtac.Codegen):
    """The compile half."""

    name = "trig"
    engine = TrigonometryEngine()

    def predicates(self, target: Target | None) -> Mapping[type[Operation], Predicate]:
        """Single ops; groups of ops would be `patterns`."""
        return {HostOp: why_not}

    def passes(self) -> Sequence[ModulePass]:
        """Run on the functions of this codegen alone."""
        return [DropUnusedPass()]

    def build(self, function: Operation, ctx: VtacContext) -> Payload:
        """Values are numbered: the arguments, then the results in order."""
        assert isinstance(function, FuncOp)
        block = function.body.block
        numbers: dict[SSAValue, int] = {argument: i for i, argument in enumerate(block.args)}
        steps = []
        for composite in block.ops:
            if isinstance(composite, ReturnOp):
                outputs = [numbers[value] for value in composite.arguments]
                return Payload({"steps": steps, "outputs": outputs})
            assert isinstance(composite, CompositeOp)
            inner = composite.body.block.first_op
            assert isinstance(inner, HostOp)
            numbers[composite.outputs[0]] = len(numbers)
            steps.append([inner.op_type.data, numbers[composite.inputs[0]]])
        raise AssertionError("a function ends in a return")
