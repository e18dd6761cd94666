"""One node of a host part, as converters see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from vtac.runtime.c_project.body import Body
from vtac.runtime.c_project.tensors import Array, DType, NotExportedError, ProgramTensor


@dataclass(frozen=True)
class ProgramNode:
    """A node with its operands.

    inputs: None where one is absent. results: type and shape of each output, "" for an absent name.
    """

    proto: onnx.NodeProto
    opset: int
    inputs: Sequence[ProgramTensor | None]
    results: Sequence[tuple[str, DType, tuple[int, ...]]]

    @property
    def op(self) -> str:
        """The operator."""
        return self.proto.op_type

    def title(self, name: str = "") -> str:
        """What people call the node."""
        shown = f" '{self.proto.name}'" if self.proto.name else ""
        return f"{name or self.op}{shown}"

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes by name."""
        return {a.name: onnx.helper.get_attribute_value(a) for a in self.proto.attribute}

    def input(self, number: int) -> ProgramTensor:
        """An operand that must be there."""
        found = self.optional(number)
        if found is None:
            raise NotExportedError(f"has no input {number}")
        return found

    def optional(self, number: int) -> ProgramTensor | None:
        """An operand, or None if it is absent."""
        return self.inputs[number] if number < len(self.inputs) else None

    def known(self, number: int, attribute: str = "") -> Array | None:
        """An operand that must be constant, or the attribute that earlier opsets have instead."""
        tensor = self.optional(number)
        if tensor is None:
            value = self.attributes.get(attribute)
            return None if value is None else np.asarray(value)
        if tensor.array is None:
            raise NotExportedError(
                f"its input {number} ({self.proto.input[number]!r}) is computed at run time, and C"
                " has to know it",
                "Make it a constant of the model (onnxsim, or vta-compile --shape where it depends"
                " on a shape).",
            )
        return tensor.array

    def result(self, body: Body, number: int = 0) -> ProgramTensor:
        """A new tensor for an output."""
        name, dtype, shape = self.results[number]
        return body.value(name, dtype, shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first output."""
        return self.results[0][2]
