"""How fast the host is, which decides what is worth a launch."""

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class HostRates:
    """Options of a pass that compares with the host: rates of `HostModel` by name.

    A rate takes the place of the one that the codegen assumes; None takes none.
    """

    macs_a_cycle: int | float | None = None
    bytes_a_cycle: int | float | None = None
    cycles_an_op: int | float | None = None
    cycles_a_launch: int | float | None = None


@dataclass(frozen=True)
class HostModel:
    """How fast the host would compute a region itself, in cycles of the codegen's clock.

    macs_a_cycle: multiply-accumulates per cycle. bytes_a_cycle: bytes read and written per cycle,
    in ops without products and across the border of a region. cycles_an_op: further cycles per op.
    cycles_a_launch: cycles per launch besides the region's own. The defaults describe the board of
    the VTA paper (see docs/partitioning.md).
    """

    macs_a_cycle: float = 4.0
    bytes_a_cycle: float = 4.0
    cycles_an_op: float = 2000.0
    cycles_a_launch: float = 1000.0

    def with_options(self, options: HostRates) -> "HostModel":
        """The model with the rates that a pass was given."""
        given = {field.name: getattr(options, field.name) for field in fields(self)}
        return replace(self, **{name: rate for name, rate in given.items() if rate is not None})
