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
