"""Cycles of the convolutions of ResNet-18 by the clock, beside TVM's and what the machine could do.

For each of C1 to C11 (see `resnet_layers`): cycles from launch to FINISH, the compute limit of its
shape and the ratio of the two, the GEMM core's utilisation, the lower bound of the program itself,
and the seconds of processor time it took to compile. Beside them the same layer with TVM's schedule
and tuned tiles (see `tvm_tiles`), which multiplies the padding, in virtual threads and in one: what
the threads gain is latency hidden. Then totals with the multiplicities of ResNet-18.

``--config FILE [FILE ...]`` asks the same of machines that files describe (``machines/`` has five),
with BATCH images each: cycles over the machine's limit, which is the largest of compute, reads and
writes (`Layer.limits`), and a table that has a column for each machine.

Each program's result is compared with the integer reference first. Run: ``python FILE --help``.
"""

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from resnet_layers import LAYERS, CompiledLayer, Layer, compile_layer, layer_named
from tvm_tiles import TUNED, Tiles, with_tvm_schedule

from vtac.dialects.target import Target
from vtac.sim import TimingReport
from vtac.sim.timing.pictures import roofline_of

TARGETS = ("chisel-pynq", "chisel-de10", "pynq")

COLUMNS = (
    ("layer", 20),
    ("cycles", 10),
    ("limit", 10),
    ("ratio", 7),
    ("GEMM", 7),
    ("bound", 10),
    ("ratio", 7),
    ("insns", 6),
    ("seconds", 8),
    ("channel", 11),
    ("ratio", 7),
    ("TVM", 11),
    ("ours", 7),
    ("GEMM", 7),
    ("1 thread", 11),
    ("GEMM", 7),
)
"""Names and widths. ``channel``: with one shift per channel; ``ours``: our cycles over TVM's;
``ratio``: over the column before, but for ``channel`` over the limit; ``GEMM``: utilisation."""

README_COLUMNS = {
    0: "layer",
    1: "cycles",
    2: "compute limit",
    3: "ratio",
    4: "GEMM core",
    9: "one shift per channel",
    11: "TVM's tiles",
    12: "ours / TVM's",
    13: "its GEMM core",
    14: "in one thread",
    15: "its GEMM core",
}
"""Those that ``--readme`` writes."""

Line = list[str]
"""A cell a column."""


@dataclass(frozen=True)
class Baseline:
    """A layer in TVM's schedule, with its threads and in one."""

    threads: TimingReport
    alone: TimingReport


@dataclass(frozen=True)
class Row:
    """What is printed about one layer.

    channel: with one shift per channel instead. wrong: programs that differ from the reference.
    """

    layer: Layer
    residual: bool
    report: TimingReport
    seconds: float
    channel: TimingReport | None
    baseline: Baseline | None
    wrong: Sequence[str]

    @property
    def name(self) -> str:
        """``C2+`` is C2 with the residual addition."""
        return f"{self.layer.name}+" if self.residual else self.layer.name

    @property
    def cycles(self) -> int:
        """Of our program."""
        return self.report.cycles

    @property
    def limit(self) -> int:
        """Of the layer's shape, on the target."""
        report = self.report
        return self.layer.compute_limit(report.target, report.preset, residual=self.residual)


class Bench:
    """Compiles and times layers for one target.

    shift: ``block``, ``channel`` or ``both``. padding: 0, or -128 as after a relu; TVM's is 0.
    check: whether results are compared.
    """

    def __init__(self, target: str, shift: str, *, padding: int = 0, check: bool) -> None:
        self.target, self.padding, self.check = target, padding, check
        self.shift = "channel" if shift == "channel" else "block"
        self.both = shift == "both"

    def row(self, layer: Layer, *, residual: bool, baseline: bool) -> Row:
        """Everything about one layer."""
        wrong: list[str] = []
        started = time.process_time()
        options = {"residual": residual, "padding": self.padding}
        compiled = compile_layer(layer, self.target, shift=self.shift, **options)
        seconds = time.process_time() - started
        report, channel = self._report(compiled, wrong, ""), None
        if self.both:
            other = compile_layer(layer, self.target, shift="channel", **options)
            channel = self._report(other, wrong, " with one shift per channel")
        tiles = TUNED.get(layer.name) if baseline and not residual else None
        return Row(
            layer,
            residual,
            report,
            seconds,
            channel,
            None if tiles is None else self._baseline(layer, tiles, wrong),
            wrong,
        )

    def _baseline(self, layer: Layer, tiles: Tiles, wrong: list[str]) -> Baseline:
        reports = []
        for threads in (tiles, tiles.alone):
            change = partial(with_tvm_schedule, tiles=threads)
            compiled = compile_layer(layer, self.target, shift=self.shift, pipeline=change)
            reports.append(self._report(compiled, wrong, f" with TVM's schedule, {threads}"))
        return Baseline(*reports)

    def _report(self, compiled: CompiledLayer, wrong: list[str], what: str) -> TimingReport:
        if self.check and not compiled.is_exact():
            wrong.append(f"{compiled.layer.name} on {self.target}{what}")
        return compiled.report()


def line_of(row: Row) -> Line:
    """A layer."""
    total, base = row.report.total, row.baseline
    line = [
        row.name,
        *_figures(row.cycles, row.limit),
        f"{total.gemm_utilisation:.1%}",
        f"{total.lower_bound:,}",
        f"{row.cycles / total.lower_bound:.3f}",
        f"{len(row.report.work.kind):,}",
        f"{row.seconds:.2f}",
    ]
    if row.channel is None:
        line += ["", ""]
    else:
        line += [f"{row.channel.cycles:,}", f"{row.channel.cycles / row.limit:.3f}"]
    if base is None:
        return [*line, *[""] * 5]
    threads, alone = base.threads, base.alone
    ours = f"{row.cycles / threads.cycles:.3f}"
    line += [f"{threads.cycles:,}", ours, f"{threads.total.gemm_utilisation:.1%}"]
    return [*line, f"{alone.cycles:,}", f"{alone.total.gemm_utilisation:.1%}"]


def _figures(cycles: int, limit: int) -> Line:
    return [f"{cycles:,}", f"{limit:,}", f"{cycles / limit:.3f}"]


def totals(rows: Sequence[Row]) -> list[Line]:
    """C2 to C11 as often as ResNet-18 has them, as far as all are there."""
    plain = {row.layer: row for row in rows if not row.residual}
    added = {row.layer: row for row in rows if row.residual}
    body = [layer for layer in LAYERS if layer.name != "C1"]
    if not all(layer in plain for layer in body):
        return []
    lines = [_total("C2 to C11, weighted", [(plain[layer], layer.times) for layer in body])]
    if all(layer in added for layer in body if layer.additions):
        parts = [(plain[layer], layer.times - layer.additions) for layer in body]
        parts += [(row, layer.additions) for layer, row in added.items()]
        lines.append(_total("with 8 additions", parts))
    return lines


def _total(name: str, parts: Sequence[tuple[Row, int]]) -> Line:
    cycles = sum(times * row.cycles for row, times in parts)
    limit = sum(times * row.limit for row, times in parts)
    line = [name, *_figures(cycles, limit), *[""] * 5]
    channel = [times * row.channel.cycles for row, times in parts if row.channel is not None]
    whole = len(channel) == len(parts)
    line += [f"{sum(channel):,}", f"{sum(channel) / limit:.3f}"] if whole else ["", ""]
    tvm = [times * row.baseline.threads.cycles for row, times in parts if row.baseline is not None]
    alone = [times * row.baseline.alone.cycles for row, times in parts if row.baseline is not None]
    if len(tvm) < len(parts):
        return [*line, *[""] * 5]
    return [*line, f"{sum(tvm):,}", f"{cycles / sum(tvm):.3f}", "", f"{sum(alone):,}", ""]


def text_of(line: Line) -> str:
    """A line of the table on a terminal."""
    first, *cells = zip(line, [width for _, width in COLUMNS], strict=True)
    text = "".join(f"{cell:>{width}}" for cell, width in cells)
    return f"{first[0]:{first[1]}}{text}".rstrip()


def write_readme(path: Path, lines: Sequence[Line], note: str) -> None:
    """Put the table between the two comments that name this script."""
    names = list(README_COLUMNS.values())
    rows = [names, ["---", *["---:"] * (len(names) - 1)]]
    rows += [[line[column] for column in README_COLUMNS] for line in lines]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    begin, end = "<!-- bench_layers -->", "<!-- end of bench_layers -->"
    before, _, rest = path.read_text().partition(begin)
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}\n\n{table}\n\n{note}\n\n{end}{after}")


def hidden(rows: Sequence[Row]) -> str | None:
    """The best utilisation of the GEMM core in one thread, and in virtual threads."""
    baselines = [row.baseline for row in rows if row.baseline is not None]
    if not baselines:
        return None
    alone = max(baseline.alone.total.gemm_utilisation for baseline in baselines)
    threads = max(baseline.threads.total.gemm_utilisation for baseline in baselines)
    gain = [baseline.alone.cycles / baseline.threads.cycles - 1 for baseline in baselines]
    return (
        f"Latency hidden by TVM's virtual threads: at best {alone:.0%} of the GEMM core without,"
        f" {threads:.0%} with them;\nlayers are {min(gain):.0%} to {max(gain):.0%} faster."
    )


def roofline(rows: Sequence[Row], path: Path) -> None:
    """Write the roofline of TVM's schedules in one thread and in several, one dot per layer."""
    found = [(row.name, row.baseline) for row in rows if row.baseline is not None]
    dots = [(f"{name}, one thread", baseline.alone) for name, baseline in found]
    dots += [(f"{name}, virtual threads", baseline.threads) for name, baseline in found]
    accounts = [dataclasses.replace(report.total, label=label) for label, report in dots]
    report = found[0][1].threads
    suffix = path.suffix.removeprefix(".") or "png"
    path.write_bytes(roofline_of(report.target, report.preset, accounts, suffix))


@dataclass(frozen=True)
class Reached:
    """A layer on a machine: cycles of its program, and the largest limit with what sets it."""

    layer: Layer
    cycles: int
    limit: int
    bound_by: str
    exact: bool

    @property
    def text(self) -> str:
        """The ratio, and what bounds it unless that is compute."""
        note = "" if self.bound_by == "compute" else f" ({self.bound_by})"
        return f"{self.cycles / self.limit:.3f}{note}"


def reached(layer: Layer, target: Target, *, check: bool) -> Reached:
    """Compile and time a layer for a batch of images of the machine."""
    compiled = compile_layer(layer, target, images=target.batch)
    limits = layer.limits(target, images=target.batch)
    bound = max(limits, key=lambda name: limits[name])
    exact = not check or compiled.is_exact()
    return Reached(layer, compiled.report().cycles, limits[bound], bound, exact)


def machines(paths: Sequence[Path], layers: Sequence[Layer], *, check: bool) -> list[str]:
    """Print the layers on each machine, then the table of ratios; what computed wrong results."""
    found: dict[str, list[Reached]] = {}
    for path in paths:
        target = Target.of(path)
        print(f"{path.stem}: {target}")
        rows = found[path.stem] = []
        for layer in layers:
            rows.append(row := reached(layer, target, check=check))
            figures = f"{row.cycles:>10,}{row.limit:>10,} by {row.bound_by:8}"
            print(f"{layer.name:5}{figures}{row.cycles / row.limit:>7.3f}", flush=True)
    print(f"\n| layer | {' | '.join(found)} |\n| --- |{' ---: |' * len(found)}")
    for rows in zip(*found.values(), strict=True):
        print(f"| {rows[0].layer.name} | {' | '.join(row.text for row in rows)} |")
    return [
        f"{row.layer.name} on {name}"
        for name, rows in found.items()
        for row in rows
        if not row.exact
    ]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="+", default=TARGETS, metavar="TARGET")
    parser.add_argument(
        "--config", nargs="+", type=Path, metavar="FILE", help="machines instead of targets"
    )
    parser.add_argument(
        "--layers",
        type=lambda text: [layer_named(name) for name in text.split(",")],
        default=LAYERS,
        help="a list, C2,C5 (default: all)",
    )
    parser.add_argument(
        "--shift",
        choices=("block", "channel", "both"),
        default="both",
        help="what shares one; both: a block, and the cycles with one per channel beside it",
    )
    parser.add_argument("--residual", action="store_true", help="also with residual additions")
    parser.add_argument(
        "--padding",
        type=int,
        choices=[0, -128],
        default=0,
        help="what the padding holds: -128 as after a relu (TVM's schedules keep 0)",
    )
    parser.add_argument("--no-check", action="store_true", help="do not compare results")
    parser.add_argument("--no-tvm", action="store_true", help="without TVM's schedules")
    parser.add_argument(
        "--roofline",
        type=Path,
        metavar="FILE",
        help="TVM's schedules on the last target, a picture",
    )
    parser.add_argument(
        "--readme", type=Path, metavar="FILE", help="write the last target's table into this page"
    )
    return parser.parse_args()


def main() -> int:
    """A table a target; 1 if a result is wrong."""
    options = arguments()
    wrong: list[str] = []
    if options.config:
        options.targets = []
        wrong += machines(options.config, options.layers, check=not options.no_check)
    rows: list[Row] = []
    for target in options.targets:
        shift = "channel" if options.shift == "channel" else "block"
        print(f"{target}, a shift a {shift}\n{text_of([name for name, _ in COLUMNS])}")
        rows = []
        for row in measured(options, target):
            print(text_of(line_of(row)), flush=True)
            rows.append(row)
            wrong += row.wrong
        print(*map(text_of, totals(rows)), hidden(rows) or "", "", sep="\n")
    if options.roofline:
        roofline(rows, options.roofline)
    if options.readme:
        lines = [*map(line_of, rows), *totals(rows)]
        write_readme(options.readme, lines, hidden(rows) or "")
    for line in wrong:
        print(f"wrong result: {line}")
    return 1 if wrong else 0


def measured(options: argparse.Namespace, target: str) -> Iterator[Row]:
    """The rows of one target, one by one."""
    bench = Bench(target, options.shift, padding=options.padding, check=not options.no_check)
    for layer in options.layers:
        for residual in (False, True) if options.residual and layer.additions else (False,):
            yield bench.row(layer, residual=residual, baseline=not options.no_tvm)


if __name__ == "__main__":
    sys.exit(main())
