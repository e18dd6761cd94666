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
from vtac.passes.graph.reasons import Reason, ReasonKind
from vtac.runtime.engine import FunctionEngine, Run, Signature
from vtac.runtime.package.records import from_json, to_json

KNOWN: Mapping[str, Callable[[Array], Array]] = {"Sin": np.sin, "Cos": np.cos}


def why_not(op: Operation) -> str | None:
    """The predicate: None, or the reason that ``--explain`` gives."""
    assert isinstance(op, HostOp)
    name = op.op_type.data
    if name not in KNOWN:
        return Reason(f"{name} is neither a sine nor a cosine", ReasonKind.OPERATOR)
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


@dataclass(frozen=True)
class Step:
    """An op, and the number of its operand."""

    op: str
    operand: int


@dataclass(frozen=True)
class Steps:
    """A function. Values are numbered: the inputs, then the results of the steps in order."""

    steps: tuple[Step, ...]
    outputs: tuple[int, ...]


class TrigonometryEngine(FunctionEngine):
    """The run half."""

    def load(self, payload: Payload, signature: Signature, where: str) -> Run:
        """Check what was read, then interpret it."""
        function = from_json(Steps, dict(payload.metadata), where)
        first = len(signature.inputs)
        known = all(
            step.op in KNOWN and 0 <= step.operand < number
            for number, step in enumerate(function.steps, first)
        )
        count = first + len(function.steps)
        if not known or not all(0 <= number < count for number in function.outputs):
            raise CompileError(Problem(where, "is no list of sines and cosines"))

        def run(inputs: Sequence[Array]) -> list[Array]:
            values = list(inputs)
            for step in function.steps:
                values.append(KNOWN[step.op](values[step.operand]))
            return [values[number] for number in function.outputs]

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
        """The steps, as a package holds them."""
        assert isinstance(function, FuncOp)
        block = function.body.block
        numbers: dict[SSAValue, int] = {argument: i for i, argument in enumerate(block.args)}
        steps = []
        for composite in block.ops:
            if isinstance(composite, ReturnOp):
                outputs = tuple(numbers[value] for value in composite.arguments)
                return Payload(to_json(Steps(tuple(steps), outputs)))
            assert isinstance(composite, CompositeOp)
            inner = composite.body.block.first_op
            assert isinstance(inner, HostOp)
            numbers[composite.outputs[0]] = len(numbers)
            steps.append(Step(inner.op_type.data, numbers[composite.inputs[0]]))
        raise AssertionError("a function ends in a return")
