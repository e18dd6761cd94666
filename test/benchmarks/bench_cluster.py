"""The evaluation of clusters: every step of the compiler on networks, batches and cores.

``python FILE`` measures what is not measured yet and writes docs/cluster_evaluation.md. Each
measurement is appended to a file of records as soon as it is made, so that a run can be stopped and
goes on later; ``--seconds 280`` begins no further measurement after that time. Records of another
state of the compiler are left out, unless ``--any-state`` is given. The whole takes some hours on
one core. ``--network``, ``--batch``, ``--cores`` and ``--step`` choose a part, ``--limits`` the
table of larger memories, ``--fresh`` measures again what they choose. Cycles come from the exact
clock; only the seconds of compilations depend on the machine that this runs on.
"""

import argparse
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import cluster_networks
from cluster_steps import COPIES, DEFAULT, ONE_CORE, STEPS, Record, machine_named, measure
from cluster_tables import BATCHES, LIMITS, Records, Tables

from vtac.dialects.errors import CompileError
from vtac.tools.driver.options import CompileOptions
from vtac.tools.driver.prepared_model import PreparedModel

ROOT = Path(__file__).resolve().parents[2]
RECORDS, PAGE = ROOT / "build/bench_cluster.jsonl", ROOT / "docs/cluster_evaluation.md"

NETWORKS = ("resnet18", "mobilenet_v2", "googlenet", "resnet50", "yolo", "vgg16", "bert")
"""The networks of the tables, in the order in which they are measured."""

SMALL = "small"
"""The network of the table of batches."""

ROOMS = ("dialects", "passes", "lowering", "sim", "runtime", "tools/driver")
"""Where the sources of the compiler and of the simulator lie."""

Job = tuple[str, int, str, str]
"""Network, batch, machine, step."""


def jobs(args: argparse.Namespace) -> Iterator[Job]:
    """What is to be measured, the most telling first."""
    if args.limits:
        for network, batch, machine, changes in LIMITS:
            yield network, 1, "chisel-pynq", ONE_CORE
            for change in changes:
                yield network, batch, f"{machine} {change}".strip(), DEFAULT
        return
    networks = args.network or NETWORKS
    batches, cores = args.batch or (1, 8), args.cores or (8, 4, 2)
    steps = args.step or (DEFAULT, "GB", "layers", "DMA", "instances", "semaphores",
                          COPIES, "no early weights")  # fmt: skip
    for count in cores:
        for batch in batches:
            for network in networks:
                if count == cores[0] and batch == batches[0]:
                    yield network, 1, "chisel-pynq", ONE_CORE
                for step in steps:
                    yield network, batch, f"cluster-{count}", step
    if not (args.batch or args.step):
        for batch in BATCHES:
            yield SMALL, batch, "cluster-8", DEFAULT


def state_of_compiler() -> str:
    """A number that changes with any source of the compiler or of the simulator."""
    digest = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def read(path: Path, state: str | None) -> dict[Job, Record]:
    """The records of a file; later ones count. state: what made them; None: whatever did."""
    found: dict[Job, Record] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            values = json.loads(line)
            values["tensors"] = tuple(values["tensors"])
            values["stages"] = {stage: tuple(v) for stage, v in values["stages"].items()}
            record = Record(**values)
            if state in (None, record.state):
                found[record.key] = record
    return found


class Prepared:
    """Prepared networks; one is kept, since they are large."""

    def __init__(self) -> None:
        self._key: tuple[str, int] | None = None
        self._model: PreparedModel | None = None

    def get(self, name: str, batch: int) -> PreparedModel:
        """A network for a batch, calibrated on as many samples."""
        if self._key != (name, batch) or self._model is None:
            self._model = None
            network = cluster_networks.NETWORKS[name]
            model = network.build()
            samples = network.samples(model, batch)
            options = CompileOptions(batch=batch)
            self._model = PreparedModel(model, "cluster-8", {"image": samples}, options)
            self._key = name, batch
        return self._model


def run(
    todo: Sequence[Job], records: dict[Job, Record], path: Path, seconds: float, state: str
) -> None:
    """Measure, and append each record to the file."""
    started, prepared = time.monotonic(), Prepared()
    path.parent.mkdir(parents=True, exist_ok=True)
    for job in todo:
        if time.monotonic() - started > seconds:
            return
        network, batch, machine, step = job
        record = Record(*job, state=state)
        try:
            model = prepared.get(network, 1 if step == COPIES else batch)
            measure(model, machine_named(machine), record)
        except (CompileError, ArithmeticError, LookupError, ValueError, AssertionError) as error:
            record.error = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        records[job] = record
        with path.open("a") as stream:
            stream.write(json.dumps(record.values()) + "\n")
        told = record.error or f"{record.cycles:,} cycles, {record.ddr / 1e6:.1f} MB of DDR"
        print(*job, told, f"{record.seconds:.0f} s", sep=", ", flush=True)


TEXT = """\
# What a cluster gains, step by step

*Written by `python test/benchmarks/bench_cluster.py`; numbers are of the exact clock.*

Networks with random weights ([cluster_networks.py](../test/benchmarks/cluster_networks.py)) on the
presets of [cluster.md](cluster.md): cores `chisel-pynq`, a global buffer of 2 MiB, 8 bytes of DDR
per cycle. Millions of cycles of the whole batch. Columns are steps of the compiler, each with what
those to its left have (Zhao et al., "GraphTurbo", OSDI 2023, Fig. 15):

- *copies*: the program for one core on each core, one image each, on one DDR;
- *layers*: each layer is a launch over all cores, tensors in DDR, 1,000 cycles of host per launch;
- *layers, semaphores*: one launch, tensors in DDR;
- *GB*: tensors that fit lie in the global buffer, layer after layer;
- *+ instances*: groups of layers run for some images or rows at a time;
- *+ DMA*: the copy engine brings weights before they are needed;
- *default*: what the compiler does if it is not told otherwise;
- *- early weights*: the default, but no load moves in front of the layer that it belongs to.

Ratios are to the default; DDR is that of *layers, semaphores* and that of the default.

*bound* is the largest of three: compute over all cores; weights once, inputs and results over the
rate of DDR; at batch 1 also, for each cut of the order of layers, the compute before it and the
time for those weights behind it that neither the global buffer nor the cores' buffers can hold.
A cell without a number has not been measured; one in parentheses was measured by an earlier state
of the compiler, and so may be its ratios (`--any-state`). Where the clock chooses between ways to
lower a program, it does so in every step, with the options that the step leaves open.

{steps}
## Means

Geometric means of the networks of which both figures are known.

{means}
Ablations that beat the whole by more than 1 %:

{better}
## What was asked for

{bars}
## What larger memories change

The default on machines whose global buffer is larger, or whose DDR has a second channel of 8 bytes
per cycle (`--limits`). *bound* is that of the machine; *times* says how many times as fast as one
core of today's machine, on as many images, that is, and the bound would be.

{limits}
## Where tensors lie

Tensors between layers by memory (the paper's table 3); those of instances are counted each.

{scopes}
## Stages

Cycles from the first instruction of a stage to its last, and the share of the cores' cycles in it
in which GEMMs work (the paper's figures 16 and 17). Stages overlap.

{stages}
## Images per launch

Thousands of cycles per image (the paper's table 1). `vta-compile --throughput` finds the best.

{batches}
## Compile time

Processor seconds behind calibration (the paper's table 4).

{seconds}"""


def page(records: Records, state: str) -> str:
    """The page in Markdown."""
    found = Tables(records, state)
    steps = list[str]()
    for machine in ("cluster-8", "cluster-4", "cluster-2"):
        for batch in (1, 8):
            if any(k[1:3] == (batch, machine) for k in records):
                steps += [f"### {machine}, batch {batch}", "", *found.steps(machine, batch)]
    failed = list(found.errors())
    text = TEXT.format(
        steps="\n".join(steps),
        means="\n".join(found.means()),
        better="\n".join(found.better_without()),
        bars="\n".join(found.bars()),
        limits="\n".join(found.limits()),
        scopes="\n".join(found.scopes()),
        stages="\n".join(found.stages()),
        batches="\n".join(found.batches()),
        seconds="\n".join(found.seconds()),
    )
    return text + ("\n## Failed\n\n" + "\n".join(failed) + "\n" if failed else "")


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = list(cluster_networks.NETWORKS)
    parser.add_argument("--network", nargs="+", choices=known, metavar="NAME")
    parser.add_argument("--batch", type=int, nargs="+", metavar="N")
    parser.add_argument("--cores", type=int, nargs="+", choices=(1, 2, 4, 8), metavar="N")
    parser.add_argument("--step", nargs="+", choices=[*STEPS, COPIES], metavar="STEP")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing later")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--limits", action="store_true", help="measure larger memories alone")
    parser.add_argument("--fresh", action="store_true", help="measure again what is chosen")
    parser.add_argument(
        "--any-state", action="store_true", help="keep records of other states of the compiler"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(10_000)
    state = state_of_compiler()
    records = read(args.records, None if args.any_state else state)
    todo = [job for job in dict.fromkeys(jobs(args)) if args.fresh or job not in records]
    run(todo, records, args.records, args.seconds, state)
    args.page.write_text(page(records, state))


if __name__ == "__main__":
    main()
