"""Cycles of the convolutions of ResNet-18 by the clock, beside TVM's and what the machine could do.

For each of C1 to C11 (see `resnet_layers`): cycles from launch to FINISH, the compute limit of its
shape and the ratio of the two, the GEMM core's utilisation, the lower bound of the program itself,
and the seconds of processor time it took to compile. Beside them the same layer with TVM's schedule
and tuned tiles (see `tvm_tiles`), which multiplies the padding, in virtual threads and in one: what
the threads gain is latency hidden. Then totals with the multiplicities of ResNet-18.

Each program's result is compared with the integer reference first. Run: ``python FILE --help``.
"""

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from resnet_layers import LAYERS, CompiledLayer, Layer, compile_layer, layer_named
from tvm_tiles import TUNED, Tiles, tvm_stages

from vtac.sim import TimingReport
from vtac.sim.timing.pictures import roofline_of

TARGETS = ("chisel-pynq", "chisel-de10", "pynq")

OURS = f"{'layer':20}{'cycles':>10}{'limit':>10}{'ratio':>7}{'GEMM':>7}{'bound':>10}{'ratio':>7}"
HEADER = (
    f"{OURS}{'insns':>6}{'seconds':>9}{'TVM':>12}{'ours':>7}{'GEMM':>7}{'1 thread':>12}{'GEMM':>7}"
)
"""``ours``: our cycles over TVM's. ``GEMM``: utilisation of the GEMM core."""


@dataclass(frozen=True)
class Baseline:
    """A layer in TVM's schedule, with its threads and in one."""

    threads: TimingReport
    alone: TimingReport


@dataclass(frozen=True)
class Row:
    """What is printed about one layer. wrong: programs that differ from the reference."""

    layer: Layer
    residual: bool
    report: TimingReport
    seconds: float
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

    @property
    def tvm(self) -> int | None:
        """Cycles of TVM's schedule."""
        return None if self.baseline is None else self.baseline.threads.cycles


class Bench:
    """Compiles and times layers for one target. check: whether results are compared."""

    def __init__(self, target: str, shift: str, *, check: bool) -> None:
        self.target, self.shift, self.check = target, shift, check

    def row(self, layer: Layer, *, residual: bool, baseline: bool) -> Row:
        """Everything about one layer."""
        wrong: list[str] = []
        started = time.process_time()
        compiled = compile_layer(layer, self.target, shift=self.shift, residual=residual)
        seconds = time.process_time() - started
        report = self._report(compiled, wrong, "")
        tiles = TUNED.get(layer.name) if baseline and not residual else None
        return Row(
            layer,
            residual,
            report,
            seconds,
            None if tiles is None else self._baseline(layer, tiles, wrong),
            wrong,
        )

    def _baseline(self, layer: Layer, tiles: Tiles, wrong: list[str]) -> Baseline:
        reports = []
        for threads in (tiles, tiles.alone):
            stages = tvm_stages(threads)
            compiled = compile_layer(layer, self.target, shift=self.shift, stages=stages)
            reports.append(self._report(compiled, wrong, f" with TVM's schedule, {threads}"))
        return Baseline(*reports)

    def _report(self, compiled: CompiledLayer, wrong: list[str], what: str) -> TimingReport:
        if self.check and not compiled.is_exact():
            wrong.append(f"{compiled.layer.name} on {self.target}{what}")
        return compiled.report()


def line_of(row: Row) -> str:
    """What stands under `HEADER`."""
    total = row.report.total
    text = (
        f"{row.name:20}{_figures(row.cycles, row.limit)}{total.gemm_utilisation:7.1%}"
        f"{total.lower_bound:10,}{row.cycles / total.lower_bound:7.3f}"
        f"{len(row.report.work.kind):6,}{row.seconds:9.2f}"
    )
    if row.baseline is not None:
        threads, alone = row.baseline.threads, row.baseline.alone
        text += (
            f"{threads.cycles:12,}{row.cycles / threads.cycles:7.3f}"
            f"{threads.total.gemm_utilisation:7.1%}"
            f"{alone.cycles:12,}{alone.total.gemm_utilisation:7.1%}"
        )
    return text.rstrip()


def _figures(cycles: int, limit: int) -> str:
    return f"{cycles:10,}{limit:10,}{cycles / limit:7.3f}"


def totals(rows: Sequence[Row]) -> Iterator[str]:
    """Lines for C2 to C11 as often as ResNet-18 has them, as far as all are there."""
    plain = {row.layer: row for row in rows if not row.residual}
    added = {row.layer: row for row in rows if row.residual}
    body = [layer for layer in LAYERS if layer.name != "C1"]
    if not all(layer in plain for layer in body):
        return

    def total(figure: Callable[[Row], int]) -> int:
        return sum(layer.times * figure(plain[layer]) for layer in body)

    text = f"{'C2 to C11, weighted':20}{_figures(total(_cycles), total(_limit))}"
    if all(plain[layer].baseline is not None for layer in body):
        tvm = total(lambda row: row.tvm or 0)
        text += f"{'':39}{tvm:12,}{total(_cycles) / tvm:7.3f}"
    yield text
    if all(layer in added for layer in body if layer.additions):
        figures = [
            total(figure)
            + sum(
                layer.additions * (figure(added[layer]) - figure(plain[layer])) for layer in added
            )
            for figure in (_cycles, _limit)
        ]
        yield f"{'with 8 additions':20}{_figures(*figures)}"


def _cycles(row: Row) -> int:
    return row.cycles


def _limit(row: Row) -> int:
    return row.limit


def hidden(rows: Sequence[Row]) -> str | None:
    """The best utilisation of the GEMM core in one thread, and in virtual threads."""
    baselines = [row.baseline for row in rows if row.baseline is not None]
    if not baselines:
        return None
    alone = max(baseline.alone.total.gemm_utilisation for baseline in baselines)
    threads = max(baseline.threads.total.gemm_utilisation for baseline in baselines)
    gain = [baseline.alone.cycles / baseline.threads.cycles - 1 for baseline in baselines]
    return (
        f"latency hidden by TVM's virtual threads: at best {alone:.0%} of the GEMM core without,"
        f" {threads:.0%} with them; {min(gain):.0%} to {max(gain):.0%} faster"
    )


def roofline(rows: Sequence[Row], path: Path) -> None:
    """Write the roofline of TVM's schedules in one thread and in several, a dot a layer."""
    found = [(row.name, row.baseline) for row in rows if row.baseline is not None]
    dots = [(f"{name}, one thread", baseline.alone) for name, baseline in found]
    dots += [(f"{name}, virtual threads", baseline.threads) for name, baseline in found]
    accounts = [dataclasses.replace(report.total, label=label) for label, report in dots]
    report = found[0][1].threads
    suffix = path.suffix.removeprefix(".") or "png"
    path.write_bytes(roofline_of(report.target, report.preset, accounts, suffix))


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
    parser.add_argument("--no-tvm", action="store_true", help="without TVM's schedules")
    parser.add_argument(
        "--roofline",
        type=Path,
        metavar="FILE",
        help="TVM's schedules on the last target, a picture",
    )
    return parser.parse_args()


def main() -> int:
    """A table a target; 1 if a result is wrong."""
    options = arguments()
    wrong: list[str] = []
    for target in options.targets:
        print(f"{target}, a shift a {options.shift}\n{HEADER}")
        bench = Bench(target, options.shift, check=not options.no_check)
        rows: list[Row] = []
        for layer in options.layers:
            for residual in (False, True) if options.residual and layer.additions else (False,):
                row = bench.row(layer, residual=residual, baseline=not options.no_tvm)
                print(line_of(row), flush=True)
                rows.append(row)
                wrong += row.wrong
        for line in totals(rows):
            print(line)
        print(hidden(rows) or "", end="\n\n")
        if options.roofline and target == options.targets[-1]:
            roofline(rows, options.roofline)
    for line in wrong:
        print(f"wrong result: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
