"""Converters of graph ops that say which ONNX operator they are (`OnnxOperator`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx.defs
from xdsl.dialects.builtin import FloatAttr, StringAttr, f64
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation

from vtac.dialects.graph import ACTIVATIONS, ActivationOp, Graph, OnnxOperator
from vtac.lowering.onnx_to_graph.node import Node


@dataclass(frozen=True)
class NamedOperator:
    """Makes an op of ``kind`` from a node: floats in order, and float attributes.

    more: properties that every such op has.
    """

    kind: type[IRDLOperation]
    trait: OnnxOperator
    more: Mapping[str, Attribute] = field(default_factory=dict)

    def __call__(self, node: Node) -> Operation:
        """Convert a node; attributes that ONNX lets it leave out get their defaults."""
        count = len(self.kind.get_irdl_definition().operands)
        node.floats(*range(count))
        operands = [node.operand(index) for index in range(count)]
        known = onnx.defs.get_schema(self.trait.operator).attributes
        properties = dict(self.more)
        for name in self.trait.attributes:
            # The schema has 0.01 as a float32; it means the decimal number.
            default = float(str(np.float32(known[name].default_value.f)))
            properties[name] = FloatAttr(node.attributes.get(name, default), f64)
        return self.kind.create(
            operands=operands, result_types=[node.result_type()], properties=properties
        )


def named_operators() -> dict[str, NamedOperator]:
    """A converter for each such op, by the operator's name."""
    found = {}
    for kind in Graph.operations:
        trait = kind.get_trait(OnnxOperator)
        if trait is not None:
            assert issubclass(kind, IRDLOperation)
            found[trait.operator] = NamedOperator(kind, trait)
    for name, activation in ACTIVATIONS.items():
        operator = OnnxOperator(name, tuple(activation.attributes))
        found[name] = NamedOperator(ActivationOp, operator, {"operator": StringAttr(name)})
    return found
