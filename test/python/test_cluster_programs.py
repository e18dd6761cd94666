"""Functions compiled for a cluster: exact in any order, and as on one core."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import LOOPS, REWRITES, Array, IntegerFunction
from moving_functions import Moves
from random_groups import TARGETS
from trained_models import model_path, samples_and_inputs
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

import vtac
from vtac.dialects.graph import CompositeOp, ConvOp, RequantizeOp, YieldOp
from vtac.dialects.target import TARGET_ATTRIBUTE, ClusterTarget, Memory, Target, windows
from vtac.dialects.vta import BufferKind, ClusterOp, CopyOp, LoadOp, StoreOp
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.lowering.te_to_vta import TeToVtaPass
from vtac.lowering.vta_to_binary import encode_cluster
from vtac.passes.graph.cluster.graph_bind_cores import GraphBindCoresPass
from vtac.passes.graph.cluster.graph_place_tensors import GraphPlaceTensorsPass
from vtac.passes.te.cut_calls import CutCallsPass
from vtac.passes.vta.allocate import AllocatePass
from vtac.passes.vta.drop_loads import DropLoadsPass, unread
from vtac.passes.vta.insert_dependences import InsertDependencesPass
from vtac.passes.vta.insert_semaphores import InsertSemaphoresPass, runs
from vtac.passes.vta.join_loads import JoinLoadsPass
from vtac.passes.vta.order_instructions import OrderInstructionsPass
from vtac.passes.vta.place_scratch import PlaceScratchPass
from vtac.passes.vta.plan_microops import PlanMicroOpsPass
from vtac.passes.vta.split_loads import SplitLoadsPass
from vtac.passes.vta.stage_weights import StageWeightsPass
from vtac.sim.cluster import ClusterError, ClusterSimulator

Shape = tuple[int, ...]

VTA = (
    TeToVtaPass,
    PlaceScratchPass,
    StageWeightsPass,
    InsertSemaphoresPass,
    AllocatePass,
    SplitLoadsPass,
    DropLoadsPass,
    OrderInstructionsPass,
    JoinLoadsPass,
    PlanMicroOpsPass,
    InsertDependencesPass,
)


def cluster(core: Target, cores: int) -> ClusterTarget:
    return ClusterTarget.named("cluster-8").replace(core=core, cores=cores)


def compiled(
    f: IntegerFunction,
    module: ModuleOp,
    machine: ClusterTarget,
    planned: bool = False,
    passes: Sequence[type[ModulePass]] = VTA,
) -> ClusterOp:
    """planned: with bindings and places from the passes of the graph. passes: those of ``vta``."""
    module.attributes[TARGET_ATTRIBUTE] = machine
    first, *rest = REWRITES
    plan = (GraphBindCoresPass, GraphPlaceTensorsPass) if planned else ()
    f.apply(module, [*plan, GraphToTePass, first, CutCallsPass, *rest, *LOOPS, *passes])
    (program,) = [op for op in module.body.block.ops if isinstance(op, ClusterOp)]
    return program


def run(
    f: IntegerFunction, binary: BinaryCluster, inputs: list[Array], seed: int | None
) -> list[Array]:
    """The outputs of one launch, in strict mode, as flat arrays."""
    addresses = binary.place()
    size = max(address + binary.buffer[name].size for name, address in addresses.items())
    image = np.zeros(max(size, windows.semaphores_end(binary.target.cores)), np.uint8)
    given_arrays = dict(
        zip((b.name for b in binary.of_kind(BufferKind.INPUT)), inputs, strict=True)
    )
    for buffer in binary.buffers:
        data = buffer.data
        if buffer.resource is not None:
            data = f.ctx.resources[buffer.resource[0]].tobytes()
        if buffer.name in given_arrays:
            data = given_arrays[buffer.name].tobytes()
        if data is not None:
            at = addresses[buffer.name]
            image[at : at + len(data)] = np.frombuffer(data, np.uint8)
    ClusterSimulator(binary.target).run(binary.relocate(addresses), image, order_seed=seed)
    found = []
    for buffer in binary.of_kind(BufferKind.OUTPUT):
        at = addresses[buffer.name]
        found.append(image[at : at + buffer.size].view(np.int8))
    return found


def check(
    f: IntegerFunction,
    module: ModuleOp,
    program: ClusterOp,
    shapes: list[tuple[int, ...]],
    rank: int,
) -> None:
    binary = encode_cluster(program)
    for seed in (None, 1, 2, 3):

        def answer(_: ModuleOp, inputs: list[Array], seed: int | None = seed) -> list[Array]:
            flat = run(f, binary, inputs, seed)
            return [array.reshape(shape) for array, shape in zip(flat, shapes, strict=True)]

        f.check(module, answer, rank)


def shapes_of(f: IntegerFunction, module: ModuleOp) -> list[Shape]:
    """The physical shapes of the results, of the module in its logical form."""
    trial = module.clone()
    f.apply(trial, [GraphToTePass])
    (function,) = [op for op in trial.body.block.ops if op.name == "func.func"]
    return [tuple(type.get_shape()) for type in function.function_type.outputs]


@settings(max_examples=12)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(sorted(TARGETS)),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.sampled_from([None, 4096, 65536]),
)
def test_networks_on_clusters_are_exact(
    random: Random, target: str, cores: int, buffer: int | None
) -> None:
    """Layers, joins, slices and reshapes, in program order and in three random orders.

    buffer: bytes of the global buffer, None without a plan.
    """
    moves = Moves(random, TARGETS[target])
    module, f = moves.build(random.randint(1, 7)), moves.f
    shapes = shapes_of(f, module)
    machine = cluster(TARGETS[target], cores).replace(gb_bytes=buffer or 0)
    program = compiled(f, module, machine, planned=buffer is not None)
    check(f, module, program, shapes, 2)


def test_intermediates_lie_in_the_global_buffer() -> None:
    f, module = chain(3)
    group_layers(module)
    shapes = shapes_of(f, module)
    program = compiled(f, module, cluster(TARGETS["1x16"], 2), planned=True)
    scratch = [op for op in program.buffers().values() if op.kind.data is BufferKind.SCRATCH]
    assert scratch and all(op.place is not None and op.place[0] == "gb" for op in scratch)
    check(f, module, program, shapes, 2)


def group_layers(module: ModuleOp) -> None:
    """Make a composite of each convolution and its requantisation."""
    for op in [op for op in module.walk() if isinstance(op, RequantizeOp)]:
        conv = op.acc.owner
        assert isinstance(conv, ConvOp)
        operands = list(dict.fromkeys([*conv.operands, *op.operands[1:]]))
        body = Block(arg_types=[value.type for value in operands])
        inside = dict(zip(operands, body.args, strict=True))
        first, second = conv.clone(inside), op.clone({**inside, conv.result: conv.result})
        second.operands[0] = first.results[0]
        body.add_ops([first, second, YieldOp(*second.results)])
        types = [value.type for value in op.results]
        composite = CompositeOp("vta.layer", operands, types, body)
        Rewriter.replace_op(op, composite)
        Rewriter.erase_op(conv)


def chain(layers: int = 3) -> tuple[IntegerFunction, ModuleOp]:
    f = IntegerFunction(TARGETS["1x16"])
    x = f.input(1, 16, 12, 6)
    for _ in range(layers):
        x = f.requantize(f.conv(x, 16, (3, 3), pads=(1, 1, 1, 1)), shift="one")
    return f, f.finish(x)


def synchronisation(program: ClusterOp) -> list[tuple[int, Operation]]:
    """The signals and waits of a program, each with its core."""
    return [
        (number, op)
        for number, core in program.cores().items()
        for op in core.body.block.ops
        if isinstance(op, LoadOp | StoreOp) and op.buffer_name == "semaphores"
    ]


def weighty(cores: int) -> tuple[IntegerFunction, ModuleOp, ClusterOp, list[Shape]]:
    """Layers whose weights several cores read, on a cluster with a DMA."""
    f = IntegerFunction(TARGETS["1x16"])
    x = f.input(1, 48, 12, 6)
    for _ in range(3):
        x = f.requantize(f.conv(x, 48, (3, 3), pads=(1, 1, 1, 1)), shift="one")
    module = f.finish(x)
    shapes = shapes_of(f, module)
    return f, module, compiled(f, module, cluster(TARGETS["1x16"], cores)), shapes


def test_weights_come_by_the_dma() -> None:
    """Cores load from the global buffer what the DMA has brought; exact in any order."""
    f, module, program, shapes = weighty(3)
    assert program.dma is not None
    copies = [op for op in program.dma.commands() if isinstance(op, CopyOp)]
    staged = {op.target_place[0] for op in copies}
    read = {
        op.buffer_name
        for core in program.cores().values()
        for op in core.all_of(LoadOp)
        if op.memory_id is Memory.WGT
    }
    assert staged and staged <= read
    check(f, module, program, shapes, 2)


def test_weights_that_only_padding_meets_are_not_loaded() -> None:
    """Each core has one row of four; of a kernel of seven rows it needs four."""
    f, machine = IntegerFunction(TARGETS["1x16"]), cluster(TARGETS["1x16"], 4)
    x = f.input(1, 16, 4, 6)
    for _ in range(3):
        x = f.requantize(f.conv(x, 16, (7, 3), pads=(3, 1, 3, 1)), shift="one")
    module = f.finish(x)
    shapes = shapes_of(f, module)
    counts = []
    for last in (SplitLoadsPass, DropLoadsPass):
        passes = VTA[: VTA.index(last) + 1]
        program = compiled(f, module.clone(), machine, passes=passes)
        useless = [load for core in program.cores().values() for load in unread(core)]
        counts.append(sum(load.buffer_name != "semaphores" for load in useless))
    assert counts[0] > 0 == counts[1]
    check(f, module, compiled(f, module, machine), shapes, 2)


def test_a_lost_copy_or_signal_of_the_dma_is_found() -> None:
    f, _, program, _ = weighty(2)
    assert program.dma is not None
    count = len(program.dma.commands())
    for number in range(count):
        broken = program.clone()
        assert broken.dma is not None
        op = broken.dma.commands()[number]
        block = op.parent
        assert block is not None
        block.detach_op(op)
        with pytest.raises(ClusterError):
            for seed in (None, 1, 2, 3, 4):
                run(f, encode_cluster(broken), f.packed_inputs(2), seed)


def test_neighbours_alone_wait_for_each_other() -> None:
    """Rows on four cores: each core waits for the one above and the one below, once per layer."""
    f, module = chain()
    shapes = shapes_of(f, module)
    program = compiled(f, module, cluster(TARGETS["1x16"], 4))
    waits = [number for number, op in synchronisation(program) if isinstance(op, LoadOp)]
    signals = [number for number, op in synchronisation(program) if isinstance(op, StoreOp)]
    assert sorted(waits) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(signals) == [0, 0, 1, 1, 2, 2, 3, 3]
    check(f, module, program, shapes, 2)


def test_a_lost_signal_or_wait_is_found() -> None:
    f, module = chain(2)
    machine = cluster(TARGETS["1x16"], 3)
    program = compiled(f, module, machine)
    count = len(synchronisation(program))
    assert count
    for number in range(count):
        broken = program.clone()
        _, op = synchronisation(broken)[number]
        block = op.parent
        assert block is not None
        if any(getattr(op, name) is not None for name in ("pop_prev", "pop_next")):
            continue  # its tokens would be lost as well
        block.detach_op(op)
        binary = encode_cluster(broken)
        inputs = f.packed_inputs(2)
        with pytest.raises(ClusterError):
            run(f, binary, inputs, None)


def test_a_core_without_work_finishes() -> None:
    f = IntegerFunction(TARGETS["1x16"])
    x = f.input(1, 5, 1, 1)
    module = f.finish(f.requantize(f.conv(x, 7, (1, 1)), shift="one"))
    shapes = shapes_of(f, module)
    program = compiled(f, module, cluster(TARGETS["1x16"], 4))
    binary = encode_cluster(program)
    assert [len(core.insns) for core in binary.cores][1:] == [1, 1, 1]
    check(f, module, program, shapes, 2)


@pytest.mark.parametrize(
    ("units", "own", "expected"),
    [
        ([0, 2], 1, [(0, 3)]),
        ([0, 2], 5, [(0, 1), (2, 1)]),
        ([3, 1, 2], 0, [(1, 3)]),
        ([1, 4, 6, 7], 5, [(1, 1), (4, 4)]),
        ([], 0, []),
    ],
)
def test_stretches_bridge_the_own_semaphore(
    units: list[int], own: int, expected: list[tuple[int, int]]
) -> None:
    assert list(runs(units, own)) == expected


NEEDS_MODELS = pytest.mark.skipif(not model_path("mnist8").exists(), reason="../shared is absent")


@NEEDS_MODELS
def test_one_core_alone_has_the_program_of_today() -> None:
    """Without a global buffer and a DMA a cluster of one core is that core."""
    samples, _ = samples_and_inputs("mnist8")
    path, alone = model_path("mnist8"), ClusterTarget.named("cluster-1")
    name = onnx.load(path).graph.input[0].name
    machines = alone.replace(gb_bytes=0, dma=False), "chisel-pynq"
    modules = [vtac.compile(path, machine, {name: samples}) for machine in machines]
    ours, theirs = ({n: f.files for n, f in m.package.functions.items()} for m in modules)
    assert ours == theirs


@NEEDS_MODELS
def test_a_network_on_a_cluster(tmp_path: Path) -> None:
    """Compiled, written, read and run: exact in any order."""
    samples, inputs = samples_and_inputs("mnist8")
    path = model_path("mnist8")
    name = onnx.load(path).graph.input[0].name
    ours, theirs = (vtac.compile(path, m, {name: samples}) for m in ("cluster-2", "chisel-pynq"))
    ours.save(tmp_path / "m.vtapkg")
    loaded = vtac.load(tmp_path / "m.vtapkg")
    assert loaded.target == ClusterTarget.named("cluster-2")
    feeds = {name: np.asarray(inputs)[:1]}
    expected = theirs.run(feeds)
    for seed in (None, 1):
        for key, array in loaded.run(feeds, order_seed=seed).items():
            np.testing.assert_array_equal(array, expected[key])
    loaded.save(tmp_path / "again.vtapkg")
    assert (tmp_path / "again.vtapkg").read_bytes() == (tmp_path / "m.vtapkg").read_bytes()
