"""Compiles the digits network for VTA, runs the held-out images and shows what happened.

Run by ``make demo``. Everything printed here is measured while it runs; cycles are not, since the
functional simulator has no clock.
"""

import time
from pathlib import Path

import numpy as np
import onnxruntime
from data import split
from rich.console import Console
from rich.progress import track
from rich.table import Table

import vtac
from vtac.runtime.device import total
from vtac.tools.commands.presentation import levels_table, placements_table, work_table

MODEL = Path(__file__).with_name("digits.onnx")
TARGET = "pynq"
CALIBRATION_IMAGES = 100


def main() -> None:
    """Compile, run, compare."""
    console = Console()
    train_images, _, images, labels = split()
    images = images.astype(np.float32).reshape(-1, 1, 1, 8, 8)
    calibration = train_images[:CALIBRATION_IMAGES].astype(np.float32).reshape(-1, 1, 8, 8)

    console.rule(f"{MODEL.name} for {TARGET}")
    module = vtac.compile(MODEL, TARGET, calibration)
    console.print(levels_table(module.report.levels))
    console.print(placements_table(module.report.placements))

    session = onnxruntime.InferenceSession(MODEL)
    floats = [int(session.run(["logits"], {"image": image})[0].argmax()) for image in images]
    answers, records = [], []
    started = time.perf_counter()
    for image in track(images, "simulating", console=console, disable=not console.is_terminal):
        answers.append(int(module.run({"image": image})["logits"].argmax()))
        records.append(module.last_run)
    seconds = time.perf_counter() - started

    console.print(work_table(total(record.counters for record in records), len(images)))
    console.print(_answers(labels.tolist(), floats, answers))
    console.print(
        f"compiled in {module.report.total_seconds:.2f} s;"
        f" {len(images)} images simulated in {seconds:.2f} s,"
        f" {1000 * seconds / len(images):.1f} ms an image"
    )


def _answers(labels: list[int], floats: list[int], answers: list[int]) -> Table:
    count = len(labels)
    table = Table(title=f"{count} held-out images", title_justify="left")
    table.add_column("by")
    table.add_column("accuracy", justify="right")
    table.add_column("as float", justify="right")
    for who, given in (("onnxruntime, float", floats), ("accelerator, int8", answers)):
        right = sum(a == b for a, b in zip(given, labels, strict=True))
        equal = sum(a == b for a, b in zip(given, floats, strict=True))
        table.add_row(who, f"{right / count:.2%}", f"{equal / count:.2%}")
    return table


if __name__ == "__main__":
    main()
