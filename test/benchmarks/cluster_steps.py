"""One measurement of the cluster's evaluation: a network, a batch, a cluster, a step.

A *step* is how much of the compiler is used; each has what the ones above it have, as in Fig. 15 of
Zhao et al., "GraphTurbo" (OSDI 2023):

- *copies*: the program for one core on every core, each with an image of its own, all on one DDR;
- *layers*: each layer a launch of its own over all cores, tensors in DDR, 1,000 cycles of host
  between two launches;
- *semaphores*: one launch, tensors in DDR;
- *GB*: tensors that fit lie in the global buffer;
- *instances*: groups of layers run for some images or rows at a time, as the plan by cost says;
- *DMA*: the copy engine brings weights early;
- *default*: what the compiler does if it is not told otherwise;
- *no early weights*: the default, but loads stay where their layer stands.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from math import ceil

import numpy as np

import vtac
from vtac.dialects.target import ClusterTarget, Machine, Target, cores_of, windows
from vtac.dialects.vta import BufferKind
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.dialects.vta.dma import DmaFinish, encode_dma
from vtac.dialects.vta.encoding import Finish, encode
from vtac.dialects.vta.program import BinaryProgram, place_buffers
from vtac.passes.pipeline import Pipeline
from vtac.runtime.engines.vta import layers_of
from vtac.runtime.vta_program import from_function
from vtac.sim.cluster import ClusterReport, estimate_cluster
from vtac.sim.timing import TimingReport, estimate
from vtac.tools.driver.plans import with_instances
from vtac.tools.driver.prepared_model import PreparedModel

HOST_CYCLES = 1000
"""Cycles of the host between a FINISH and the next launch (CLUSTER.md, section 2.2)."""

ONE_CORE, COPIES, DEFAULT = "one core", "copies", "default"

PLANNING = ("graph-group-layers", "graph-plan-instances", "graph-instantiate")


def planned(pipeline: Pipeline) -> Pipeline:
    """The pipeline with the passes that split groups into instances, if it has none yet."""
    return with_instances(pipeline) or pipeline


def without_instances(pipeline: Pipeline) -> Pipeline:
    """The pipeline without these passes."""
    for name in (*PLANNING, "graph-order-instances", "graph-inline-instances"):
        if any(spec.name == name for spec in pipeline.passes):
            pipeline = pipeline.without(name)
    return pipeline


def no_dma(pipeline: Pipeline) -> Pipeline:
    """The pipeline in which the DMA copies nothing."""
    return pipeline.with_options("vta-stage-weights", most=0)


def semaphores(pipeline: Pipeline) -> Pipeline:
    """The pipeline that leaves all tensors in DDR."""
    return no_dma(without_instances(pipeline).with_options("graph-place-tensors", buffer=False))


STEPS: Mapping[str, Callable[[Pipeline], Pipeline]] = {
    "layers": lambda pipeline: semaphores(pipeline).with_options("merge-regions", max_ops=1),
    "semaphores": semaphores,
    "GB": lambda pipeline: no_dma(without_instances(pipeline)),
    "instances": lambda pipeline: no_dma(planned(pipeline)),
    "DMA": planned,
    DEFAULT: lambda pipeline: pipeline,
    "no early weights": lambda pipeline: pipeline.without("vta-order-instructions"),
}
"""What each step changes of the default pipeline."""


@dataclass
class Record:
    """A measurement. Cycles, and bytes to and from DDR and GB, of a whole batch.

    launches: how many; the cycles of the host between them are counted. layers, instances: of the
    plan. tensors: between layers, in the global buffer and in DDR. work: share of the cores' cycles
    in which the compute modules work. seconds: processor time of the compilation after calibration.
    stages: for each stage of the network, cycles from its begin to its end and the share in which
    GEMMs work. compute, weights: of each layer of the program for one core and one image, cycles
    and bytes. outside: bytes of inputs and results of one image. state: of the compiler.
    """

    network: str
    batch: int
    machine: str
    step: str
    cycles: int = 0
    ddr: int = 0
    gb: int = 0
    launches: int = 0
    layers: int = 0
    instances: int = 0
    tensors: tuple[int, int] = (0, 0)
    work: float = 0.0
    seconds: float = 0.0
    stages: dict[str, tuple[int, float]] = field(default_factory=dict)
    compute: dict[str, int] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    outside: int = 0
    error: str = ""
    state: str = ""

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What tells records apart."""
        return self.network, self.batch, self.machine, self.step

    def values(self) -> dict[str, object]:
        """As plain values for JSON."""
        return asdict(self)


def machine_named(text: str) -> Machine:
    """The machine of a record: a preset, of clusters with changes, ``cluster-4 gb_bytes=65536``."""
    name, *changes = text.split()
    if not name.startswith("cluster"):
        return Target.named(name)
    return ClusterTarget.named(name).replace_text(dict(each.split("=") for each in changes))


def program_of(module: vtac.Module, name: str) -> BinaryProgram | BinaryCluster:
    """An encoded program of a module."""
    package = module.package
    assert package.target is not None
    return from_function(package.functions[name], package.target, package.blobs, "bench")


def measure(prepared: PreparedModel, machine: Machine, record: Record) -> Record:
    """Compile for the machine and the step of a record, time it, and fill the record in."""
    if record.step == COPIES:
        return measured_copies(prepared, machine, record)
    started = time.process_time()
    module = prepared.compile(machine, STEPS.get(record.step))
    record.seconds = time.process_time() - started
    plan = module.report.plan
    record.layers, record.instances = plan.layers, plan.instances
    record.tensors = plan.in_buffer, plan.in_ddr
    programs = [program_of(module, name) for name in module.package.functions]
    record.launches = len(programs)
    record.cycles = HOST_CYCLES * (len(programs) - 1)
    busy = 0.0
    for program in programs:
        if isinstance(program, BinaryCluster):
            labels = [layers_of(core) for core in program.cores]
            report = estimate_cluster(program.target, program.relocate(program.place()), labels)
            add_cluster(record, report)
            busy += sum(report.busy(unit) * report.cycles for unit in range(program.target.cores))
        else:
            add_single(record, program)
    record.work = busy / max(record.cycles * cores_of(machine)[1], 1)
    return record


def add_cluster(record: Record, report: ClusterReport) -> None:
    """Add a launch on a cluster to a record."""
    record.cycles += report.cycles
    record.ddr += report.total_ddr_bytes
    record.gb += sum(sum(unit.values()) for unit in report.gb_bytes)
    spans: dict[str, list[tuple[int, int]]] = {}
    for region in report.regions:
        stage = region.label.partition(".")[0]
        spans.setdefault(stage, []).append((region.start, region.end))
    gemms = gemm_cycles(report)
    for stage, parts in spans.items():
        length = max(end for _, end in parts) - min(start for start, _ in parts)
        share = gemms.get(stage, 0) / max(length * report.cluster.cores, 1)
        record.stages[stage] = length, share


def gemm_cycles(report: ClusterReport) -> dict[str, int]:
    """For each stage, the cycles in which GEMMs work, on all cores."""
    found: dict[str, int] = {}
    for core in report.cores:
        for account in core.regions:
            stage = account.label.partition(".")[0]
            work = account.gemm_micro_ops * report.cluster.timing.core.gemm_cycles
            found[stage] = found.get(stage, 0) + work
    return found


def add_single(record: Record, program: BinaryProgram) -> None:
    """Add a launch on one core to a record, with what bounds are computed from."""
    report = estimate(program.target, program.relocate(program.place()), None, layers_of(program))
    record.cycles += report.cycles
    record.ddr += sum(report.total.nbytes.values())
    layers_in(record, program, report)
    outside = (BufferKind.INPUT, BufferKind.OUTPUT)
    record.outside += sum(b.size for b in program.buffers if b.kind in outside)


def layers_in(record: Record, program: BinaryProgram, report: TimingReport) -> None:
    """The compute and the constants of each layer, in the order in which layers end.

    A buffer is counted with its first reader.
    """
    for account in sorted(report.regions, key=lambda account: account.end):
        record.compute[account.label] = account.bounds["compute"]
    labels, seen = layers_of(program) or (), set[str]()
    kinds = (BufferKind.CONSTANT,)
    for index, name in sorted(program.relocations):
        buffer = program.buffer[name]
        if buffer.kind in kinds and name not in seen and labels:
            seen.add(name)
            label = labels[index]
            record.weights[label] = record.weights.get(label, 0) + buffer.size


def measured_copies(prepared: PreparedModel, machine: Machine, record: Record) -> Record:
    """Time one image on each core at once; a batch is as many rounds as it takes.

    prepared: the network for one image.
    """
    assert isinstance(machine, ClusterTarget)
    module = prepared.compile(machine.core)
    cycles = 0
    for name in module.package.functions:
        program = program_of(module, name)
        assert isinstance(program, BinaryProgram)
        report = estimate_cluster(machine, copies_of(program, machine, record.batch))
        cycles += report.cycles
        record.ddr += report.total_ddr_bytes
    record.launches = ceil(record.batch / machine.cores)
    record.ddr *= record.launches
    record.cycles = cycles * record.launches + HOST_CYCLES * (record.launches - 1)
    return record


def copies_of(program: BinaryProgram, machine: ClusterTarget, images: int) -> list[np.ndarray]:
    """The program on as many cores as there are images, at most all; constants are shared."""
    start = windows.semaphores_end(machine.cores)
    start = -(-max(start, 0x0300_0000) // 4096) * 4096
    shared = place_buffers(program.buffers, start)
    size = max(shared[b.name] + b.size for b in program.buffers) - start
    streams: list[np.ndarray] = []
    constants = {b.name for b in program.buffers if b.data is not None or b.resource is not None}
    for number in range(min(images, machine.cores)):
        offset = -(-size // 4096) * 4096 * number
        addresses = {name: at + (0 if name in constants else offset) for name, at in shared.items()}
        streams.append(program.relocate(addresses))
    idle = encode(machine.core, [Finish()])
    streams += [idle] * (machine.cores - len(streams))
    return [*streams, encode_dma([DmaFinish()])] if machine.dma else streams
