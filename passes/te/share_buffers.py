"""``te-share-buffers``: an elementwise statement writes over the operand that it reads.

The ALU works in place (``acc[d] = op(acc[d], ...)``), so a chain of elementwise stages should use
one buffer. A statement may take over the buffer of an operand if it reads only the element that it
writes, and if nothing reads the operand later. Earlier reads, such as copies to DRAM, do no harm.

The schedule primitive ``te.in_place`` does this for one stage, before tensorize. This pass does it
wherever it is possible, for statements that are still scalar.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects import te


class NotShared(Exception):  # noqa: N818 - it is an answer, not an accident
    """The reason why a statement cannot write over its operand."""


@dataclass(frozen=True)
class TeShareBuffers(ModulePass):
    """Let elementwise statements write over operands that nothing reads later."""

    name = "te-share-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Share buffers in each kernel, in program order, wherever it is possible."""
        for kernel in op.body.block.ops:
            if isinstance(kernel, te.KernelOp) and kernel.is_lowered:
                lifetimes = Lifetimes()
                for update in [s for s in kernel.walk() if isinstance(s, te.UpdateOp)]:
                    _share_any(update, lifetimes)


class Lifetimes:
    """Where the buffers of a kernel are used for the last time.

    Places are found once, so a chain of statements that share one buffer takes time linear in its
    length. Valid while nothing but `share` changes the kernel.
    """

    def __init__(self) -> None:
        self._places: dict[Operation, int] = {}
        self._blocks: set[Block] = set()
        self._last: dict[te.AllocOp, tuple[int, list[Operation]]] = {}

    def later_use(self, alloc: te.AllocOp, statement: Operation) -> Operation | None:
        """A use of a buffer, other than by the statement, that does not come before it."""
        if alloc not in self._last:
            self._last[alloc] = self._find_last(alloc)
        place, users = self._last[alloc]
        if place < self._place(statement, alloc):
            return None
        return next((user for user in users if user is not statement), None)

    def join(self, kept: te.AllocOp, joined: te.AllocOp) -> None:
        """Record that ``kept`` holds the elements of ``joined`` as well.

        ``joined`` is first written by the last use of ``kept``, so its own last use becomes that of
        ``kept``.
        """
        if joined not in self._last:
            self._last[joined] = self._find_last(joined)
        self._last[kept] = self._last.pop(joined)

    def forget(self, alloc: te.AllocOp, user: Operation) -> None:
        """Record that an operation no longer uses a buffer."""
        if alloc in self._last:
            place, users = self._last[alloc]
            left = [other for other in users if other is not user]
            self._last[alloc] = place, left
            if not left:
                del self._last[alloc]

    def _find_last(self, alloc: te.AllocOp) -> tuple[int, list[Operation]]:
        found: tuple[int, list[Operation]] = -1, []
        for user in dict.fromkeys(use.operation for use in alloc.buffer.uses):
            place = self._place(user, alloc)
            if place > found[0]:
                found = place, [user]
            elif place == found[0]:
                found[1].append(user)
        return found

    def _place(self, op: Operation, alloc: te.AllocOp) -> int:
        """The place of an operation, or of the loop around it, in the block of an allocation."""
        block = alloc.parent
        assert block is not None
        if block not in self._blocks:
            self._blocks.add(block)
            self._places.update((op, place) for place, op in enumerate(block.ops))
        around = _in_block(op, alloc)
        assert around is not None
        return self._places[around]


def _share_any(update: te.UpdateOp, lifetimes: Lifetimes) -> None:
    for number in range(len(update.sources)):
        try:
            share(update, number, lifetimes)
        except NotShared:
            continue
        return


def share(update: te.UpdateOp, operand: int, lifetimes: Lifetimes) -> te.UpdateOp | None:
    """Replace the destination of a statement by the buffer of one of its operands.

    lifetimes: those of the kernel's buffers, kept up to date.

    Returns the statement, or None if it only copied, in which case it is removed with its loops.
    Raises `NotShared` if that would change a value that is read.
    """
    if not 0 <= operand < len(update.sources):
        raise NotShared(f"it has {len(update.sources)} operands, no {operand}")
    source, destination = update.sources[operand], update.destination
    if source is not destination:
        _check_statement(update, operand)
        old, new = destination.owner, source.owner
        assert isinstance(old, te.AllocOp) and isinstance(new, te.AllocOp)
        _check_lifetimes(update, old, new, lifetimes)
        slots = max(old.slots, new.slots, key=lambda slots: slots.value.data)
        new.slots = slots
        copied = [(copy, copy.window) for copy in _copies_from(old)]
        lifetimes.join(new, old)
        destination.replace_all_uses_with(source)
        for copy, window in copied:
            copy.set_window(window)
        Rewriter.erase_op(old)
    if _is_copy(update):
        if isinstance(source.owner, te.AllocOp):
            lifetimes.forget(source.owner, update)
        _erase_with_loops(update)
        return None
    return update


def _copies_from(alloc: te.AllocOp) -> list[te.CopyOp]:
    users = dict.fromkeys(use.operation for use in alloc.buffer.uses)
    return [op for op in users if isinstance(op, te.CopyOp) and op.source is alloc.buffer]


def _check_statement(update: te.UpdateOp, operand: int) -> None:
    source, write = update.sources[operand], update.write
    if update.accumulate is not None:
        raise NotShared("it accumulates, so the old value of its own buffer counts")
    for read in update.reads:
        if read.buffer is source and read.subscripts != write.subscripts:
            raise NotShared("it reads other elements than it writes")
    if source.type != update.destination.type:
        raise NotShared(f"its value is {update.destination.type}, the operand {source.type}")
    for value, what in ((source, "the operand"), (update.destination, "its value")):
        if not isinstance(value.owner, te.AllocOp):
            raise NotShared(f"{what} is a parameter of the kernel")


def _check_lifetimes(
    update: te.UpdateOp, old: te.AllocOp, new: te.AllocOp, lifetimes: Lifetimes
) -> None:
    block = new.parent
    if block is None or old.parent is not block:
        raise NotShared("its buffer and its operand's are not allocated in the same loop")
    user = lifetimes.later_use(new, update)
    if user is not None:
        raise NotShared(f"the operand is still used by {_name(user)}")


def _in_block(op: Operation, alloc: te.AllocOp) -> Operation | None:
    current: Operation | None = op
    while current is not None and current.parent is not alloc.parent:
        current = current.parent_op()
    return current


def _name(op: Operation) -> str:
    if isinstance(op, te.UpdateOp | te.InvokeOp):
        return f'stage "{op.label.data}"'
    return op.name


def _is_copy(update: te.UpdateOp) -> bool:
    reads = update.reads
    return (
        len(reads) == 1
        and reads[0].buffer is update.destination
        and reads[0].subscripts == update.write.subscripts
        and te.yielded(update.body) is update.body.block.args[0]
    )


def _erase_with_loops(update: te.UpdateOp) -> None:
    doomed: Operation = update
    while isinstance(loop := doomed.parent_op(), te.ForOp) and (
        loop.body.block.first_op is doomed and loop.body.block.last_op is doomed
    ):
        doomed = loop
    Rewriter.erase_op(doomed)
