"""``move-transposes``: networks with channels last compute with channels first, as few transposes
as possible between.

Networks from TensorFlow (tf2onnx) hold images as [N, H, W, C] and transpose before and behind each
convolution. Most ops between compute the same in either layout (`layouts_with`). The pass chooses a
layout for each of them; an op of another kind computes as it is. A value that is computed in one
layout and read in the other needs one transpose, however many read it. Of all choices the pass
takes one with the fewest transposes, of these the one in which the most ops have the layout of the
layer behind which they come, since that layer may take them up, of these the one that transposes
the fewest elements. That is a minimum cut
(`TwoWayChoice`). Leaving all ops as they are is one of the choices, so transposes never become
more; each network is cut once, so the pass ends. Transposes of extents of 1 count as nothing.

In TVM the pass ``ConvertLayout`` does this greedily, in tf2onnx the transpose optimizer.

Takes and leaves graph ops before composites are made. No options.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from vtac.dialects.graph import (
    ConstantOp,
    Contracts,
    Pools,
    TransposeOp,
    WindowOp,
    known_extents,
    shape_of,
)
from vtac.passes.graph.axes import (
    Layout,
    Layouts,
    inverse,
    is_identity,
    layouts_with,
    moves_nothing,
    permuted,
    with_layouts,
)
from vtac.passes.graph.minimum_cut import TwoWayChoice
from vtac.passes.graph.rewrites.identities import HostToReshape, SimplifyReshape
from vtac.passes.graph.rewrites.transposes import ConstantToTheRight


class JoinTransposes(RewritePattern):
    """Two transposes in a row are one, or nothing."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        """Match a transpose of a transpose, or one that changes nothing."""
        layout = tuple(op.permutation.get_values())
        if is_identity(layout):
            rewriter.replace(op, [], [op.x])
        elif isinstance(op.x.owner, TransposeOp):
            before = op.x.owner
            joined = permuted(before.permutation.get_values(), layout)
            new = TransposeOp(before.x, joined, op.result.type)
            new.location = op.location
            rewriter.replace(op, new)
            if not before.result.uses:
                rewriter.erase(before)


@dataclass(frozen=True)
class _Second:
    """The second layout that a value may have, besides the one that it has.

    layout: the second layout as a permutation of the one that the value has. flipped: whether the
    value's own layout counts as the second: values on both sides of a transpose, or of an op, agree
    which layout counts as the first. part: number of the connected part of the network whose values
    agree so.
    """

    layout: Layout
    flipped: bool
    part: int


@dataclass
class _Choice:
    """The ops of a block that may compute in second layouts, and the choice among them.

    second: the second layout by value. layouts: those of each op that may move. fixed: ops that
    were found to have no choice. alike: for each transpose between the two layouts of one value,
    its operand.
    """

    ctx: Context
    second: dict[SSAValue, _Second] = field(default_factory=dict)
    layouts: dict[Operation, Layouts] = field(default_factory=dict)
    fixed: set[Operation] = field(default_factory=set)
    alike: dict[SSAValue, SSAValue] = field(default_factory=dict)

    def explore(self, block: Block) -> None:
        """Find values with second layouts, beginning at the transposes of a block."""
        for part, op in enumerate(block.ops):
            if isinstance(op, TransposeOp) and not _is_constant(op.x) and op.x not in self.second:
                layout = tuple(op.permutation.get_values())
                self.second[op.x] = _Second(layout, False, part)
                self._spread([op.x])
        for op in block.ops:
            if isinstance(op, TransposeOp) and self._stands_between(op):
                self.alike[op.result] = op.x

    def _spread(self, values: Iterable[SSAValue]) -> None:
        queue = deque(values)
        while queue:
            value = queue.popleft()
            around = [use.operation for use in value.uses]
            if isinstance(value.owner, Operation):
                around.append(value.owner)
            for op in dict.fromkeys(around):
                queue += self._pass_on(op, value)

    def _pass_on(self, op: Operation, value: SSAValue) -> list[SSAValue]:
        """The values that get a second layout because an op joins them with a value that has
        one."""
        known = self.second[value]
        if isinstance(op, TransposeOp):
            layout = tuple(op.permutation.get_values())
            other = op.x if value is op.result else op.result
            back = inverse(layout) if value is op.x else layout
            wanted = layout if value is op.x else inverse(layout)
            if known.layout != wanted or other in self.second or _is_constant(other):
                return []
            self.second[other] = _Second(back, not known.flipped, known.part)
            return [other]
        if op in self.fixed:
            return []
        layouts = self.layouts.get(op)
        if layouts is None:
            layouts = layouts_with(self.ctx, op, value, known.layout, self._layout_of)
        if layouts is None:
            self.fixed.add(op)
            return []
        self.layouts[op] = layouts
        return self._join(op, layouts, known)

    def _layout_of(self, value: SSAValue) -> Layout | None:
        found = self.second.get(value)
        return None if found is None else found.layout

    def _join(self, op: Operation, layouts: Layouts, known: _Second) -> list[SSAValue]:
        """Give the values of an op its layouts; an op that contradicts itself has no choice."""
        found = list[SSAValue]()
        for value, layout in zip(
            (*op.operands, op.results[0]), (*layouts.operands, layouts.result), strict=True
        ):
            if layout is None:
                continue
            wanted = _Second(layout, known.flipped, known.part)
            if self.second.get(value, wanted) != wanted:
                self.fixed.add(op)
                del self.layouts[op]
                return found
            if value not in self.second:
                self.second[value] = wanted
                found.append(value)
        return found

    def _stands_between(self, op: TransposeOp) -> bool:
        before, after = self.second.get(op.x), self.second.get(op.result)
        if before is None or after is None:
            return False
        layout = tuple(op.permutation.get_values())
        return (
            before.layout == layout
            and after.layout == inverse(layout)
            and before.flipped != after.flipped
            and before.part == after.part
        )

    def moved(self, block: Block) -> set[Operation]:
        """The ops that compute in their second layouts."""
        choice, preferred = TwoWayChoice(), self._preferred(block)
        roots = self._roots(block)
        counted = {root: self._elements(root) for root in roots}
        # Lexicographic: transposes, then ops that are not as they are preferred, then elements.
        per_op = 2 * sum(counted.values()) + 1
        per_transpose = per_op * (len(self.layouts) + 1)
        for root, elements in counted.items():
            if elements:
                self._price(choice, root, roots[root], per_transpose + elements)
        for op in self.layouts:
            if preferred[op] > 0:
                choice.cost_if_left(op, per_op)
            elif preferred[op] < 0:
                choice.cost_if_chosen(op, per_op)
        firsts = choice.chosen()
        return {op for op in self.layouts if (op in firsts) == self._any(op).flipped}

    def _any(self, op: Operation) -> _Second:
        """The second layout of some value of an op that may move; they agree on which comes
        first."""
        layouts = self.layouts[op]
        pairs = zip((*op.operands, op.results[0]), (*layouts.operands, layouts.result), strict=True)
        return next(self.second[value] for value, layout in pairs if layout is not None)

    def _roots(self, block: Block) -> dict[SSAValue, list[SSAValue]]:
        """Each value that has a second layout, with its names: itself and its transposes."""
        found: dict[SSAValue, list[SSAValue]] = {}
        for value in self.second:
            found.setdefault(self.root(value), []).append(value)
        return {root: names for root, names in found.items() if not _is_constant(root)}

    def root(self, value: SSAValue) -> SSAValue:
        """The value of which another is a transpose between its two layouts, or itself."""
        while value in self.alike:
            value = self.alike[value]
        return value

    def _elements(self, root: SSAValue) -> int:
        """How many elements a transpose of a value moves; 0 if it is no more than a reshape."""
        if moves_nothing(self.second[root].layout, shape_of(root) or ()):
            return 0
        return prod(known_extents(root))

    def _price(
        self, choice: TwoWayChoice, root: SSAValue, names: list[SSAValue], cost: int
    ) -> None:
        """The cost of a transpose of a value, if it is read in a layout that it is not made in."""
        maker: object = not self.second[root].flipped
        layouts = self.layouts.get(root.owner) if isinstance(root.owner, Operation) else None
        if layouts is not None and layouts.result is not None:
            maker = root.owner
        # The maker or a reader is an op, or, for an op without a choice, whether it uses the first
        # layout.
        firsts, others = (root, "read first"), (root, "read second")
        _only(choice, firsts, maker, cost)
        _only(choice, maker, others, cost)
        for name in names:
            for use in name.uses:
                op = use.operation
                if name in self.second and op.results and op.results[0] in self.alike:
                    continue
                reader: Operation | bool = not self.second[name].flipped
                if op in self.layouts and self.layouts[op].operands[use.index] is not None:
                    reader = op
                _only(choice, reader, firsts, None)
                _only(choice, others, reader, None)

    def _preferred(self, block: Block) -> dict[Operation, int]:
        """The preference of each op that may move: above 0 for the first layout, below 0 for the
        second.

        An op prefers the layout of the layer whose result it computes on or, without such a layer,
        the one that most layers of its part have. 0 if there is none.
        """
        votes, found = self._votes(block), dict[Operation, int]()
        for op in block.ops:
            if op not in self.layouts:
                continue
            sides = (self._side_of_layer(operand, found) for operand in op.operands)
            found[op] = next(filter(None, sides), 0)
        return {op: side or votes[self._any(op).part] for op, side in found.items()}

    def _side_of_layer(self, value: SSAValue, known: Mapping[Operation, int]) -> int:
        """1 if the layer behind which a value comes has the first layout, -1 the second, else 0."""
        root = self.root(value)
        maker = root.owner
        if root not in self.second or not isinstance(maker, Operation):
            return 0
        if maker in self.layouts:
            return known.get(maker, 0)
        if not _is_layer(maker):
            return 0
        return -1 if self.second[root].flipped else 1

    def _votes(self, block: Block) -> Counter[int]:
        """By part, how many more layers have the first layout than the second."""
        votes: Counter[int] = Counter()
        for op in block.ops:
            if op in self.layouts or not _is_layer(op):
                continue
            for value in (*op.operands[:1], *op.results):
                if value in self.second:
                    second = self.second[value]
                    votes[second.part] += -1 if second.flipped else 1
        return votes


def _only(choice: TwoWayChoice, first: object, other: object, cost: int | None) -> None:
    """Add a cost for ``first`` having the first layout while ``other`` has not; booleans are
    decided."""
    if first is False or other is True:
        return
    if first is True and other is False:
        return  # both are decided: nothing to choose
    if first is True:
        choice.cost_if_left(other, cost)
    elif other is False:
        choice.cost_if_chosen(first, cost)
    else:
        choice.cost_if_only(first, other, cost)


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp)


def _is_layer(op: Operation) -> bool:
    return isinstance(op, WindowOp) or op.has_trait(Contracts) or op.has_trait(Pools)


@dataclass
class _Mover:
    """Rewrites a block by a choice: each value is kept in the layouts in which it is read.

    made: for each root, the value that is computed, and whether it has the second layout. forms:
    the values that exist of a root in its first (False) and second layout.
    """

    choice: _Choice
    moved: set[Operation]
    made: dict[SSAValue, tuple[SSAValue, bool]] = field(default_factory=dict)
    forms: dict[tuple[SSAValue, bool], SSAValue] = field(default_factory=dict)

    def rewrite(self, block: Block) -> None:
        """Rebuild the ops that move, and transpose what is read in another layout."""
        for op in list(block.ops):
            if op in self.moved:
                self._rebuild(op)
            elif not (isinstance(op, TransposeOp) and op.result in self.choice.alike):
                for place, operand in enumerate(op.operands):
                    op.operands[place] = self._form(operand, False, op)
        for op in reversed(list(block.ops)):
            is_old = op in self.moved or isinstance(op, TransposeOp)
            if is_old and not any(result.uses for result in op.results):
                block.erase_op(op)

    def _rebuild(self, op: Operation) -> None:
        layouts, result = self.choice.layouts[op], op.results[0]
        operands = [
            self._form(operand, layout is not None, op)
            for operand, layout in zip(op.operands, layouts.operands, strict=True)
        ]
        new = with_layouts(self.choice.ctx, op, operands, layouts)
        assert op.parent is not None
        op.parent.insert_ops_before(new, op)
        if result in self.choice.second:
            self.made[result] = new[-1].results[0], layouts.result is not None
        else:
            result.replace_all_uses_with(new[-1].results[0])

    def _form(self, value: SSAValue, second: bool, before: Operation) -> SSAValue:
        """A value in its own or its second layout, made before an op if it does not exist yet."""
        if value not in self.choice.second or _is_constant(value):
            return value
        root = self.choice.root(value)
        # The operand and the result of a transpose are one value: the layout that one has is the
        # second layout of the other.
        if self.choice.second[value].flipped != self.choice.second[root].flipped:
            second = not second
        made, is_second = self.made.get(root, (root, False))
        if second == is_second:
            return made
        if (root, second) not in self.forms:
            layout = self.choice.second[root].layout
            layout = inverse(layout) if is_second else layout
            assert isinstance(made.type, TensorType)
            shape = permuted(made.type.get_shape(), layout)
            new = TransposeOp(made, layout, TensorType(made.type.element_type, shape))
            alike = [use.operation for use in root.uses if use.operation.results]
            named = [op for op in alike if op.results[0] in self.choice.alike]
            new.location = (named or [before])[0].location
            assert before.parent is not None
            before.parent.insert_op_before(new, before)
            self.forms[root, second] = new.result
        return self.forms[root, second]


def move_transposes(ctx: Context, block: Block) -> None:
    """Choose layouts in a block, and rewrite it."""
    choice = _Choice(ctx)
    choice.explore(block)
    if choice.layouts:
        _Mover(choice, choice.moved(block)).rewrite(block)


@dataclass(frozen=True)
class MoveTransposesPass(ModulePass):
    """Compute with channels first where that saves transposes."""

    name = "move-transposes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every function."""
        patterns = [JoinTransposes(), ConstantToTheRight(ctx), HostToReshape(), SimplifyReshape()]
        walker = PatternRewriteWalker(GreedyRewritePatternApplier(patterns))
        walker.rewrite_module(op)
        for function in op.walk():
            if isinstance(function, FuncOp):
                for block in function.body.blocks:
                    move_transposes(ctx, block)
        walker.rewrite_module(op)
