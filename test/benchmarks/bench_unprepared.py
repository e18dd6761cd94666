"""Layers of ResNet-18 on ten machines that nobody prepared: what the default schedules reach.

For each machine of ``unprepared/`` and each of C2 to C11 (see `resnet_layers`): cycles of the
default schedule over the machine's limit, which is the largest of compute, reads and writes. With
``--database FILE`` also over the cycles of the best schedule that ``vta-tune --database FILE`` has
recorded for the layer on that machine (the default's, where there is none). A line for each machine
has the geometric means and the layer that is worst.

Run: ``python FILE --help``. It takes some minutes; ``--machines`` and ``--layers`` choose.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from resnet_layers import LAYERS, Layer, compile_layer, layer_named

from vtac.dialects.target import Target

FOLDER = Path(__file__).parent / "unprepared"
"""The machines: ten files."""


@dataclass(frozen=True)
class Reached:
    """A layer on a machine: cycles of the default schedule, of the best one, and the limit."""

    layer: Layer
    default: int
    tuned: int
    limit: int

    @property
    def over_limit(self) -> float:
        """Cycles of the default over the limit."""
        return self.default / self.limit

    @property
    def over_tuned(self) -> float:
        """Cycles of the default over those of the best schedule."""
        return self.default / self.tuned


def reached(layer: Layer, target: Target, database: Path | None) -> Reached:
    """Compile and time a layer for a batch of images of the machine."""
    images = target.batch
    default = compile_layer(layer, target, images=images, tuning=False).report().cycles
    tuned = default
    if database is not None:
        tuned = compile_layer(layer, target, images=images, tuning=(database,)).report().cycles
    return Reached(layer, default, tuned, max(layer.limits(target, images=images).values()))


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def line_of(name: str, rows: Sequence[Reached]) -> str:
    """A machine: geometric means of the default over the limit and over tuned, and the worst."""
    worst, lost = max(rows, key=lambda r: r.over_limit), max(rows, key=lambda r: r.over_tuned)
    limits, tunings = mean([r.over_limit for r in rows]), mean([r.over_tuned for r in rows])
    return (
        f"| {name} | {limits:.3f} | {worst.over_limit:.3f} ({worst.layer.name}) | {tunings:.3f} |"
        f" {lost.over_tuned:.3f} ({lost.layer.name}) |"
    )


def main() -> None:
    """Print the table, a line as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    files = sorted(FOLDER.glob("*.toml"))
    parser.add_argument("--machines", nargs="+", type=Path, default=files, metavar="FILE")
    parser.add_argument(
        "--layers",
        type=lambda text: [layer_named(name) for name in text.split(",")],
        default=[layer for layer in LAYERS if layer.name != "C1"],
        help="a list, C2,C5 (default: C2 to C11)",
    )
    parser.add_argument("--database", type=Path, metavar="FILE", help="records of vta-tune")
    options = parser.parse_args()
    print("| machine | default / limit | worst | default / tuned | worst |")
    print("| --- | ---: | ---: | ---: | ---: |")
    every: list[Reached] = []
    for path in options.machines:
        target = Target.of(path)
        rows = [reached(layer, target, options.database) for layer in options.layers]
        print(line_of(path.stem, rows), flush=True)
        every += rows
    print(line_of("all", every))


if __name__ == "__main__":
    main()
