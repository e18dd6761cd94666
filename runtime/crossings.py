"""What a run of a model moves between host and accelerator, counted from its plan.

Each launch costs a dispatch, and its operands and results cross the border. Constants are not
counted: they are written once, when the package is opened.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from vtac.dialects.wording import counted
from vtac.runtime.engine import tensor_dtype
from vtac.runtime.package import HOST, LAUNCH, Package, Value


@dataclass(frozen=True)
class Crossings:
    """Launches and host parts of one run, and the bytes that launches read and write.

    Values whose size is known only as the model runs count as 0 bytes.
    """

    launches: int
    host_parts: int
    bytes_in: int
    bytes_out: int

    @property
    def text(self) -> str:
        """A sentence."""
        return (
            f"{counted(self.launches, 'launch', 'launches')} and"
            f" {counted(self.host_parts, 'host part')}; "
            f"{self.bytes_in:,} bytes go to the accelerator and {self.bytes_out:,} come back"
        )


def crossings_of(package: Package) -> Crossings:
    """The crossings of one run of a package."""
    values = {value.name: value for value in package.values}
    launches = [step for step in package.steps if step.kind == LAUNCH]
    read = [values[name] for step in launches for name in step.inputs]
    written = [values[name] for step in launches for name in step.outputs]
    hosts = sum(step.kind == HOST for step in package.steps)
    return Crossings(len(launches), hosts, _bytes(read), _bytes(written))


def _bytes(values: Iterable[Value]) -> int:
    total = 0
    for value in values:
        dtype, shape = tensor_dtype(value), value.physical_shape
        if dtype is not None and shape is not None:
            total += prod(extent or 0 for extent in shape) * dtype.itemsize
    return total
