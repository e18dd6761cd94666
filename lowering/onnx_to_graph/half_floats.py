"""Networks of float16 or bfloat16, computed in float32.

The quantiser knows float32 alone, and a layer that becomes integers keeps nothing of the float type
around it. So where a network is to be quantised, each operator that has a graph op reads and writes
float32, with casts where other operators, inputs and outputs of the network keep their types. A
value that both sides of a cast know is not rounded in between, as it would be on the way.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper

from vtac.lowering.onnx_to_graph.check import captured_names, plain_domain, sorted_nodes

HALF = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def widen_half_floats(
    model: ModelProto,
    types: Mapping[str, TypeProto],
    constants: Mapping[str, TensorProto],
    converted: Callable[[str], bool],
) -> bool:
    """Let operators of the main graph compute in float32 instead of 16 bits, in place.

    types: of all values. constants: by name. converted: whether an operator of the default domain,
    by its name, becomes a graph op. Returns whether anything changed.
    """
    elements = {
        name: type.tensor_type.elem_type
        for name, type in types.items()
        if type.HasField("tensor_type")
    }
    elements |= {tensor.name: tensor.data_type for tensor in constants.values()}
    halves = {name: element for name, element in elements.items() if element in HALF}
    floats = {name for name, element in elements.items() if element == TensorProto.FLOAT}
    nodes = sorted_nodes(model.graph)
    chosen = [_is_chosen(node, halves, converted) for node in nodes]
    if not any(chosen):
        return False
    kept = {output.name for output in model.graph.output}
    for node, widens in zip(nodes, chosen, strict=True):
        kept.update(captured_names(node))
        if not widens and node.op_type != "Cast":
            kept.update(node.input)
    writer = _Writer(halves, floats, kept)
    for node, widens in zip(nodes, chosen, strict=True):
        if widens:
            writer.widen(node)
        else:
            writer.keep(node)
    del model.graph.node[:]
    model.graph.node.extend(writer.nodes)
    del model.graph.value_info[:]
    return True


def _is_chosen(
    node: NodeProto, halves: Mapping[str, int], converted: Callable[[str], bool]
) -> bool:
    if plain_domain(node.domain) != "" or node.op_type in ("Cast", "Constant"):
        return False
    return converted(node.op_type) and any(n in halves for n in [*node.input, *node.output])


@dataclass
class _Writer:
    """The nodes of the new graph.

    halves: element types of values of 16 bits. floats: values of float32 in the model. kept: values
    that something reads in the type that they have in the model.
    wide: by such a value, the name of its float32 form, as far as there is one.
    """

    halves: Mapping[str, int]
    floats: Set[str]
    kept: Set[str]
    nodes: list[NodeProto] = field(default_factory=list)
    wide: dict[str, str] = field(default_factory=dict)

    def widen(self, node: NodeProto) -> None:
        """A node on float32."""
        inputs = [self._widened(name) if name in self.halves else name for name in node.input]
        outputs = [f"{n}.float32" if n in self.halves else n for n in node.output]
        made = NodeProto.FromString(node.SerializeToString())
        del made.input[:], made.output[:]
        made.input.extend(inputs)
        made.output.extend(outputs)
        self.nodes.append(made)
        for name, output in zip(node.output, outputs, strict=True):
            if name != output:
                self._narrow(name, output)

    def keep(self, node: NodeProto) -> None:
        """A node as it is, but for casts between a value and its other form."""
        if node.op_type == "Cast" and plain_domain(node.domain) == "":
            (to,) = (a.i for a in node.attribute if a.name == "to")
            if to == TensorProto.FLOAT and node.input[0] in self.halves:
                source = self._widened(node.input[0])
                self.nodes.append(helper.make_node("Identity", [source], node.output, node.name))
                return
            if node.output[0] in self.halves and node.input[0] not in self.halves:
                self._narrow(node.output[0], self._as_float32(node))
                return
        self.nodes.append(NodeProto.FromString(node.SerializeToString()))

    def _as_float32(self, node: NodeProto) -> str:
        """The value that a cast to 16 bits reads, as float32."""
        source = str(node.input[0])
        if source in self.floats:
            return source
        wide = f"{node.output[0]}.float32"
        cast = helper.make_node("Cast", [source], [wide], node.name, to=TensorProto.FLOAT)
        self.nodes.append(cast)
        return wide

    def _widened(self, name: str) -> str:
        """The float32 form of a value of 16 bits."""
        if name not in self.wide:
            self.wide[name] = f"{name}.float32"
            cast = helper.make_node("Cast", [name], [self.wide[name]], to=TensorProto.FLOAT)
            self.nodes.append(cast)
        return self.wide[name]

    def _narrow(self, name: str, wide: str) -> None:
        """Remember the float32 form of a value; make the value where something reads it."""
        self.wide[name] = wide
        if name in self.kept:
            self.nodes.append(helper.make_node("Cast", [wide], [name], to=self.halves[name]))
