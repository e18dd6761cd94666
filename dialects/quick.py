"""Operations that a compilation makes by the thousands, made quickly.

xDSL's `Operation.__init__` sets every field through the property that would also change it later:
the uses of operands that are not there are removed, successors are listed. Here fields are set.
What is parsed or cloned comes through `create`, too.
"""

from collections.abc import Mapping, Sequence
from typing import Self

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, SSAValues, Use
from xdsl.irdl import IRDLOperation


class QuickOperation(IRDLOperation):
    """The base of operations without successors. They are as xDSL leaves them, in every field."""

    @classmethod
    def create(
        cls,
        *,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] = {},
        attributes: Mapping[str, Attribute] = {},
        location: LocationAttr | None = None,
        successors: Sequence[Block] = (),
        regions: Sequence[Region] = (),
    ) -> Self:
        """See `Operation.create`."""
        op = cls.__new__(cls)
        op.fill(operands, result_types, properties, regions, attributes, location)
        if successors:
            op.successors = successors  # which the verifier refuses
        return op

    def is_ancestor(self, op: Operation | Block | Region) -> bool:
        """See xDSL's `IRNode.is_ancestor`.

        A block asks it of each operation that it takes. One without regions holds nothing, so the
        way from the block up to the outermost operation need not be gone.
        """
        return super().is_ancestor(op) if self.regions else op is self

    def fill(
        self,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        properties: Mapping[str, Attribute],
        regions: Sequence[Region],
        attributes: Mapping[str, Attribute] = {},
        location: LocationAttr | None = None,
    ) -> None:
        """Set the fields of a new operation, as `Operation.__init__` does.

        Operands and results that there are none of stay what the class says they are.
        """
        if operands:
            self._operands = SSAValues(operands)
            self._operand_uses = tuple([Use(self, index) for index in range(len(operands))])
            for operand, use in zip(operands, self._operand_uses, strict=True):
                operand.add_use(use)
        if result_types:
            results = [OpResult(type, self, index) for index, type in enumerate(result_types)]
            self.results = SSAValues(results)
        self.properties = dict(properties)
        self.attributes = dict(attributes)
        self.location = UNKNOWN_LOC if location is None else location
        for region in regions:
            self.add_region(region)
        self.__post_init__()  # type: ignore[no-untyped-call]
