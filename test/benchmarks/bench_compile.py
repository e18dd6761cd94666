"""Seconds to compile: mnist8 (where ../shared is there) and ResNet-18; and to simulate an image.

Prints, for each model, the seconds of every step, the ops of its vta level, and how long the
functional simulator takes for one image, at first and once its plans are made.
"""

import time
from pathlib import Path

import numpy as np
import onnx
import resnet18
from rich.console import Console
from rich.table import Table

import vtac
from vtac.tools.commands.presentation import placements_table, seconds_table, work_table

TARGET = "pynq"
MNIST8 = Path(__file__).parents[3] / "shared" / "models" / "mnist8" / "model.onnx"


def measure(
    console: Console,
    name: str,
    model: onnx.ModelProto,
    samples: np.ndarray,
    image: dict[str, np.ndarray],
) -> None:
    """Compile a model, run one image twice, and print what it took."""
    console.rule(f"{name} for {TARGET}")
    cpu, wall = time.process_time(), time.perf_counter()
    module = vtac.compile(model, TARGET, samples)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    console.print(seconds_table(module.report))
    vta = next(level for level in module.report.levels if level.name == "vta")
    table = Table(title="ops of the vta level", title_justify="left")
    table.add_column("op")
    table.add_column("count", justify="right")
    for kind, count in vta.ops.most_common():
        table.add_row(kind, f"{count:,}")
    console.print(table)
    runs = []
    for _ in range(2):
        started = time.perf_counter()
        module.run(image)
        runs.append(time.perf_counter() - started)
    console.print(work_table(module.counters))
    hosted = [placement for placement in module.explain if placement.where == "host"]
    if hosted:
        console.print(placements_table(hosted))
    console.print(
        f"compiled in {wall:.2f} s ({cpu:.2f} s of processor time), instructions:"
        f" {sum(module.report.instructions.values()):,}, nodes on the host: {len(hosted)};"
        f" one image simulated in {runs[0]:.2f} s, again in {runs[1]:.2f} s"
    )


def main() -> None:
    """Both models."""
    console = Console()
    if MNIST8.is_file():
        with np.load(MNIST8.parents[2] / "data" / "mnist.npz") as data:
            images = data["x"][:101].astype(np.float32)[:, None]
        first = {"Input3": images[100:]}
        measure(console, "mnist8", onnx.load(MNIST8), images[:100], first)
    else:
        console.print("mnist8: ../shared is absent")
    images = resnet18.images(3)
    model = resnet18.build()
    measure(console, "ResNet-18", model, images[:2], {model.graph.input[0].name: images[2:]})


if __name__ == "__main__":
    main()
