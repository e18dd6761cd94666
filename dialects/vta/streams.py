"""The streams of instructions of a module: its programs', and those of its clusters' cores."""

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp

from .cluster import ClusterOp
from .ops import ProgramOp, StreamOp


def streams_of(module: ModuleOp) -> Iterator[StreamOp]:
    """Each stream of a core, in the order of the text."""
    for op in module.body.block.ops:
        if isinstance(op, ProgramOp):
            yield op
        elif isinstance(op, ClusterOp):
            yield from op.cores().values()


def works_alone(stream: StreamOp) -> bool:
    """Whether no other core of a cluster does more than finish."""
    cluster = stream.parent_op()
    if not isinstance(cluster, ClusterOp):
        return True
    others = (core for core in cluster.cores().values() if core is not stream)
    return all(len(core.instructions()) <= 1 for core in others)
