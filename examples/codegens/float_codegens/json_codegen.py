"""The codegen ``json``: a function as JSON, whose nodes name kernels, beside its weights.

The first of BYOC's formats (section 3.3): any engine that has the kernels can run it.
`json_engine` is one, in NumPy.
"""

import dataclasses
import json
from typing import ClassVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from float_codegens.json_engine import ENGINE
from float_codegens.nodes import FloatCodegen, node_list
from vtac.dialects.context import VtacContext
from vtac.dialects.payload import Payload

FILE = "graph.json"


class JsonCodegen(FloatCodegen):
    """Takes float convolutions, dense layers, relus and the other ops of `FloatCodegen`."""

    name: ClassVar[str] = "json"
    priority: ClassVar[int] = 10
    engine: ClassVar[object] = ENGINE

    def build(self, function: Operation, ctx: VtacContext) -> Payload:
        """A payload of numbered nodes and values (`NodeList`) with the constants."""
        assert isinstance(function, FuncOp)
        listed = node_list(function, ctx)
        graph = {
            "inputs": listed.inputs,
            "constants": len(listed.constants),
            "nodes": [dataclasses.asdict(node) for node in listed.nodes],
            "outputs": listed.outputs,
        }
        text = json.dumps(graph, indent=1, sort_keys=True)
        return Payload({}, {FILE: text.encode()}, listed.constants)
