"""All problems of a model's graph at once; onnx.checker stops at the first."""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import prod
from typing import TYPE_CHECKING

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from vtac.dialects.errors import Problem
from vtac.lowering.onnx_to_graph.attributes import subgraphs
from vtac.lowering.onnx_to_graph.weights import without_weights

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

OLDEST_OPSET = 7
"""The first opset of today's broadcasting rules, and the oldest that onnxruntime promises."""

NEWEST_OPSET = 2**31 - 1
"""The newest opset, given in place of a number that onnx does not know."""

HOST_DOMAINS = frozenset(
    {"", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft"}
)
"""Domains whose operators the host engine runs."""

_NO_SYMBOLS = frozenset({"none", "unknown", "unk", "undefined", "any", "dynamic", "nan"})
"""Names of dimensions that say only that the extent is not known."""

LARGE = 1024
"""Constants above this many elements take no part in checks and shape inference."""


def describe(node: NodeProto) -> str:
    """A description of a node for messages: its name or its first output, and its operator."""
    name = node.name or next((f"-> {o}" for o in node.output if o), "")
    return f"node '{name}' ({node.op_type})"


def plain_domain(domain: str) -> str:
    """The domain with the alias of the default one resolved."""
    return "" if domain == "ai.onnx" else domain


def opsets_of(model: ModelProto) -> dict[str, int]:
    """The version of the opset of each domain.

    Where a model imports some opset, but none of the default domain or of a host's domain that its
    operators have, it means the newest one, as it does for onnxruntime.
    """
    given = {plain_domain(o.domain): o.version for o in model.opset_import}
    if not given:
        return given
    return {**{d: _newest_opset(d) for d in _domains_of(model.graph) & HOST_DOMAINS}, **given}


def _domains_of(graph: GraphProto) -> set[str]:
    """The domains of a graph's operators, those in subgraphs included, and the default one."""
    found, left = {""}, [graph]
    while left:
        for node in left.pop().node:
            found.add(plain_domain(node.domain))
            left += subgraphs(node.attribute)
    return found


def _newest_opset(domain: str) -> int:
    """The newest opset of a domain of `HOST_DOMAINS` that onnx knows."""
    known = {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": onnx.defs.onnx_ml_opset_version()}
    return known.get(domain, 1)


def is_symbol(name: str) -> bool:
    """Whether the name of a dimension stands for one extent wherever it is used.

    Exporters write ``?``, ``None``, ``-1`` and the like for every extent that they do not know; two
    such extents may differ.
    """
    return bool(re.search(r"[A-Za-z]", name)) and name.lower() not in _NO_SYMBOLS


def skeleton(model: ModelProto) -> ModelProto:
    """The model with its large constants as mere inputs: small to copy and to infer.

    Dimensions of which nothing is known have no name in it (`is_symbol`). Outputs that are inputs
    or weights are left out: they have types already.
    """
    # Version 3 required initialisers to be inputs; onnx then ignores those that are not.
    small = ModelProto(ir_version=4 if model.ir_version == 3 else model.ir_version)
    small.opset_import.extend(model.opset_import)
    declared = {plain_domain(o.domain) for o in model.opset_import}
    small.opset_import.extend(
        helper.make_opsetid(domain, version)
        for domain, version in opsets_of(model).items()
        if domain not in declared
    )
    small.functions.extend(model.functions)
    graph = small.graph
    graph.name = model.graph.name or "graph"
    for field in ("input", "value_info", "sparse_initializer"):
        getattr(graph, field).extend(getattr(model.graph, field))
    large = large_constants(model.graph)
    graph.node.extend(n for n in model.graph.node if not large.keys() & set(n.output))
    given = {*_given_names(model.graph), *large}
    graph.output.extend(o for o in model.graph.output if o.name not in given)
    inputs = {i.name for i in graph.input}
    for tensor in model.graph.initializer:
        if prod(tensor.dims) <= LARGE:
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            large[tensor.name] = tensor
    graph.input.extend(
        helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
        for name, tensor in large.items()
    )
    for value in [*graph.input, *graph.output, *graph.value_info]:
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_value < 0:  # as some exporters write unknown extents; onnx would abort
                dim.ClearField("dim_value")
            if dim.dim_param and not is_symbol(dim.dim_param):
                dim.ClearField("dim_param")
    return small


def large_constants(graph: GraphProto, largest: int = LARGE) -> dict[str, TensorProto]:
    """The values of Constant nodes of more than ``largest`` elements, by the names of these."""
    return {
        node.output[0]: attribute.t
        for node in graph.node
        if node.op_type == "Constant" and len(node.attribute) == len(node.output) == 1
        for attribute in node.attribute
        if attribute.name == "value" and prod(attribute.t.dims) > largest
    }


def graph_problems(model: ModelProto) -> list[Problem]:
    """Unknown operators, undefined and doubly defined values, cycles."""
    checker = _GraphChecker(opsets_of(model), {(f.domain, f.name) for f in model.functions})
    checker.check(model.graph, {})
    return checker.problems


def schema_problems(model: ModelProto) -> list[Problem]:
    """The first thing that onnx's own checker finds: attributes, numbers of inputs, types."""
    small = skeleton(model)
    # The checker insists on types of outputs and on ranks; onnxruntime and we do not.
    del small.graph.output[:]
    small.graph.output.extend(o for o in model.graph.output if o.type.WhichOneof("value"))
    for value in [*small.graph.input, *small.graph.output]:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(small)
    except onnx.checker.ValidationError as error:
        return [Problem("model", " ".join(str(error).split()))]
    return []


def host_loads(model: ModelProto) -> bool:
    """Whether onnxruntime loads a model that the checks here refuse.

    Asked only of models that would be refused.
    """
    return host_session(model) is not None


def host_session(model: ModelProto) -> "InferenceSession | None":
    """A session of onnxruntime, or None where it does not load a model.

    Optimisations are off: they do not decide whether a model is legal.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        small, weights = without_weights(model)
        values = map(onnxruntime.OrtValue.ortvalue_from_numpy, weights.values())
        options.add_external_initializers(list(weights), list(values))
        data = small.SerializeToString()
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception:  # onnxruntime's classes of errors have no base in common
        return None


def opset_problems(model: ModelProto) -> list[Problem]:
    """Opsets that are absent, too old, or newer than onnx knows."""
    opsets = opsets_of(model)
    if not opsets:
        return [Problem("model", "it does not say which opset it uses")]
    version, newest = opsets.get("", OLDEST_OPSET), onnx.defs.onnx_opset_version()
    if version < OLDEST_OPSET:
        return [
            Problem(
                "model",
                f"opset {version} is older than {OLDEST_OPSET}, the oldest supported",
                "Export the model anew; onnx.version_converter may help, but check its result.",
            )
        ]
    if version > newest:
        return [Problem("model", f"opset {version} is newer than {newest}, which onnx here knows")]
    return []


class _GraphChecker:
    """Collects the problems of a graph and its subgraphs."""

    def __init__(self, opsets: Mapping[str, int], functions: set[tuple[str, str]]):
        self.opsets = opsets
        self.functions = functions
        self.problems: list[Problem] = []

    def check(self, graph: GraphProto, outer: Mapping[str, None]) -> None:
        """One graph, where the names of ``outer`` are visible as well."""
        known: dict[str, None] = dict(outer)
        for name in _given_names(graph):
            known[name] = None
        defined = dict(known)
        for node in graph.node:
            self._check_operator(node)
            for name in filter(None, node.output):
                if name in defined:
                    self._add(
                        describe(node),
                        f"'{name}' is defined a second time",
                        "Each output needs a name of its own.",
                    )
                defined[name] = None
        for node in graph.node:
            for name in node.input:
                if name and name not in defined:
                    self._add(
                        describe(node),
                        f"its input '{name}' is defined nowhere",
                        _similar(name, defined),
                    )
            for inner in subgraphs(node.attribute):
                self.check(inner, defined)
        for output in graph.output:
            if output.name not in defined:
                what, hint = "it is defined nowhere", _similar(output.name, defined)
                self._add(f"output '{output.name}'", what, hint)
        self._check_order(graph, known)

    def _add(self, where: str, what: str, hint: str = "") -> None:
        self.problems.append(Problem(where, what, hint))

    def _check_operator(self, node: NodeProto) -> None:
        domain = plain_domain(node.domain)
        if (node.domain, node.op_type) in self.functions:
            return
        if domain not in HOST_DOMAINS:
            self._add(
                describe(node),
                f"unknown operator domain '{domain}'",
                f"Known ones: {', '.join(sorted(d or 'ai.onnx' for d in HOST_DOMAINS))}; or add"
                " the operator to the model as a local function.",
            )
        elif domain in self.opsets and not self._has(node, domain):
            self._add(
                describe(node),
                f"opset {self.opsets[domain]} of domain '{domain or 'ai.onnx'}' has no such"
                " operator",
                "Other opsets have it: export the model for one, or convert it."
                if onnx.defs.has(node.op_type, domain)
                else "Perhaps its domain is missing, or a local function.",
            )

    def _has(self, node: NodeProto, domain: str) -> bool:
        """Whether the domain's opset may have the operator; onnx does not know every domain's."""
        opset = min(self.opsets[domain], NEWEST_OPSET)
        return domain == "com.microsoft" or onnx.defs.has(node.op_type, opset, domain)

    def _check_order(self, graph: GraphProto, given: Mapping[str, None]) -> None:
        done = set(node_order(graph, given))
        defined = {name for node in graph.node for name in node.output}
        stuck = [
            node
            for index, node in enumerate(graph.node)
            if index not in done and all(i in defined or i in given for i in _reads(node))
        ]
        # Nodes that only read from a cycle are not on it.
        read: set[str] = set()
        while stuck and read != (now := {name for node in stuck for name in _reads(node)}):
            read = now
            stuck = [node for node in stuck if read.intersection(node.output)]
        if stuck:
            names = ", ".join(describe(node) for node in stuck[:8])
            self._add(
                "graph",
                f"the values of these nodes depend on themselves: {names}",
                "Feed a value back as the state of a Loop or a Scan.",
            )


def _similar(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: a known name that is similar."""
    near = get_close_matches(name, known, 1)
    if near:
        return f"Did '{near[0]}' become '{name}'?"
    return "Make it an input, an initialiser, or the output of a node."


def _given_names(graph: GraphProto) -> Iterable[str]:
    values: list[ValueInfoProto] = list(graph.input)
    yield from (i.name for i in values)
    yield from (t.name for t in graph.initializer)
    yield from (s.values.name for s in graph.sparse_initializer)


def _reads(node: NodeProto) -> set[str]:
    """Names a node needs, those that its subgraphs capture included."""
    return {name for name in node.input if name} | set(captured_names(node))


def captured_names(node: NodeProto) -> list[str]:
    """Names that the subgraphs of a node read from outside, in order of first use."""
    found: dict[str, None] = {}
    for graph in subgraphs(node.attribute):
        inner = set(_given_names(graph))
        inner.update(name for n in graph.node for name in n.output)
        names = [name for n in graph.node for name in [*n.input, *captured_names(n)]]
        names += [output.name for output in graph.output]
        found.update({name: None for name in names if name and name not in inner})
    return list(found)


def sorted_nodes(graph: GraphProto) -> list[NodeProto]:
    """The nodes so that each comes after what it reads."""
    return [graph.node[index] for index in node_order(graph)]


def node_order(graph: GraphProto, given: Iterable[str] = ()) -> list[int]:
    """The positions of the nodes in an order that runs; those on or after a cycle are left out."""
    ready = {*_given_names(graph), *given}
    missing: list[int] = []
    waiting: dict[str, list[int]] = {}
    queue: deque[int] = deque()
    for index, node in enumerate(graph.node):
        needs = [name for name in _reads(node) if name not in ready]
        missing.append(len(needs))
        for name in needs:
            waiting.setdefault(name, []).append(index)
        if not needs:
            queue.append(index)
            ready.update(node.output)
    ordered: list[int] = []
    while queue:
        index = queue.popleft()
        ordered.append(index)
        outputs = graph.node[index].output
        for reader in (reader for name in outputs for reader in waiting.pop(name, ())):
            missing[reader] -= 1
            if not missing[reader]:
                queue.append(reader)
    return ordered
