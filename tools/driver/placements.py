"""Where each node of the network runs, and the quantisation of those on the accelerator.

Nodes are those of the imported network; ops carry the names of their nodes as locations. A node
that became part of another op (a relu in the bounds of a requantisation, a batch norm in weights)
is looked for among its neighbours.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import DYNAMIC_INDEX, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from vtac.dialects.context import VtacContext, constant_value
from vtac.dialects.graph import (
    CompositeOp,
    ConstantOp,
    DequantizeOp,
    MacCount,
    MovesElements,
    OpaqueType,
    QuantizeOp,
    RequantizeOp,
    macs_of,
)
from vtac.dialects.locations import layer_of
from vtac.passes.graph.annotate import needs_reason
from vtac.passes.graph.codegen import CODEGEN
from vtac.passes.graph.reasons import (
    NOTE,
    HostReason,
    ReasonKind,
    host_reason,
    onnx_operator,
)
from vtac.runtime.package import Placement, Quantisation
from vtac.tools.driver.planner import main_function

HOST = "host"
FUSED = "part of {}"
VANISHED = "computed at compile time"
FREE = "nothing is left to compute: only the scale of its input changes"
PARTLY = "in part; another part stays on the host: {}"
UNKNOWN = "no reason was recorded"


@dataclass
class Nodes:
    """The nodes of an imported network in order: the kind of each, and its neighbours.

    macs: the multiply-accumulates of each. results: the types of the results of each, as text.
    variable: the nodes whose results depend on an input of the network.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    macs: dict[str, MacCount] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    makers: dict[str, list[str]] = field(default_factory=dict)
    users: dict[str, list[str]] = field(default_factory=dict)
    variable: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, module: ModuleOp) -> "Nodes":
        """The nodes of ``@main``, with the nodes before and behind each."""
        nodes = cls()
        expanded = module.attributes.get("graph.expanded", DictionaryAttr({}))
        assert isinstance(expanded, DictionaryAttr), "the importer writes no other"
        operators = {k: v.data for k, v in expanded.data.items() if isinstance(v, StringAttr)}
        for op in main_function(module).body.block.ops:
            layer = layer_of(op)
            if isinstance(op, ConstantOp | ReturnOp) or not layer:
                continue
            nodes.kinds.setdefault(layer, operators.get(layer) or _kind(op))
            nodes.macs[layer] = nodes.macs.get(layer, MacCount()) + macs_of(op)
            nodes.results[layer] = ", ".join(map(type_text, op.results))
            makers = [v.owner for v in op.operands if isinstance(v.owner, Operation)]
            users = [use.operation for result in op.results for use in result.uses]
            nodes.makers.setdefault(layer, []).extend(filter(None, map(layer_of, makers)))
            nodes.users.setdefault(layer, []).extend(filter(None, map(layer_of, users)))
            is_variable = any(isinstance(v, BlockArgument) for v in op.operands)
            if is_variable or not nodes.variable.isdisjoint(nodes.makers[layer]):
                nodes.variable.add(layer)
        return nodes

    def before(self, layer: str) -> tuple[str, ...]:
        """The other nodes whose results a node reads, each once."""
        makers = dict.fromkeys(self.makers[layer])
        return tuple(m for m in makers if m in self.kinds and m != layer)


def _kind(op: Operation) -> str:
    return onnx_operator(op) or op.name


def type_text(value: SSAValue) -> str:
    """The type of a value as users write it, such as ``i8[1, ?, 4]``."""
    if isinstance(value.type, TensorType):
        shape = ("?" if e == DYNAMIC_INDEX else str(e) for e in value.type.get_shape())
        return f"{value.type.get_element_type()}[{', '.join(shape)}]"
    return value.type.onnx_type.data if isinstance(value.type, OpaqueType) else str(value.type)


def place_nodes(nodes: Nodes, module: ModuleOp) -> tuple[Placement, ...]:
    """Where the nodes are in a partitioned module."""
    accelerated, hosted, computed, notes = _found(module)
    places = {**dict.fromkeys(hosted, HOST), **accelerated}
    near_to = nearest(nodes, set(places))
    placements = []
    for layer, kind in nodes.kinds.items():
        way_out = ""
        if layer in accelerated:
            where = accelerated[layer]
            reason = notes.get(
                layer, PARTLY.format(computed[layer].text) if layer in computed else ""
            )
        elif layer in hosted:
            found = hosted[layer]
            where, reason, way_out = HOST, found.text, found.hint
        else:
            near = near_to.get(layer, "")
            gone = FREE if layer in nodes.variable else VANISHED
            where, reason = places.get(near, HOST), FUSED.format(near) if near else gone
        macs = nodes.macs[layer]
        placement = Placement(layer, kind, where, reason, macs.least, macs.is_exact)
        before, result = nodes.before(layer), nodes.results[layer]
        placements.append(replace(placement, after=before, result=result, way_out=way_out))
    return tuple(placements)


def whole_of(placement: Placement) -> str:
    """The node that a node became part of; the node itself if it is no part of another."""
    before, _, after = FUSED.partition("{}")
    reason = placement.reason
    if reason.startswith(before) and reason.endswith(after):
        return reason.removeprefix(before).removesuffix(after)
    return placement.node


def _found(
    module: ModuleOp,
) -> tuple[dict[str, str], dict[str, HostReason], dict[str, HostReason], dict[str, str]]:
    """What the module says of its layers, each by layer.

    These are the function of accelerated layers; the reason of layers on the host, that of an op
    that computes before that of one that merely moves elements; the reason of those that compute
    there; and notes.
    """
    accelerated: dict[str, str] = {}
    notes: dict[str, str] = {}
    hosted: dict[str, HostReason] = {}
    computed: dict[str, HostReason] = {}
    for function in module.ops:
        if not isinstance(function, FuncOp):
            continue
        for op in _network_ops(function):
            if CODEGEN in function.attributes:
                accelerated.setdefault(layer_of(op), function.sym_name.data)
                if isinstance(note := op.attributes.get(NOTE), StringAttr):
                    notes[layer_of(op)] = note.data
            elif needs_reason(type(op)):
                known = host_reason(op) or HostReason(UNKNOWN, ReasonKind.OTHER)
                hosted[layer_of(op)] = known
                if not op.has_trait(MovesElements):
                    computed[layer_of(op)] = known
    return accelerated, {**hosted, **computed}, computed, notes


def _network_ops(function: FuncOp) -> Iterator[Operation]:
    for op in function.body.walk():
        if not isinstance(op, ConstantOp | CompositeOp | ReturnOp) and layer_of(op):
            yield op


def nearest(nodes: Nodes, found: set[str]) -> dict[str, str]:
    """The nodes that other nodes became part of, for nodes without ops of their own.

    A node is taken for part of a node before it, as a relu is, even through other such nodes; if
    there is none before it, of a node behind it, as a reshape of weights is.
    """
    where = {layer: layer for layer in found}
    before = [(layer, nodes.makers[layer]) for layer in nodes.kinds]
    behind = [(layer, nodes.users[layer]) for layer in reversed(nodes.kinds)]
    for layer, neighbours in before + behind:  # each after those it may have become part of
        near = next((where[n] for n in neighbours if n in where), None)
        if layer not in where and near is not None:
            where[layer] = near
    return where


def quantisation_of(module: ModuleOp, ctx: VtacContext) -> tuple[Quantisation, ...]:
    """The parameters of each op that converts between reals and integers, in order."""
    found = []
    for op in module.walk():
        match op:
            case QuantizeOp():
                scales: tuple[float, ...] = (float(op.scale.value.data),)
                shifts: tuple[int, ...] = ()
            case DequantizeOp():
                scales, shifts = tuple(map(float, op.scales.get_values())), ()
            case RequantizeOp():
                scales = (float(op.scale.value.data),)
                owner = op.shift.owner
                shifts = ()
                if isinstance(owner, ConstantOp):
                    values = constant_value(ctx, owner.value, owner.result.type)
                    shifts = tuple(int(value) for value in values)
            case _:
                continue
        kind = op.name.removeprefix("graph.")
        found.append(Quantisation(layer_of(op), kind, scales, op.zero_point.value.data, shifts))
    return tuple(found)
