"""The larger or the smaller of two tensors, element by element."""

from vtac.lowering.onnx_to_graph.expansions.site import Site


def extreme(site: Site) -> bool:
    """Max and Min of two tensors of one shape: `max(a, b) = b + relu(a - b)`."""
    if len(site.node.input) != 2:
        return False
    a, b = site.node.input
    shape = site.float_shape(a)
    if shape is None or shape != site.float_shape(b) or a == b:
        return False
    if a in site.constants or b in site.constants:
        return False
    if site.node.op_type == "Max":
        more = site.add("Relu", [site.add("Sub", [a, b])])
        site.add("Add", [more, b], site.node.output[0])
    else:
        more = site.add("Relu", [site.add("Sub", [b, a])])
        site.add("Sub", [b, more], site.node.output[0])
    return True
