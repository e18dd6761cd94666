"""A table of networks: cycles against the bound, what runs where, accuracy: docs/networks.md.

Networks: the trained ones of ``../shared/models``, and with random weights the light models of the
onnx package, ResNet-18 and two MobileNets. Each is compiled, timed and run, and its record is kept
in a file; a network with a record is skipped, so that a run goes on where it was interrupted
(``--fresh`` measures again). The records of ``networks_before.json`` stand beside them. The command
prints the page in Markdown, and ``--page FILE`` writes it. Run: ``python FILE --help``.
"""

import argparse
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import light_models
from mobile_networks import mobilenet_v1, mobilenet_v2
from network_distance import KINDS, REASONS, distance, kinds
from resnet18 import build, images
from static_int8 import answers_of, labels_of, static_model
from trained_models import CALIBRATION, CLASSIFIERS, NAMES, SHARED, classifier, model_path
from trained_models import samples_and_inputs as trained_samples

from vtac.runtime.executor import Module, Profile
from vtac.tools.driver.compiler import compile_model

Array = NDArray[Any]
Answers = Sequence[Mapping[str, Array]]

HERE = Path(__file__).resolve().parent
BEFORE = HERE / "networks_before.json"
NEAR = 1.10
"""Networks above this multiple of their bound are listed with what they wait for."""
SHOWN = 3
"""Number of causes and of layers that a row of that list shows."""
SAMPLES, PICTURES = 8, 2
"""Number of samples and of judged pictures of networks with random weights."""
BUILT = {
    "vww_96 (MobileNetV1 0.25)": (lambda: mobilenet_v1(96), 96),
    "mobilenet_v2_224": (mobilenet_v2, 224),
    "resnet18_224": (build, 224),
}
LIGHT = {f"light_{name}": name for name in light_models.NAMES}
EVERY = (*NAMES, *BUILT, *LIGHT)


@dataclass(frozen=True)
class Network:
    """A network: its file, its input, samples [S, ...], judged inputs [J, ...] and their labels."""

    path: Path
    entry: str
    samples: Array
    inputs: Array
    labels: Array | None = None


@dataclass
class Record:
    """What was measured of a network.

    cycles: sum over its launches, of one input; work: of the largest bound of a part of the
    machine; bound: of what no order of the instructions beats. nodes, products: the number in the
    network and on the accelerator. utilisation: share of cycles in which the GEMM core multiplies;
    reads: share that the reads alone need. waits: cycles of the compute module without a micro-op,
    by cause; layers: cycles in which it waited, by layer; the largest of both. top1: shares of
    right labels of the compiled network, of onnxruntime and of onnxruntime's static int8; equal:
    shares of labels as onnxruntime's, of the compiled network and of static int8; error: root mean
    square of the difference from onnxruntime as a share of the outputs' standard deviation, of the
    same two. None: not measured.
    """

    cycles: int
    bound: int
    launches: int
    nodes: tuple[int, int]
    products: tuple[int, int]
    work: int = 0
    utilisation: float = 0.0
    reads: float = 0.0
    distance: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    layers: dict[str, int] = field(default_factory=dict)
    top1: tuple[float | None, float | None, float | None] = (None, None, None)
    equal: tuple[float | None, float | None] = (None, None)
    error: tuple[float | None, float | None] = (None, None)

    @property
    def ratio(self) -> float:
        """Cycles over their bound."""
        return self.cycles / self.bound if self.bound else float("inf")


def network(name: str, folder: Path, count: int) -> Network:
    """Load or build a network of `EVERY`; it is judged on at most ``count`` inputs."""
    if name in NAMES:
        labels = None
        if name in (model.name for model in CLASSIFIERS):
            _, _, every = classifier(name).load()
            labels = every[CALIBRATION : CALIBRATION + count]
        samples, inputs = trained_samples(name)
        path = model_path(name)
        entry = onnx.load(path).graph.input[0].name
        return Network(path, entry, samples, np.stack(inputs[:count]), labels)
    path = folder / "network.onnx"
    if name in LIGHT:
        model = light_models.light_model(LIGHT[name])
        entry, shape = light_models.picture_input(model)
        samples = light_models.pictures(shape, SAMPLES, 1)
        inputs = light_models.pictures(shape, PICTURES, 2)
    else:
        make, extent = BUILT[name]
        model, entry = make(), "image"
        pictures = images(SAMPLES + PICTURES, 0, extent)[:, None]
        samples, inputs = pictures[:SAMPLES], pictures[SAMPLES:]
    onnx.save(model, path)
    return Network(path, entry, samples, inputs)


def measure(given: Network, target: str, folder: Path, *, judged: bool) -> Record:
    """Compile and time a network; if judged, run it and compare what it answers."""
    module = compile_model(given.path, target, {given.entry: given.samples})
    record = timed(module, module.profile())
    if judged:
        judge(record, module, given, folder)
    return record


def timed(module: Module, profile: Profile) -> Record:
    """The record of a module's cycles and of what it offloads."""
    reports = [launch.report for launch in profile.launches]
    totals = [report.total for report in reports]
    bounds = [
        max(total.lower_bound, 0 if bound is None else bound.cycles)
        for total, bound in zip(totals, module.flow_bounds(profile), strict=True)
    ]
    cycles = sum(report.cycles for report in reports)
    partition = module.report.partition
    far: Counter[str] = Counter()
    done: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    for report in reports:
        far.update(distance(report))
        done.update(kinds(report))
        for region in report.regions:
            causes = region.modules[region.computes].items()
            layers[region.label] += sum(count for cause, count in causes if not cause.work)
    micro_ops = sum(
        total.gemm_micro_ops * r.preset.gemm_cycles
        for total, r in zip(totals, reports, strict=True)
    )
    return Record(
        cycles=cycles,
        bound=sum(bounds),
        work=sum(total.lower_bound for total in totals),
        launches=len(reports),
        nodes=partition.nodes,
        products=partition.macs,
        utilisation=micro_ops / cycles if cycles else 0.0,
        reads=sum(total.bounds["reads"] for total in totals) / cycles if cycles else 0.0,
        distance=dict(far),
        kinds=dict(done),
        layers=dict(layers.most_common(SHOWN)),
    )


def judge(record: Record, module: Module, given: Network, folder: Path) -> None:
    """Add accuracies to a record. A model that brings its scales has no static int8 beside it."""
    expected = answers_of(given.path, given.entry, given.inputs)
    ours: Answers = [module.run({given.entry: x}) for x in given.inputs]
    static: Answers | None = None
    if given.samples.dtype == np.float32 and not _brings_scales(given.path):
        small = static_model(given.path, given.entry, given.samples, folder)
        static = answers_of(small, given.entry, given.inputs)
    if given.labels is None:
        record.error = error(ours, expected), None if static is None else error(static, expected)
        return
    labels, names = labels_of(expected), list(expected[0])
    found = labels_of([{name: answer[name] for name in names} for answer in ours])
    small_labels = None if static is None else labels_of(list(map(dict, static)))
    record.top1 = (
        share(found, given.labels),
        share(labels, given.labels),
        None if small_labels is None else share(small_labels, given.labels),
    )
    record.equal = (
        share(found, labels),
        None if small_labels is None else share(small_labels, labels),
    )


def _brings_scales(path: Path) -> bool:
    return any(node.op_type == "QuantizeLinear" for node in onnx.load(path).graph.node)


def share(found: Array, expected: Array) -> float:
    """The share of equal elements."""
    return float(np.mean(np.equal(found, expected)))


def error(found: Answers, expected: Answers) -> float:
    """The largest error of an output, as a share of that output's standard deviation."""
    errors = []
    for name in expected[0]:
        ours, theirs = (np.array([a[name] for a in x], np.float64) for x in (found, expected))
        errors.append(float(np.sqrt(np.mean(np.square(ours - theirs))) / max(theirs.std(), 1e-30)))
    return max(errors)


def page(records: Mapping[str, Record], before: Mapping[str, Record], target: str) -> str:
    """The page in Markdown."""
    shown = {name: records[name] for name in EVERY if name in records}
    return TEXT.format(
        target=target,
        cycles="\n".join(_cycle_rows(shown, before)),
        near=f"{NEAR:.2f}",
        far="\n".join(_far_rows(shown)),
        kinds="\n".join(_kind_rows(shown)),
        accuracy="\n".join(_accuracy_rows(shown, before)),
        errors="\n".join(_error_rows(shown, before)),
        calibration=CALIBRATION,
        samples=SAMPLES,
    )


def _cycle_rows(records: Mapping[str, Record], before: Mapping[str, Record]) -> Iterator[str]:
    yield from _header(
        "network", "before", "cycles", "work", "bound", "ratio", "launches", "products", "nodes",
    )  # fmt: skip
    for name, record in records.items():
        old = before.get(name)
        yield _row(
            name,
            f"{old.cycles:,}" if old else "",
            f"{record.cycles:,}",
            f"{record.work:,}",
            f"{record.bound:,}",
            f"{record.ratio:.2f}",
            str(record.launches),
            _part(record.products, 2),
            _part(record.nodes, 1),
        )


def _far_rows(records: Mapping[str, Record]) -> Iterator[str]:
    """For each network far above its bound the cycles above its work, by reason."""
    yield from _header(
        "network", "ratio", "above work", "forbidden", *REASONS, "layers that wait most"
    )
    for name, record in records.items():
        if record.ratio > NEAR:
            yield _row(
                name,
                f"{record.ratio:.2f}",
                f"{record.cycles - record.work:,}",
                _count(record.bound - record.work),
                *(_count(record.distance.get(reason, 0)) for reason in REASONS),
                _shares({_short(name): n for name, n in record.layers.items()}, record.cycles),
            )


def _kind_rows(records: Mapping[str, Record]) -> Iterator[str]:
    """The cycles of micro-ops of each network by what they do."""
    yield from _header("network", *KINDS, "without products")
    for name, record in records.items():
        if whole := sum(record.kinds.values()):
            rest = whole - record.kinds.get("products", 0)
            cells = (_count(record.kinds.get(kind, 0)) for kind in KINDS)
            yield _row(name, *cells, f"{rest / record.cycles:.0%}")


def _accuracy_rows(records: Mapping[str, Record], before: Mapping[str, Record]) -> Iterator[str]:
    yield from _header(
        "network", "onnxruntime", "its static int8", "before", "vtac",
        "equal labels: static int8", "before", "vtac",
    )  # fmt: skip
    for name, record in records.items():
        if record.top1[0] is not None:
            old = before.get(name)
            shares = (
                record.top1[1], record.top1[2], old and old.top1[0], record.top1[0],
                record.equal[1], old and old.equal[0], record.equal[0],
            )  # fmt: skip
            yield _row(name, *("" if x is None else f"{100 * x:.1f}" for x in shares))


def _error_rows(records: Mapping[str, Record], before: Mapping[str, Record]) -> Iterator[str]:
    yield from _header("network", "onnxruntime's static int8", "before", "vtac")
    for name, record in records.items():
        if record.error[0] is not None:
            old = before.get(name)
            errors = record.error[1], old and old.error[0], record.error[0]
            yield _row(name, *("" if x is None else f"{100 * x:.2f}" for x in errors))


def _header(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield _row("---", *["---:"] * (len(names) - 1))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _part(counts: tuple[int, int], digits: int) -> str:
    whole, part = counts
    return f"{100 * part / whole:.{digits}f} %" if whole else ""


def _count(cycles: int) -> str:
    return f"{cycles:,}" if cycles else ""


def _short(layer: str) -> str:
    """The end of a layer's name: converters join the names of all that they folded into it."""
    return "/".join(layer.split(";")[-1].split("/")[-2:])


def _shares(counts: Mapping[str, int], whole: int) -> str:
    return ", ".join(f"{name} {count / whole:.0%}" for name, count in counts.items())


TEXT = """\
# Networks

*Written by `python test/benchmarks/bench_networks.py --page docs/networks.md`.*

Cycles of one input on `{target}`, summed over the launches, and the share of products
(multiply-accumulates) and of nodes that the accelerator computes. Work is the larger of what the
program computes (micro-ops of the compute module) and what it transfers (bytes by the rate of the
port). The bound also follows the data: the first product waits for its micro-ops and operands, a
layer for the last results of the one before, the end for the last store; and while the compute
module loads biases or micro-ops it computes nothing. No order of the same instructions takes fewer
cycles on a machine of these rates, whatever room its scratchpads have
([flow_bound.py](../sim/timing/flow_bound.py)). "Before" is commit a0c07d7, by the same command.
Networks whose names begin with `light_`, `resnet18`, `mobilenet_v2` and `vww` have random weights.

{cycles}

## Above {near} of the bound

The table has the cycles above the work by reason, how many of them the flow of data forbids to save
(`forbidden`: the bound less the work), and the layers in which the compute module waits most, as
shares of all cycles. Where micro-ops are most of the work, the reasons are why the compute module
runs none:

- `instructions`: an instruction takes cycles beyond its micro-ops (six on `chisel-pynq`, and one
  from the last token to its start), in which the module does nothing else. Small layers and many
  tiles make many short instructions.
- `biases`: the module loads biases and other accumulators itself, and does not compute meanwhile.
- `wait for loads`: the first inputs and weights of a program have nothing to overlap with, and
  weights come ahead only as far as the weight buffer has room. The dense layer at the end of
  MobileNet has as many weights as the whole buffer; that of MobileNetV2 five times as many, so four
  fifths of them are loaded when everything else is done.
- `wait for stores`: results that are not stored yet occupy the accumulators.
- `fetch`: the first instructions of a program, and runs of short ones, which come one at a time.

Where reads are most of the work, the reasons are why the load module moves nothing: `no room` in a
scratchpad until the compute module is done with what lies there, and the `latency` of loads.

{far}

## What micro-ops do

Cycles of the compute module's micro-ops. An epilogue starts accumulators (`resets`, or copies of
biases, which are additions of constants), adds, shifts and clips; [epilogues.md](epilogues.md) says
what each form costs for an element. "Without products": the share of all cycles of a network.

{kinds}

## Accuracy

Shares of right labels, and of labels that equal those of onnxruntime, in per cent. Networks are
calibrated on the first {calibration} images and judged on others. Static int8 is onnxruntime's own
quantisation of the same model by the same images; the models `_qdq` bring their scales.

{accuracy}

For networks without labels, the root mean square of the difference from onnxruntime, in per cent of
the standard deviation of the output (of the worst one). Those with random weights are calibrated on
{samples} pictures; the autoencoder and the kept scales are integers, of which a step is the least
difference.

{errors}
"""


def load(path: Path) -> dict[str, Record]:
    """The records of a file; none if it does not exist."""
    if not path.exists():
        return {}
    tuples = ("nodes", "products", "top1", "equal", "error")
    return {
        name: Record(**{k: tuple(v) if k in tuples else v for k, v in fields.items()})
        for name, fields in json.loads(path.read_text()).items()
    }


def save(path: Path, records: Mapping[str, Record]) -> None:
    """Write records to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = {name: asdict(record) for name, record in records.items()}
    path.write_text(json.dumps(fields, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", choices=[*EVERY, []], metavar="NETWORK")
    parser.add_argument("--target", default="chisel-pynq")
    parser.add_argument("--images", type=int, default=300, help="judge on so many at most (300)")
    parser.add_argument("--records", type=Path, metavar="FILE", help="(build/networks-TARGET.json)")
    parser.add_argument("--fresh", action="store_true", help="measure those with a record again")
    parser.add_argument("--no-accuracy", action="store_true", help="cycles alone, nothing runs")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page to this file")
    return parser.parse_args()


def main() -> int:
    """Measure what has no record yet; then the page."""
    options = arguments()
    path = options.records or HERE.parents[1] / "build" / f"networks-{options.target}.json"
    records = load(path)
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(3)
    for name in options.networks or EVERY:
        if name in records and not options.fresh:
            continue
        if name in NAMES and not SHARED.is_dir():
            print(f"{name}: {SHARED} is absent", file=sys.stderr)
            continue
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            given = network(name, Path(folder), options.images)
            judged = not options.no_accuracy
            record = measure(given, options.target, Path(folder), judged=judged)
        records[name] = record
        save(path, records)
        seconds = time.process_time() - started
        figures = f"{record.cycles:,} cycles, {record.ratio:.3f} of the bound"
        print(f"{name}: {figures}, {seconds:.0f} s", file=sys.stderr, flush=True)
    text = page(records, load(BEFORE), options.target)
    print(text, end="")
    if options.page:
        options.page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
