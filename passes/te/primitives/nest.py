"""The state in which a schedule is applied: its stages and where their loops are.

The loop nest itself is the IR. This module keeps what the IR does not say: which loops and
statements belong to which handle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from vtac.dialects import te
from vtac.passes.te.share_buffers import Lifetimes

from .stage_order import StageOrder


class RefusedPrimitive(Exception):  # noqa: N818 - it is an answer, not an accident
    """A primitive that cannot be applied: what is wrong, and the way out."""

    def __init__(self, what: str, hint: str = ""):
        self.what, self.hint = what, hint
        super().__init__(what)


@dataclass(eq=False)
class NestStage:
    """The nest that writes one buffer: a compute, the start of its reduction, or a copy.

    order: its place among the stages; a stage only reads stages of lower order.
    loops: its own loops, outermost first. statements: what is inside the innermost.
    init, identity: the start of its reduction, as a stage, and as a number if it is constant.
    owner: the stage whose reduction it starts.
    """

    label: str
    order: float
    buffer: SSAValue
    loops: list[te.ForOp]
    statements: list[Operation]
    init: "NestStage | None" = None
    identity: int | None = None
    owner: "NestStage | None" = None

    @property
    def root(self) -> Operation:
        """The outermost operation of its nest."""
        return self.loops[0] if self.loops else self.statements[0]

    @property
    def update(self) -> te.UpdateOp:
        """Its scalar statement. Raises `RefusedPrimitive` once that is a copy or an intrinsic."""
        if len(self.statements) == 1 and isinstance(self.statements[0], te.UpdateOp):
            return self.statements[0]
        raise RefusedPrimitive(f'stage "{self.label}" has no scalar statement (any more)')

    @property
    def sources(self) -> list[SSAValue]:
        """The buffers that its statements read."""
        found: list[SSAValue] = []
        for op in self.statements:
            if isinstance(op, te.UpdateOp | te.InvokeOp):
                found += op.sources
            elif isinstance(op, te.CopyOp):
                found.append(op.source)
        return found

    @property
    def alloc(self) -> te.AllocOp:
        """The allocation of its buffer. Raises `RefusedPrimitive` for a result of the kernel."""
        if isinstance(self.buffer.owner, te.AllocOp):
            return self.buffer.owner
        raise RefusedPrimitive(f'the value of stage "{self.label}" is a result of the kernel')

    @property
    def parts(self) -> "list[NestStage]":
        """The stages that move together: its start, then itself."""
        return [self] if self.init is None else [self.init, self]

    def leave_out(self) -> None:
        """Record that nothing is left of it."""
        self.statements, self.loops = [], []
        if self.owner is not None:
            self.owner.init = None


@dataclass(eq=False)
class Nest:
    """A kernel in loop form, and what the handles of its schedule stand for.

    lifetimes, order: those of its buffers and of its stages, while nothing else changes the loops.
    """

    kernel: te.KernelOp
    stages: list[NestStage]
    handles: dict[SSAValue, NestStage] = field(default_factory=dict)
    loops: dict[SSAValue, tuple[NestStage, te.ForOp]] = field(default_factory=dict)
    lifetimes: Lifetimes = field(init=False)
    order: StageOrder = field(init=False)
    _parts: dict[SSAValue, dict[NestStage, None]] = field(default_factory=dict)
    """The stages that write a buffer, in the order in which they came to do so."""

    def __post_init__(self) -> None:
        self.forget(None)
        for stage in self.stages:
            self._record(stage)

    def forget(self, step: te.Primitive | None) -> None:
        """Drop what is known of lifetimes and orders where a primitive changes them."""
        if not isinstance(step, te.InPlaceOp | te.InitOp | te.AxesOp):
            self.lifetimes = Lifetimes()
        if not isinstance(step, te.ComputeAtOp | te.ComputeWithOp | te.AxesOp):
            self.order = StageOrder(self.stages)

    def _record(self, stage: NestStage) -> None:
        for part in stage.parts:
            self._parts.setdefault(part.buffer, {})[part] = None

    def add(self, stage: NestStage) -> None:
        """Add a stage that a primitive made."""
        self.stages.append(stage)
        self._record(stage)

    def replace_buffer(self, stage: NestStage, new: te.AllocOp) -> None:
        """Put another allocation in the place of a stage's own, for everyone who uses it."""
        old = stage.alloc
        new.buffer.name_hint = old.buffer.name_hint
        new.location = old.location
        old.buffer.replace_all_uses_with(new.buffer)
        for part in stage.parts:
            self._move(part, new.buffer)
        Rewriter.erase_op(old)

    def follow_buffer(self, replaced: SSAValue) -> None:
        """Update the stages that wrote a buffer to the one that their statements write now."""
        for part in list(self._parts.get(replaced, ())):
            for statement in part.statements:
                if isinstance(statement, te.UpdateOp | te.InvokeOp):
                    self._move(part, statement.destination)
                elif isinstance(statement, te.CopyOp):
                    self._move(part, statement.target)

    def _move(self, part: NestStage, buffer: SSAValue) -> None:
        self._parts.get(part.buffer, {}).pop(part, None)
        part.buffer = buffer
        self._parts.setdefault(buffer, {})[part] = None

    @cached_property
    def transfers(self) -> list[te.IntrinsicOp]:
        """The transfers that the module declares."""
        module = self.kernel.parent
        assert module is not None
        declared = [op for op in module.ops if isinstance(op, te.IntrinsicOp)]
        return [op for op in declared if op.instruction is not None and op.instruction.is_transfer]

    def stage(self, handle: SSAValue) -> NestStage:
        """The stage behind a handle."""
        stage = self.handles[handle]
        if not stage.statements:
            raise RefusedPrimitive(f'nothing is left of stage "{stage.label}"')
        if any(statement.parent is None for statement in stage.statements):
            raise RefusedPrimitive(
                f'unroll or vthread has made copies of stage "{stage.label}"',
                "they come last: schedule what is inside the loop before",
            )
        return stage

    def loop(self, handle: SSAValue) -> tuple[NestStage, te.ForOp]:
        """The loop behind a handle, and the stage it belongs to."""
        stage, loop = self.loops[handle]
        if loop not in stage.loops or loop.parent is None:
            raise RefusedPrimitive(
                f'loop "{loop.label.data}" of stage "{stage.label}" is no longer there',
                "tensorize, dma, vthread and unroll take loops away; use their handles before",
            )
        return stage, loop

    def writers(self, buffer: SSAValue) -> list[NestStage]:
        """The stages that write a buffer."""
        return [part for part in self._parts.get(buffer, ()) if part.statements]

    def replace_statement(self, old: te.UpdateOp, new: te.UpdateOp) -> None:
        """Put a statement in the place of another, in the IR and in its stage."""
        parts = self._parts.get(old.destination, ())
        Rewriter.replace_op(old, new)
        for part in parts:
            part.statements = [new if op is old else op for op in part.statements]


def accesses_to(buffer: SSAValue) -> Iterator[tuple[Operation, te.Access]]:
    """Every read of a buffer by a statement: the operation, and the access."""
    for op in dict.fromkeys(use.operation for use in buffer.uses):
        if isinstance(op, te.UpdateOp | te.InvokeOp):
            for read in op.reads:
                if read.buffer is buffer:
                    yield op, read


def copies_from(buffer: SSAValue) -> list[te.CopyOp]:
    """Every copy that reads a buffer."""
    users = dict.fromkeys(use.operation for use in buffer.uses)
    return [op for op in users if isinstance(op, te.CopyOp) and op.source is buffer]


def label_of(op: Operation) -> str:
    """The name of a statement for messages."""
    if isinstance(op, te.UpdateOp | te.InvokeOp):
        return f'stage "{op.label.data}"'
    return op.name


def ancestor_in(op: Operation, block: Block) -> Operation | None:
    """The operation of the block that is ``op`` or contains it."""
    current: Operation | None = op
    while current is not None and current.parent is not block:
        current = current.parent_op()
    return current


def is_around(outer: Block, inner: Block) -> bool:
    """Whether a block is another one or contains it."""
    current: Block | None = inner
    while current is not None:
        if current is outer:
            return True
        parent = current.parent_op()
        current = parent.parent if parent is not None else None
    return False


def perfect_chain(loops: Sequence[te.ForOp]) -> None:
    """Raise `RefusedPrimitive` unless each body is just the next loop, `te.UnfuseOp` aside."""
    for outer, inner in pairwise(loops):
        if [op for op in outer.body.block.ops if not isinstance(op, te.UnfuseOp)] != [inner]:
            raise RefusedPrimitive(
                f'the loops "{outer.label.data}" and "{inner.label.data}" have other operations'
                " between them",
                "reorder, split and fuse before anything is computed or copied there",
            )


def take_out(op: Operation) -> Operation:
    """Detach an operation from its block, and return it."""
    if op.parent is not None:
        op.parent.detach_op(op)
    return op


def take_out_all(block: Block) -> list[Operation]:
    """Detach all operations of a block, and return them."""
    return [take_out(op) for op in list(block.ops)]


def wrap(loop: te.ForOp, inner: te.ForOp) -> None:
    """Put ``loop`` in the place of ``inner``, and ``inner`` into its body."""
    block = inner.parent
    assert block is not None
    block.insert_op_before(loop, inner)
    loop.body.block.add_op(take_out(inner))
