"""Einsum of two tensors as a product of matrices between transpositions.

An index is of the batch (both tensors and the result have it), of rows or columns (one tensor and
the result), or summed over (both tensors, not the result).
"""

from math import prod

from vtac.lowering.onnx_to_graph.expansions.site import Site


def einsum(site: Site) -> bool:
    """Einsum of two tensors: a product of matrices, with transpositions around it."""
    equation = site.attributes["equation"].decode().replace(" ", "")
    if len(site.node.input) != 2 or "->" not in equation or "." in equation:
        return False
    given, result = equation.split("->")
    terms, shapes = given.split(","), [site.shape(0), site.shape(1)]
    if len(terms) != 2 or any(len(set(term)) != len(term) for term in (*terms, result)):
        return False
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if shape is None or len(shape) != len(term):
            return False
        for index, extent in zip(term, shape, strict=True):
            if extents.setdefault(index, extent) != extent:
                return False
    a, b = terms
    batch = [i for i in result if i in a and i in b]
    rows, columns = ([i for i in result if i in one and i not in batch] for one in terms)
    summed = [i for i in a if i in b and i not in batch]
    if set(a) - {*batch, *rows, *summed} or set(b) - {*batch, *columns, *summed} or not summed:
        return False

    def size(group: list[str]) -> int:
        return prod(extents[i] for i in group)

    def arranged(which: int, *groups: list[str]) -> str:
        order = [terms[which].index(i) for group in groups for i in group]
        x = site.node.input[which]
        if order != sorted(order):
            x = site.add("Transpose", [x], perm=order)
        return site.reshape(x, [*(extents[i] for i in groups[0]), *map(size, groups[1:])])

    left = arranged(0, batch, rows, summed)
    product = site.add("MatMul", [left, arranged(1, batch, summed, columns)])
    order = [*batch, *rows, *columns]
    if order == list(result):
        site.reshape(product, [extents[i] for i in order], site.node.output[0])
        return True
    whole = site.reshape(product, [extents[i] for i in order])
    site.add("Transpose", [whole], site.node.output[0], perm=[order.index(i) for i in result])
    return True
