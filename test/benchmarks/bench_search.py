"""Schedule search in figures: the tables of docs/search.md.

Parts (``--only``, any number of them):

- ``layers``: the kernels of `search_kernels`: default, best, lower bound.
- ``kinds``: the twelve kinds of FlexTensor's evaluation, with as many test cases as it has.
- ``resnet``: C2 to C11 of ResNet-18 with their additions, on both Chisel presets.
- ``overheads``: the default programs of the same layers: cycles above the bound, by reason.
- ``operators``: a block-circulant product and a shift convolution, exact against NumPy, and tuned.
- ``methods``: clocked trials from a cold start, by method.
- ``ladder``: the Q-method against the P-method at equal numbers of simulated costs.
- ``optima``: kernels whose spaces are enumerated, against the method ``model``.

Each figure is kept as a line of the file of results as soon as it is known, and is not computed
again unless the file is removed: the bench goes on where it was stopped. ``--names`` restricts a
part to cases that match a pattern, ``--write`` puts the tables into the page. Every best schedule
is executed and compared with NumPy.
Run: ``python FILE [--only PART ...] [--names GLOB ...] [--trials N] [--seeds N] [--write]``.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import flextensor_kernels as flextensor
import numpy as np
import search_tables
from network_distance import distance
from numpy.typing import NDArray
from resnet_layers import LAYERS, Layer
from search_kernels import KERNELS, SearchKernel, resnet_kernel

from vtac import te
from vtac.dialects.errors import CompileError
from vtac.dialects.target import Target
from vtac.dialects.te import Point
from vtac.sim import estimate
from vtac.tools.tensor_expressions.kernel_clock import KernelClock
from vtac.tools.tune.kernel import KernelScreen, prepared
from vtac.tools.tune.ladder import Ladder
from vtac.tools.tune.measure import InProcess, Measurer
from vtac.tools.tune.methods import explorer, method_named
from vtac.tools.tune.protocol import Options, Result, Stops, Task, Trial
from vtac.tools.tune.tasks import tasks_of
from vtac.tools.tune.tuner import tune

TARGET = "chisel-pynq"

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build" / "bench_search.jsonl"

Figures = dict[str, Any]
Part = Callable[[argparse.Namespace], Iterator[tuple[str, Callable[[], Figures]]]]

RESNET_TARGETS = ("chisel-pynq", "chisel-de10")

METHODS = ("random", "annealing", "p", "q", "tpe", "discrete-1+1", "model")

COMPARED = (
    "C4",
    "C10",
    "C11+",
    "1x1",
    "dense 1",
    "dilated",
    "grouped",
    "depthwise 14",
    "5x5",
    "C7",
)
"""Kernels on which methods are compared."""

SIMULATIONS = 1_000
"""Simulated costs that a method gets on the ladder."""

MOST_POINTS = 400
"""Points of a space that is enumerated."""

PRIORITY = (
    "tile.",
    "cut.",
    "order",
    "slots.acc",
    "slots.inp",
    "slots.wgt",
    "whole.",
    "piece",
    "end.",
)
"""Knobs of enumerated spaces, the first ones first, as long as there are not too many points."""

SMALL: Mapping[str, Callable[[], te.Computed]] = {
    "conv 1x1": lambda: flextensor.conv(2, 64, 96, 14, 1),
    "conv 3x3": lambda: flextensor.conv(2, 32, 64, 12, 3),
    "conv 3x3 stride 2": lambda: flextensor.conv(2, 48, 48, 16, 3, 2),
    "dilated": lambda: flextensor.conv(2, 32, 32, 14, 3, 1, 2),
    "depthwise": lambda: flextensor.depthwise(64, 14, 1),
    "grouped": lambda: flextensor.grouped(4, 64, 64, 14, 3),
    "product": lambda: flextensor.gemm(32, 256, 128),
    "vector": lambda: flextensor.gemv(512, 512),
    "conv 1D": lambda: flextensor.conv(1, 64, 64, 128, 3),
    "conv 3D": lambda: flextensor.conv(3, 16, 32, 8, 3),
}
"""Kernels whose spaces are enumerated."""


def tasks_of_tensor(tensor: te.Computed) -> list[Task]:
    """The kernels of a computation."""
    return tasks_of(te.lowered((tensor,), Target.named(TARGET), "te"))


def tasks_of_layer(name: str) -> list[Task]:
    """The largest kernel of a layer of `search_kernels`."""
    (kernel,) = (kernel for kernel in KERNELS if kernel.name == name)
    return tasks_of_kernel(kernel, TARGET)


def tasks_of_kernel(kernel: SearchKernel, target: str) -> list[Task]:
    """The largest kernel of a layer on a machine."""
    module, largest, _ = kernel.compiled(target)
    return [task for task in tasks_of(module) if task.name == largest]


class Compiled:
    """The largest kernel of a layer with the layer's own constants.

    A search knows no constants. What is looked for here is the layer's program, in which blocks
    that shift alike share instructions.
    """

    def __init__(self, kernel: SearchKernel, target: str) -> None:
        module, name, ctx = kernel.compiled(target)
        (task,) = (task for task in tasks_of(module) if task.name == name)
        self._kernel = prepared(task.module, task.template)
        self._clock = KernelClock(module, name, ctx)
        self.report = estimate(self._kernel.target, self._words(task.default))
        self.task = replace(
            task, default_cycles=self.report.cycles, bound=self.report.total.lower_bound
        )

    def measured(self, module: str, template: str, point: Point) -> Trial:
        """The trial of a point; the module is that of the task."""
        del module, template
        try:
            return Trial(point, estimate(self._kernel.target, self._words(point)).cycles)
        except CompileError as error:
            return Trial(point, None, str(error))

    def _words(self, point: Point) -> NDArray[np.uint64]:
        return self._clock.words(self._kernel.schedule(point))


def tuned(
    tasks: Sequence[Task], trials: int, seed: int, measurer: Measurer | None = None
) -> Figures:
    """The default method on the kernels of one computation."""
    started = time.process_time()
    stops = Stops(trials=trials * len(tasks), near=1.0005)
    results = tune(tasks, options=Options(seed=seed), stops=stops, measurer=measurer)
    return summary(results) | {"seconds": round(time.process_time() - started, 1)}


def summary(results: Sequence[Result]) -> Figures:
    """Cycles of all kernels together, the trial of the last improvement, and whether all hold."""
    times = [(r.standing.task.multiplicity, r.standing.task, r.standing) for r in results]
    at = 0
    for result in results:
        cycles = [trial.cycles for trial in result.trials if trial.clocked]
        if cycles:
            at = max(at, cycles.index(min(c for c in cycles if c is not None)) + 1)
    return {
        "default": sum(n * task.default_cycles for n, task, _ in times),
        "best": sum(n * standing.cycles for n, _, standing in times),
        "bound": sum(n * task.bound for n, task, _ in times),
        "at": at,
        "trials": sum(standing.trials for _, _, standing in times),
        "proved": all(r.best is not None and r.best.proved for r in results),
        "problem": "; ".join(r.best.problem for r in results if r.best and r.best.problem),
    }


def layers(given: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Figures]]]:
    for kernel in KERNELS:
        for seed in range(given.seeds):
            key = f"{kernel.name}/{given.trials}/{seed}"
            yield key, lambda n=kernel.name, s=seed: tuned(tasks_of_layer(n), given.trials, s)  # type: ignore[misc]


def resnet(given: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Figures]]]:
    for layer in LAYERS[1:]:
        for name, times in resnet_times(layer):
            for target in RESNET_TARGETS:

                def figures(name: str = name, target: str = target, times: int = times) -> Figures:
                    compiled = Compiled(resnet_kernel(name), target)
                    measurer = InProcess(compiled.measured)
                    found = tuned([compiled.task], given.trials, 0, measurer)
                    return found | {"times": times}

                yield f"{name}/{target}/{given.trials}", figures


def overheads(given: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Figures]]]:
    for layer in LAYERS[1:]:
        for name, times in resnet_times(layer):

            def figures(name: str = name, times: int = times) -> Figures:
                report = Compiled(resnet_kernel(name), TARGET).report
                bound, reasons = report.total.lower_bound, dict(distance(report))
                return {"times": times, "cycles": report.cycles, "bound": bound} | reasons

            yield name, figures


def resnet_times(layer: Layer) -> Iterator[tuple[str, int]]:
    """How often a layer of ResNet-18 runs without and with a residual."""
    if layer.times > layer.additions:
        yield layer.name, layer.times - layer.additions
    if layer.additions:
        yield f"{layer.name}+", layer.additions


def kinds(given: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Figures]]]:
    for kind in flextensor.KINDS:
        for case in flextensor.cases(kind):

            def figures(case: flextensor.Case = case) -> Figures:
                found = tuned(tasks_of_tensor(case.make()), given.trials, 0)
                return found | {"shape": list(case.shape)}

            yield f"{case.name}/{given.trials}", figures


def operators(given: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Figures]]]:
    random = np.random.default_rng(0)

    def circulant() -> Figures:
        blocks, columns, size, rows = 8, 8, 32, 64
        tensor = flextensor.block_circulant(blocks, columns, size, rows)
        x = random.integers(-128, 128, (columns, size, rows), np.int8)
        found = te.build(tensor, TARGET)(np.concatenate([x, x], axis=1))
        weights = flextensor.circulant_weights(blocks, columns, size)
        wanted = flextensor.block_circulant_by_numpy(weights, x.reshape(columns * size, rows))
        exact = bool((found.reshape(blocks * size, rows) == wanted).all())
        return tuned(tasks_of_tensor(tensor), given.trials, 0) | {"exact": exact}

    def shift() -> Figures:
        channels, outputs, size = 32, 64, 28
        tensor = flextensor.shift_convolution(channels, outputs, size)
        x = random.integers(-128, 128, (1, 3, 3, channels, size, size), np.int8)
        found = te.build(tensor, TARGET)(x)
        weights = flextensor.shift_weights(channels, outputs)
        exact = bool((found == flextensor.shift_convolution_by_numpy(weights, x)).all())
        return tuned(tasks_of_tensor(tensor), given.trials, 0) | {"exact": exact}

    yield f"block-circulant/{given.trials}", circulant
    yield f"shift/{given.trials}", shift


def methods(given: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Figures]]]:
    for name in COMPARED:
        for method in METHODS:
            for seed in range(given.seeds):

                def figures(name: str = name, method: str = method, seed: int = seed) -> Figures:
                    tasks, options = tasks_of_layer(name), Options(seed=seed, cold=True)
                    stops = Stops(trials=given.trials, near=0.0)
                    started = time.process_time()
                    (result,) = tune(tasks, method, options, stops=stops)
                    spent = time.process_time() - started
                    cycles = [t.cycles for t in result.trials if t.clocked and t.cycles]
                    default = tasks[0].default_cycles
                    reached = (i for i, c in enumerate(cycles, 1) if c <= 1.0005 * default)
                    best = min(cycles, default=0)
                    return {
                        "default": default,
                        "best": best,
                        "reached": next(reached, None),
                        "seconds": round(spent, 1),
                    }

                yield f"{name}/{method}/{given.trials}/{seed}", figures


def ladder(given: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Figures]]]:
    for name in COMPARED:
        for method in ("p", "q", "annealing", "random"):
            for seed in range(given.seeds):

                def figures(name: str = name, method: str = method, seed: int = seed) -> Figures:
                    (task,) = tasks_of_layer(name)
                    kernel = prepared(task.module, task.template)
                    screen = KernelScreen(kernel, task.default)
                    options = Options(seed=seed, cold=True, simulations=SIMULATIONS)
                    climbing = Ladder(method_named(method), kernel.space, options, screen)
                    started = time.process_time()
                    climbing.ask(1)
                    best = np.minimum.accumulate([trial.cycles for trial in climbing.trace])
                    return {
                        "curve": [int(b) for b in best],
                        "default": screen.cost(task.default),
                        "seconds": round(time.process_time() - started, 1),
                    }

                yield f"{name}/{method}/{SIMULATIONS}/{seed}", figures


def optima(given: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Figures]]]:
    for name, make in SMALL.items():

        def figures(make: Callable[[], te.Computed] = make) -> Figures:
            task = max(tasks_of_tensor(make()), key=lambda task: task.default_cycles)
            kernel = prepared(task.module, task.template)
            free, size = free_knobs(task, given.points)
            options = Options(knobs=free, limit=given.points, screen=0.0)
            screen = KernelScreen(kernel, task.default)
            every = explorer("exhaustive", kernel.space, options, screen)
            points = every.ask(size)
            cycles = [_cycles(task, point) for point in points]
            trials = min(len(points) // 10, 200)
            (result,) = tune(
                [task],
                options=Options(knobs=free),
                stops=Stops(trials=max(trials, 8), near=0.0),
            )
            return {
                "size": size,
                "points": len(points),
                "optimum": min(c for c in cycles if c is not None),
                "default": task.default_cycles,
                "best": result.standing.cycles,
                "trials": result.standing.trials,
                "knobs": list(free),
            }

        yield f"{name}/{given.points}", figures


def free_knobs(task: Task, most: int = MOST_POINTS) -> tuple[tuple[str, ...], int]:
    """Knobs that may vary so that the space is not too large, and its number of points."""
    knobs = prepared(task.module, task.template).space.knobs
    free, size = list[str](), 1
    for prefix in PRIORITY:
        for name, knob in knobs.items():
            if name.startswith(prefix) and size * knob.count <= most and knob.count > 1:
                free.append(name)
                size *= knob.count
    return tuple(free), size


def _cycles(task: Task, point: Mapping[str, Any]) -> int | None:
    try:
        return prepared(task.module, task.template).cycles(point)
    except CompileError:
        return None


PARTS: Mapping[str, Part] = {
    "layers": layers,
    "kinds": kinds,
    "resnet": resnet,
    "overheads": overheads,
    "operators": operators,
    "methods": methods,
    "ladder": ladder,
    "optima": optima,
}


class Results:
    """Figures by part and key, in a file of lines."""

    def __init__(self, file: Path) -> None:
        self.file, self.known = file, dict[tuple[str, str], Figures]()
        for line in file.read_text().splitlines() if file.exists() else ():
            entry = json.loads(line)
            self.known[entry["part"], entry["key"]] = entry["figures"]

    def add(self, part: str, key: str, figures: Figures) -> None:
        self.known[part, key] = figures
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as stream:
            stream.write(json.dumps({"part": part, "key": key, "figures": figures}) + "\n")

    def of(self, part: str) -> dict[str, Figures]:
        return {key: figures for (own, key), figures in self.known.items() if own == part}


def run(given: argparse.Namespace, results: Results) -> None:
    """Compute what is not known yet."""
    for part in given.only or PARTS:
        for key, figures in PARTS[part](given):
            wanted = not given.names or any(fnmatchcase(key, f"{n}*") for n in given.names)
            if not wanted or (part, key) in results.known:
                continue
            results.add(part, key, found := figures())
            shown = {k: v for k, v in found.items() if k != "curve"}
            print(part, key, json.dumps(shown), flush=True)


def main() -> None:
    """Compute, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PARTS, help="parts; all if left out")
    parser.add_argument("--names", nargs="*", help="patterns of cases; all if left out")
    parser.add_argument("--trials", type=int, default=80, help="clocked points per kernel (80)")
    parser.add_argument("--seeds", type=int, default=1, help="seeds, from 0 on (1)")
    parser.add_argument(
        "--points", type=int, default=MOST_POINTS, help="of enumerated spaces (400)"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of figures")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/search.md")
    given = parser.parse_args()
    results = Results(given.results)
    run(given, results)
    tables = {part: search_tables.TABLES[part](results.of(part)) for part in PARTS}
    for part, table in tables.items():
        if table:
            print(f"\n{part}\n\n{table}")
    if given.write:
        search_tables.write(ROOT / "docs" / "search.md", tables)


if __name__ == "__main__":
    main()
