"""The C program under construction: values with their memory, constants, and steps in order."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vtac.runtime.c_project.tensors import C_TYPES, Array, DType, ProgramTensor, identifier, literal

_PER_LINE = 12


@dataclass(frozen=True)
class CStep:
    """One function of the program.

    title: what it does, for people. reads, writes: names of values in the plan. can_fail: whether
    the function returns a status; launches do.
    """

    title: str
    lines: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    can_fail: bool = False


@dataclass
class Body:
    """Everything that ``network.c`` has.

    constants: names of the arrays of the program, by their declarations and their elements.
    sizes: the bytes of each value that needs memory, by its name in the plan. titles: what people
    call these values.
    """

    steps: list[CStep] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    constants: dict[tuple[str, str], str] = field(default_factory=dict)

    def value(self, hint: str, dtype: DType, shape: tuple[int, ...]) -> ProgramTensor:
        """A tensor with memory of its own."""
        name = f"V{len(self.sizes)}_{identifier(hint)}"
        made = ProgramTensor("", dtype, shape, name)
        self.sizes[name] = made.bytes
        self.titles[name] = f"{hint} {made.describe()}"
        return ProgramTensor(f"AT({made.c_type}, {name})", dtype, shape, name)

    def view(self, tensor: ProgramTensor, shape: tuple[int, ...]) -> ProgramTensor:
        """The same elements in another shape."""
        array = None if tensor.array is None else tensor.array.reshape(shape)
        return ProgramTensor(tensor.pointer, tensor.dtype, shape, tensor.value, array)

    def constant(self, array: Array) -> ProgramTensor:
        """A tensor of known elements."""
        return ProgramTensor("", array.dtype, array.shape, None, array)

    def pointer(self, tensor: ProgramTensor) -> str:
        """An expression of the first element; that of a constant is an array of the program."""
        if tensor.array is None:
            return tensor.pointer
        return self.table(tensor.array)

    def table(self, array: Array) -> str:
        """The name of an array of the program with these elements in row-major order."""
        flat = np.ascontiguousarray(array).reshape(-1)
        numbers = [literal(value, flat.dtype) for value in flat.tolist()]
        rows = [
            "    " + ", ".join(numbers[start : start + _PER_LINE]) + ","
            for start in range(0, len(numbers), _PER_LINE)
        ]
        head = f"{C_TYPES[flat.dtype]} {{name}}[{len(numbers)}]"
        text = "\n".join(rows)
        return self.constants.setdefault((head, text), f"constant_{len(self.constants)}")

    def step(
        self,
        title: str,
        reads: Sequence[ProgramTensor],
        writes: Sequence[ProgramTensor],
        lines: Sequence[str],
    ) -> None:
        """Append a function of the host."""
        names = tuple(dict.fromkeys(t.value for t in reads if t.value is not None))
        made = tuple(t.value for t in writes if t.value is not None)
        self.steps.append(CStep(title, tuple(lines), names, made))

    def operands(self, **tensors: ProgramTensor) -> list[str]:
        """Declarations of pointers: those to constants and to inputs are const, ``y`` is not."""
        return [
            f"{'' if name == 'y' else 'const '}{tensor.c_type} *{name} = {self.pointer(tensor)};"
            for name, tensor in tensors.items()
        ]
