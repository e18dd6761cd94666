"""The tables of docs/search.md from the figures of `bench_search`."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import flextensor_kernels as flextensor
from network_distance import COMPUTE_REASONS

Figures = Mapping[str, Any]


def mean(values: Iterable[float]) -> float:
    """The geometric mean; 1 of nothing."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else 1.0


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Markdown; empty if there are no rows."""
    lines = [" | ".join(map(str, row)) for row in rows]
    if not lines:
        return ""
    head = [" | ".join(header), " | ".join("---" for _ in header)]
    return "\n".join(f"| {line} |" for line in (*head, *lines))


def layers(found: Mapping[str, Figures]) -> str:
    """One row per kernel, the best of its seeds; every seed's ratio."""
    by_name = defaultdict(list)
    for key, figures in found.items():
        by_name[key.split("/")[0]].append(figures)
    rows: list[Sequence[object]] = []
    for name, runs in by_name.items():
        best = min(runs, key=lambda figures: figures["best"])
        ratios = ", ".join(f"{f['default'] / f['best']:.4f}" for f in runs)
        rows.append(
            (
                name,
                f"{best['default']:,}",
                f"{best['best']:,}",
                ratios,
                f"{best['default'] / best['bound']:.3f}",
                best["at"],
                _proof(runs),
            )
        )
    if rows:
        total = mean(f["default"] / f["best"] for f in found.values())
        rows.append(("geometric mean", "", "", f"{total:.4f}", "", "", ""))
    header = (
        "kernel",
        "default",
        "best",
        "default / best",
        "default / bound",
        "at trial",
        "proved",
    )
    return table(header, rows)


def resnet(found: Mapping[str, Figures]) -> str:
    """One row per layer, and the sums as often as ResNet-18 runs them."""
    by_name: dict[str, dict[str, Figures]] = defaultdict(dict)
    for key, figures in found.items():
        name, target, _ = key.split("/")
        by_name[name][target] = figures
    targets = sorted({key.split("/")[1] for key in found}, reverse=True)
    complete = {n: f for n, f in by_name.items() if len(f) == len(targets)}
    rows: list[Sequence[object]] = []
    for name, runs in complete.items():
        cells = [f"{runs[t][what]:,}" for t in targets for what in ("default", "best")]
        rows.append((name, runs[targets[0]]["times"], *cells, _proof(list(runs.values()))))
    if rows:
        sums = [
            f"{sum(runs[t]['times'] * runs[t][what] for runs in complete.values()):,}"
            for t in targets
            for what in ("default", "best")
        ]
        rows.append(("sum", "", *sums, ""))
    columns = [f"{t}, {what}" for t in targets for what in ("default", "best")]
    return table(("layer", "times", *columns, "proved"), rows)


def overheads(found: Mapping[str, Figures]) -> str:
    """One row per layer, and the sums as often as ResNet-18 runs them."""
    columns = ("cycles", "bound", *COMPUTE_REASONS)
    rows: list[Sequence[object]] = [
        (name, f["times"], *(f"{f.get(column, 0):,}" for column in columns))
        for name, f in found.items()
    ]
    if rows:
        sums = [sum(f["times"] * f.get(c, 0) for f in found.values()) for c in columns]
        rows.append(("sum", "", *(f"{value:,}" for value in sums)))
    return table(("layer", "times", *columns), rows)


def kinds(found: Mapping[str, Figures]) -> str:
    """One row per kind, and YOLO-v1's layers one by one."""
    rows: list[Sequence[object]] = []
    for kind, (_, shapes) in flextensor.KINDS.items():
        own = [f for k, f in found.items() if k.split("/")[0].rpartition(" ")[0] == kind]
        if not own:
            continue
        ratios = [f["default"] / f["best"] for f in own]
        rows.append(
            (
                kind,
                f"{len(own)} of {len(shapes)}",
                f"{mean(ratios):.4f}",
                f"{max(ratios):.4f}",
                f"{min(ratios):.4f}",
                f"{mean(f['default'] / f['bound'] for f in own):.3f}",
                f"{mean(f['best'] / f['bound'] for f in own):.3f}",
                _proof(own),
            )
        )
    columns = ("mean gain", "largest", "smallest", "default / bound", "best / bound", "proved")
    whole = table(("kind", "cases", *columns), rows)
    yolo = [(k.split("/")[0], f) for k, f in found.items() if k.startswith("conv 2D ")]
    single = [
        (
            name.removeprefix("conv 2D "),
            " ".join(map(str, figures["shape"])),
            f"{figures['default']:,}",
            f"{figures['best']:,}",
            f"{figures['default'] / figures['best']:.4f}",
            f"{figures['default'] / figures['bound']:.3f}",
        )
        for name, figures in yolo
    ]
    header = ("layer", "C K H k stride", "default", "best", "default / best", "default / bound")
    return "\n\n".join(part for part in (whole, table(header, single)) if part)


def operators(found: Mapping[str, Figures]) -> str:
    """The two new operators."""
    rows = [
        (
            key.split("/")[0],
            "yes" if f["exact"] else "NO",
            f"{f['default']:,}",
            f"{f['best']:,}",
            f"{f['default'] / f['best']:.4f}",
            f"{f['default'] / f['bound']:.3f}",
            _proof([f]),
        )
        for key, f in found.items()
    ]
    columns = ("default", "best", "default / best", "default / bound", "proved")
    return table(("operator", "equals NumPy", *columns), rows)


def methods(found: Mapping[str, Figures]) -> str:
    """Default over best after so many clocked trials from a cold start, by method."""
    by_method: dict[str, list[Figures]] = defaultdict(list)
    for key, figures in found.items():
        if figures["best"]:
            by_method[key.split("/")[1]].append(figures)
    rows = []
    for method, runs in by_method.items():
        ratios = [f["default"] / f["best"] for f in runs]
        reached = [f["reached"] for f in runs if f["reached"] is not None]
        rows.append(
            (
                method,
                len(runs),
                f"{mean(ratios):.3f}",
                f"{min(ratios):.3f}",
                f"{max(ratios):.3f}",
                f"{len(reached)}",
                f"{statistics.median(reached):.0f}" if reached else "",
                f"{statistics.mean(f['seconds'] for f in runs):.1f}",
            )
        )
    reaching = ("runs that reach the default", "at trial (median)")
    columns = ("mean", "worst", "best", *reaching, "seconds per run")
    return table(("method", "runs", *columns), rows)


def ladder(found: Mapping[str, Figures]) -> str:
    """Q against P: simulated costs until the other's final result is reached."""
    runs: dict[tuple[str, str], dict[str, Figures]] = defaultdict(dict)
    for key, figures in found.items():
        name, method, _, seed = key.split("/")
        runs[name, seed][method] = figures
    rows: list[Sequence[object]] = []
    shares: dict[str, list[float]] = defaultdict(list)
    for (name, seed), by_method in sorted(runs.items()):
        if not {"p", "q"} <= set(by_method):
            continue
        curves = {method: figures["curve"] for method, figures in by_method.items()}
        goal = max(curves["p"][-1], curves["q"][-1])
        trials = {method: _first(curves[method], goal) for method in ("p", "q")}
        shares[name].append(trials["q"] / trials["p"])
        final = [
            f"{by_method['p']['default'] / curves[m][-1]:.3f}" if m in curves else ""
            for m in ("random", "annealing", "p", "q")
        ]
        rows.append((name, seed, *final, trials["p"], trials["q"], f"{shares[name][-1]:.2f}"))
    header = ("kernel", "seed", "random", "annealing", "P", "Q", "trials of P", "of Q", "Q / P")
    if not rows:
        return table(header, rows)
    return f"{table(header, rows)}\n\n{_verdict([statistics.median(s) for s in shares.values()])}"


def _verdict(shares: Sequence[float]) -> str:
    """Whether Q needs fewer trials than P, by a sign test. shares: Q over P, of each kernel."""
    fewer, more = sum(s < 1 for s in shares), sum(s > 1 for s in shares)
    chance = sign_test(fewer, more)
    answer = "differ" if chance < 0.05 else "cannot be told apart"
    return (
        f"Of each kernel the median over its seeds: Q needs fewer trials than P on {fewer} kernels"
        f" and more on {more}, at the median {statistics.median(shares):.2f} of P's. By a two-sided"
        f" sign test (p = {chance:.3f}, level 0.05) the methods {answer}."
    )


def sign_test(fewer: int, more: int) -> float:
    """The probability of a result at least as one-sided if both signs are equally likely."""
    count, least = fewer + more, min(fewer, more)
    tail = sum(math.comb(count, k) for k in range(least + 1))
    return min(1.0, 2 * tail / 2**count)


def optima(found: Mapping[str, Figures]) -> str:
    """Enumerated spaces."""
    rows = [
        (
            key.split("/")[0],
            f"{f['points']:,} of {f['size']:,}",
            f"{f['optimum']:,}",
            f"{f['default'] / f['optimum']:.4f}",
            f"{f['best'] / f['optimum']:.4f}",
            f["trials"],
        )
        for key, f in found.items()
    ]
    columns = ("optimum", "default / optimum", "model / optimum", "trials of model")
    return table(("kernel", "points that fit", *columns), rows)


def _first(curve: Sequence[int], goal: int) -> int:
    """The trial, counted from 1, at which a curve that falls reaches a goal."""
    return next(place for place, value in enumerate(curve, 1) if value <= goal)


def _proof(runs: Sequence[Figures]) -> str:
    proved = sum(f["proved"] for f in runs)
    return "yes" if proved == len(runs) else f"{proved} of {len(runs)}"


TABLES: Mapping[str, Callable[[Mapping[str, Figures]], str]] = {
    "layers": layers,
    "kinds": kinds,
    "resnet": resnet,
    "overheads": overheads,
    "operators": operators,
    "methods": methods,
    "ladder": ladder,
    "optima": optima,
}


def write(page: Path, tables: Mapping[str, str]) -> None:
    """Put each table that is not empty between the page's marks for its part."""
    text = page.read_text()
    for part, found in tables.items():
        begin, end = f"<!-- bench_search {part} -->", f"<!-- end of {part} -->"
        if found and begin in text:
            before, _, rest = text.partition(begin)
            _, _, after = rest.partition(end)
            text = f"{before}{begin}\n{found}\n{end}{after}"
    page.write_text(text)
