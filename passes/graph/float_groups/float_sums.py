"""Which additions stay in floats, since the host has an addend and reads the sum.

A transformer adds each branch to a stream that a layer normalisation reads. Where the host
normalises, it has the stream in floats. In int8 the sum would round the stream and be rounded
itself; on the host only the branch is rounded. It costs the accelerator nothing, and the stream
needs to cross the border for the layers alone.

Where the target multiplies, ``integer-streams`` may then give the sum and the normalisation an
integer form, in two planes. So there a sum that is normalised need not have an addend in floats.
"""

from collections.abc import Container, Iterator

from xdsl.ir import BlockArgument, Operation, SSAValue

from vtac.dialects.graph import AddOp, HostOp, MovesElements, Pools
from vtac.passes.graph.float_groups.network import Network, is_float32, producer
from vtac.passes.graph.reasons import Reason, ReasonKind

FLOATS_BESIDE = Reason(
    "the host has one of its operands in floats and reads its result: it adds without rounding",
    ReasonKind.NUMBERS,
    "None needed: the accelerator computes its other operand.",
)


def float_sums(network: Network, hosted: Container[Operation]) -> list[AddOp]:
    """The additions of which an addend is a float of the host, and which only the host reads.

    Both may be other such additions: that is the stream of a network that normalises before its
    layers. hosted: ops that stay float.
    """
    adds = [
        op
        for op in network.block.ops
        if isinstance(op, AddOp) and op not in hosted and _adds_floats(op, network)
    ]
    found: dict[AddOp, None] = {}
    for op in adds:
        if _has_float(op, network, hosted, found):
            found[op] = None
    count = -1
    while count != len(found):
        count = len(found)
        for op in reversed(list(found)):
            floats = _has_float(op, network, hosted, found)
            if not floats or not _is_read_in_floats(op, hosted, found):
                del found[op]
    return list(found)


def _adds_floats(op: AddOp, network: Network) -> bool:
    return is_float32(op.result) and all(
        network.constant(value) is None and network.given(value) is None for value in (op.a, op.b)
    )


def _has_float(
    op: AddOp, network: Network, hosted: Container[Operation], sums: Container[AddOp]
) -> bool:
    """Whether an addend is a float, or becomes planes of integers that are as good as floats."""
    if network.multiplies and any(map(is_layer_norm, _readers(op.result))):
        return True
    return any(_is_float(value, hosted, sums) for value in (op.a, op.b))


def is_layer_norm(op: Operation) -> bool:
    """Whether an op is ONNX's LayerNormalization."""
    return isinstance(op, HostOp) and (op.op_type.data, op.domain.data) == (
        "LayerNormalization",
        "",
    )


def _is_float(value: SSAValue, hosted: Container[Operation], sums: Container[AddOp]) -> bool:
    """Whether the host has a value in floats: it is an input, or made by what stays float."""
    while isinstance(maker := producer(value), Operation) and _moves(maker):
        value = maker.operands[0]
    if isinstance(value, BlockArgument):
        return True
    return isinstance(maker, HostOp) or maker in hosted or maker in sums


def _is_read_in_floats(
    op: Operation, hosted: Container[Operation], sums: Container[Operation]
) -> bool:
    """Whether every reader stays float, or adds to the same stream.

    A mean stays where its operand is. In a normalisation that is written in parts, what stays float
    reads it.
    """
    readers = list(_readers(op.results[0]))
    return bool(readers) and all(
        isinstance(reader, HostOp)
        or reader in hosted
        or reader in sums
        or (reader.has_trait(Pools) and _is_read_in_floats(reader, hosted, sums))
        for reader in readers
    )


def _readers(value: SSAValue) -> Iterator[Operation]:
    """The ops that read a value, perhaps moved."""
    for user in (use.operation for use in value.uses):
        if _moves(user):
            yield from _readers(user.results[0])
        else:
            yield user


def _moves(op: Operation) -> bool:
    return op.has_trait(MovesElements) and len(op.operands) == 1
