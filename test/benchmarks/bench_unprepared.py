"""Layers of ResNet-18 on ten machines that nobody prepared: what the default schedules reach.

For each machine of ``unprepared/`` and each of C2 to C11 (see `resnet_layers`): cycles of the layer
with its default schedules, and with the best that ``vta-tune`` finds in ``--trials`` trials, over
the machine's limit, which is the largest of compute, reads and writes. Each layer is a network of
its own. A line for each machine has geometric means and the layer that is worst.

Each figure is kept as a line of ``--results`` as soon as it is known, and is not computed again as
long as it is there: the bench goes on where it was stopped. ``--write`` puts the table into
docs/machines.md.

Run: ``python FILE --help``. Fifty trials of all layers take about an hour of one core;
``--machines`` and ``--layers`` choose.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from resnet_layers import LAYERS, Layer, feeds_of, layer_named, model_of

from vtac.dialects.target import Target
from vtac.tools.driver.options import CompileOptions
from vtac.tools.tune.api import tune
from vtac.tools.tune.keys import target_digest

FOLDER = Path(__file__).parent / "unprepared"
"""The machines: ten files."""

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build" / "bench_unprepared.jsonl"
PAGE = ROOT / "docs" / "machines.md"
BEGIN, END = "<!-- bench_unprepared.py -->", "<!-- end -->"


@dataclass(frozen=True)
class Reached:
    """A layer on a machine: cycles of the default schedules, of the best ones, and the limit.

    proved: whether the best programs were executed and agreed with the integer reference.
    """

    machine: str
    layer: str
    default: int
    tuned: int
    limit: int
    proved: bool

    @property
    def over_limit(self) -> float:
        """Cycles of the default over the limit."""
        return self.default / self.limit

    @property
    def over_tuned(self) -> float:
        """Cycles of the default over those of the best schedules."""
        return self.default / self.tuned


def reached(layer: Layer, machine: str, target: Target, trials: int) -> Reached:
    """Search the schedules of a layer for a batch of images of the machine."""
    images = target.batch
    with tempfile.TemporaryDirectory() as folder:
        found = tune(
            model_of(layer, images=images),
            target,
            feeds_of(layer, images=images),
            Path(folder) / "tune.db",
            trials=trials,
            compile_options=CompileOptions(shift="block", tuning=False),
        )
    assert found.network is not None
    default, tuned = found.network
    limit = max(layer.limits(target, images=images).values())
    proved = all(kernel.proved for kernel in found.kernels)
    return Reached(machine, layer.name, default, tuned, limit, proved)


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def line_of(name: str, rows: Sequence[Reached]) -> str:
    """A machine: geometric means of the default over the limit and over tuned, and the worst."""
    worst, lost = max(rows, key=lambda r: r.over_limit), max(rows, key=lambda r: r.over_tuned)
    limits, tunings = mean([r.over_limit for r in rows]), mean([r.over_tuned for r in rows])
    return (
        f"| {name} | {limits:.3f} | {worst.over_limit:.3f} ({worst.layer}) | {tunings:.3f} |"
        f" {lost.over_tuned:.3f} ({lost.layer}) |"
    )


def table_of(rows: Sequence[Reached]) -> str:
    """The table in Markdown: a line for each machine, and one for all."""
    lines = [
        "| machine | default / limit | worst | default / tuned | worst |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for machine in sorted({row.machine for row in rows}):
        lines.append(line_of(machine, [row for row in rows if row.machine == machine]))
    lines.append(line_of("all", rows))
    return "\n".join(lines)


def known(path: Path) -> dict[str, Reached]:
    """The figures of a file of results, by their keys."""
    lines = path.read_text().splitlines() if path.is_file() else []
    entries = [json.loads(line) for line in lines]
    return {entry.pop("key"): Reached(**entry) for entry in entries}


def keep(path: Path, key: str, row: Reached) -> None:
    """Add a figure to a file of results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        stream.write(json.dumps({"key": key, **asdict(row)}) + "\n")


def write_table(table: str) -> None:
    """Put the table between the marks of the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, behind = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{behind}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    files = sorted(FOLDER.glob("*.toml"))
    parser.add_argument("--machines", nargs="+", type=Path, default=files, metavar="FILE")
    parser.add_argument(
        "--layers",
        type=lambda text: [layer_named(name) for name in text.split(",")],
        default=[layer for layer in LAYERS if layer.name != "C1"],
        help="a list, C2,C5 (default: C2 to C11)",
    )
    parser.add_argument("--trials", type=int, default=50, help="(default: %(default)s)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="(default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    return parser.parse_args()


def main() -> None:
    """Search what is not known yet, a line for each layer, then print the table."""
    given = _arguments()
    done: Mapping[str, Reached] = known(given.results)
    rows: list[Reached] = []
    for layer in given.layers:
        for path in given.machines:
            target = Target.of(path)
            key = f"{layer.name}/{target_digest(target)}/{given.trials}"
            row = done.get(key)
            if row is None:
                row = reached(layer, path.stem, target, given.trials)
                keep(given.results, key, row)
            print(f"{row.machine} {row.layer}: {row.default:,} {row.tuned:,} {row.proved}")
            sys.stdout.flush()
            rows.append(row)
    table = table_of(rows)
    print(table)
    if given.write:
        write_table(table)


if __name__ == "__main__":
    main()
