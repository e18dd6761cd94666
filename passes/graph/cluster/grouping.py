"""Merges layers into groups that are split together (Zhao et al., "GraphTurbo", OSDI 2023, 3.2).

The network is a graph of groups. Three patterns are merged until none is left:

- *straight*: the first group's only consumer is the second, whose only producer is the first;
- *diamond*: several paths from an entry, which stays outside, to an exit;
- *branch*: one of several producers of an exit, with no other consumer.

Rule (i), for straight and branch: the second's factor is not below the first's, and the factor of
the merged group not above the second's. Rule (ii), for diamonds: the factor of the merged group is
not above the largest of its parts. So groups end where small tensors would be cut as finely as
large ones.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import ConstantOp

FactorOf = Callable[[Sequence[Operation], Sequence[SSAValue]], int | None]
"""The factor into which ops with these outputs must be split; None: no piece of them fits."""


@dataclass(eq=False)
class Members:
    """The ops of one group, in the order of the text."""

    ops: list[Operation]
    factor: int | None


@dataclass
class LayerGroups:
    """The groups of a function, in topological order."""

    function: FuncOp
    factor_of: FactorOf
    most: int
    groups: list[Members] = field(default_factory=list)

    def __post_init__(self) -> None:
        block = self.function.body.block
        computing = [op for op in block.ops if not isinstance(op, ConstantOp | ReturnOp)]
        self.position = {op: number for number, op in enumerate(computing)}
        self.groups = [Members([op], self.factor_of([op], op.results)) for op in computing]
        self._index()

    def merge(self) -> list[Members]:
        """The groups when no pattern is left that may be merged."""
        while any([self._straight(), self._diamonds(), self._branches()]):
            pass
        return self.groups

    def outputs(self, ops: Iterable[Operation]) -> list[SSAValue]:
        """The results of ops that others read."""
        members = set(ops)
        return [
            result
            for op in sorted(members, key=self.position.__getitem__)
            for result in op.results
            if any(use.operation not in members for use in result.uses) or not result.uses
        ]

    def _index(self) -> None:
        self.owner = {op: group for group in self.groups for op in group.ops}
        self.producers: dict[Members, dict[Members, None]] = {}
        self.consumers: dict[Members, dict[Members, None]] = {g: {} for g in self.groups}
        self.leaves: set[Members] = set()
        for group in self.groups:
            found = dict[Members, None]()
            for op in group.ops:
                for operand in op.operands:
                    maker = operand.owner
                    other = self.owner.get(maker) if isinstance(maker, Operation) else None
                    if other is not None and other is not group:
                        found[other] = None
                        self.consumers[other][group] = None
                for result in op.results:
                    if any(isinstance(use.operation, ReturnOp) for use in result.uses):
                        self.leaves.add(group)
            self.producers[group] = found

    def _only_consumer(self, group: Members) -> Members | None:
        """The one group that reads a group's outputs; None if others do, or the caller."""
        consumers = self.consumers[group]
        return next(iter(consumers)) if len(consumers) == 1 and group not in self.leaves else None

    def _straight(self) -> bool:
        return self._pairs(lambda second: len(self.producers[second]) == 1)

    def _branches(self) -> bool:
        return self._pairs(lambda second: len(self.producers[second]) > 1)

    def _pairs(self, may_be_second: Callable[[Members], bool]) -> bool:
        """Merge groups into their only consumers, as long as that is possible."""
        merged, number = False, 0
        while number < len(self.groups):
            first = self.groups[number]
            second = self._only_consumer(first)
            if second is not None and may_be_second(second) and self._rule_one(first, second):
                merged, number = True, max(number - 1, 0)
            else:
                number += 1
        return merged

    def _rule_one(self, first: Members, second: Members) -> bool:
        if first.factor is None or second.factor is None or second.factor < first.factor:
            return False
        return self._try([first, second], second.factor)

    def _diamonds(self) -> bool:
        merged, number = False, 0
        while number < len(self.groups):
            end = self.groups[number]
            inner = self._inside_diamond(end)
            parts = [*inner, end]
            factors = [part.factor for part in parts if part.factor is not None]
            if inner and len(factors) == len(parts) and self._try(parts, max(factors)):
                merged, number = True, 0
            else:
                number += 1
        return merged

    def _inside_diamond(self, end: Members) -> list[Members]:
        """The groups between the entry of a diamond and its exit; none if there is no diamond."""
        if len(self.producers[end]) < 2:
            return []
        before = self._ancestors(end)
        for entry in reversed([g for g in self.groups if g in before]):
            inner = [g for g in before if entry in self._ancestors(g)]
            closed = all(
                consumer in inner or consumer is end
                for g in inner
                for consumer in self.consumers[g]
            ) and not any(g in self.leaves for g in inner)
            known = {entry, *inner}
            fed = all(producer in known for g in (*inner, end) for producer in self.producers[g])
            if inner and closed and fed:
                return sorted(inner, key=self.groups.index)
            if not fed and len(inner) > self.most:
                break
        return []

    def _ancestors(self, group: Members) -> dict[Members, None]:
        found, waiting = dict[Members, None](), [group]
        while waiting:
            for producer in self.producers[waiting.pop()]:
                if producer not in found:
                    found[producer] = None
                    waiting.append(producer)
        return found

    def _try(self, parts: Sequence[Members], limit: int) -> bool:
        """Merge if the factor of all together is within the limit."""
        ops = sorted((op for part in parts for op in part.ops), key=self.position.__getitem__)
        if len(ops) > self.most:
            return False
        factor = self.factor_of(ops, self.outputs(ops))
        if factor is None or factor > limit:
            return False
        last = max(self.groups.index(part) for part in parts)
        self.groups[last] = Members(ops, factor)
        self.groups = [g for g in self.groups if g not in parts]
        self._index()
        self._sort()
        return True

    def _sort(self) -> None:
        """Topological order, by the last op of each group where there is a choice."""
        waiting = sorted(self.groups, key=lambda g: self.position[g.ops[-1]])
        done, order = set[Members](), list[Members]()
        while waiting:
            ready = next(g for g in waiting if all(p in done for p in self.producers[g]))
            waiting.remove(ready)
            done.add(ready)
            order.append(ready)
        self.groups = order
