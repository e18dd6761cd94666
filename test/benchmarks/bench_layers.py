"""Cycles of the convolutions of ResNet-18 by the clock, beside what the machine could do.

For each of C1 to C11 (see `resnet_layers`): cycles from launch to FINISH, the compute limit of its
shape and the ratio of the two, the GEMM core's utilisation, the lower bound of the program itself,
and the seconds of processor time it took to compile; then totals with the multiplicities of
ResNet-18. Each program's result is compared with the integer reference first. Run:
``python FILE --help``.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from resnet_layers import LAYERS, Layer, compile_layer, layer_named

TARGETS = ("chisel-pynq", "chisel-de10", "pynq")


@dataclass(frozen=True)
class Row:
    """What is printed about one program. wrong: its result is not that of the reference."""

    layer: Layer
    residual: bool
    wrong: bool
    cycles: int
    limit: int
    utilisation: float
    bound: int
    bound_by: str
    instructions: int
    seconds: float

    @property
    def name(self) -> str:
        """``C2+`` is C2 with the residual addition."""
        return f"{self.layer.name}+" if self.residual else self.layer.name


def measure(layer: Layer, target: str, *, shift: str, residual: bool, check: bool) -> Row:
    """Compile a layer and time it."""
    started = time.process_time()
    compiled = compile_layer(layer, target, shift=shift, residual=residual)
    seconds = time.process_time() - started
    report = compiled.report()
    total = report.total
    return Row(
        layer,
        residual,
        check and not compiled.is_exact(),
        report.cycles,
        layer.compute_limit(report.target, report.preset, residual=residual),
        total.gemm_utilisation,
        total.lower_bound,
        total.bound_by,
        len(report.work.kind),
        seconds,
    )


HEADER = (
    f"{'layer':20}{'cycles':>10}{'limit':>10}{'ratio':>7}{'GEMM':>7}{'bound':>10}{'ratio':>7}"
    f"{'insns':>6}{'compile s':>10}  bound by"
)


def line_of(row: Row) -> str:
    """What stands under `HEADER`."""
    return (
        f"{row.name:20}{_figures(row.cycles, row.limit)}{row.utilisation:7.1%}{row.bound:10,}"
        f"{row.cycles / row.bound:7.3f}{row.instructions:6,}{row.seconds:10.2f}  {row.bound_by}"
    )


def _figures(cycles: int, limit: int) -> str:
    return f"{cycles:10,}{limit:10,}{cycles / limit:7.3f}"


def totals(rows: Sequence[Row]) -> Iterator[tuple[str, int, int]]:
    """Name, cycles and limit of C2 to C11 as often as ResNet-18 has them, if all are there."""
    plain = {row.layer: row for row in rows if not row.residual}
    added = {row.layer: row for row in rows if row.residual}
    body = [layer for layer in LAYERS if layer.name != "C1"]
    if not all(layer in plain for layer in body):
        return

    def total(additions: bool, figure: Callable[[Row], int]) -> int:
        sums = 0
        for layer in body:
            count = layer.additions if additions else 0
            sums += (layer.times - count) * figure(plain[layer])
            sums += count * figure(added[layer]) if count else 0
        return sums

    for name, additions in (("C2 to C11, weighted", False), ("with 8 additions", True)):
        if not additions or all(layer in added for layer in body if layer.additions):
            yield (
                name,
                total(additions, lambda row: row.cycles),
                total(additions, lambda row: row.limit),
            )


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="+", default=TARGETS, metavar="TARGET")
    parser.add_argument(
        "--layers",
        type=lambda text: [layer_named(name) for name in text.split(",")],
        default=LAYERS,
        help="a list, C2,C5 (default: all)",
    )
    parser.add_argument("--shift", choices=("block", "channel"), default="block")
    parser.add_argument("--residual", action="store_true", help="also with residual additions")
    parser.add_argument("--no-check", action="store_true", help="do not compare results")
    return parser.parse_args()


def main() -> int:
    """A table a target; 1 if a result is wrong."""
    options = arguments()
    wrong: list[str] = []
    for target in options.targets:
        print(f"{target}, a shift a {options.shift}\n{HEADER}")
        rows: list[Row] = []
        for layer in options.layers:
            for residual in (False, True) if options.residual and layer.additions else (False,):
                row = measure(
                    layer,
                    target,
                    shift=options.shift,
                    residual=residual,
                    check=not options.no_check,
                )
                rows.append(row)
                print(line_of(row), flush=True)
                wrong += [f"{row.name} on {target}"] if row.wrong else []
        for name, cycles, limit in totals(rows):
            print(f"{name:20}{_figures(cycles, limit)}")
        print()
    for line in wrong:
        print(f"wrong result: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
