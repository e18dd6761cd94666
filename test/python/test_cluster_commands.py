"""What commands do with clusters: parameters, batches, plans, dumped launches, edited decisions."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from digits_model import MODEL, images, save_images
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.passes import PassPipeline

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError
from vtac.dialects.target import (
    ClusterTarget,
    Target,
    TargetError,
    changed_machine,
    machine_of,
)
from vtac.dialects.vta.cluster_program import PlacedCopy
from vtac.lowering.codegens.vta import VtaCodegen
from vtac.passes.graph.cluster.layers import layers_of, planned_functions
from vtac.runtime.cluster_streams import read_streams
from vtac.runtime.engines import engine_named
from vtac.sim.cluster import estimate_cluster
from vtac.tools.commands import vta_compile, vta_opt, vta_run, vta_sim
from vtac.tools.driver.discovery import OurPasses, load_dialects
from vtac.tools.driver.levels import part_of, pipeline_of
from vtac.tools.driver.pipelines import built_passes
from vtac.tools.driver.throughput import compile_for_throughput
from vtac.tools.reports.cluster_plan import clusters_of, copies_table

EVERYTHING = vtac.Criteria(compare=False)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_images(tmp_path_factory.mktemp("samples") / "samples.npz", 8)


def test_parameters_by_name() -> None:
    """``--set`` reaches the cluster, its core and single machines, with every mistake at once."""
    changed = changed_machine(machine_of("cluster-4"), {"gb_bytes": "65536", "latency": "40"})
    assert isinstance(changed, ClusterTarget)
    assert (changed.gb_bytes, changed.core.timing.latency, changed.cores) == (65536, 40, 4)
    single = changed_machine(machine_of("sim"), {"log_batch": "2"})
    assert isinstance(single, Target) and single.batch == 4
    with pytest.raises(TargetError, match=r"(?s)gb_bytes.*cores|cores.*gb_bytes"):
        changed_machine(machine_of("cluster-4"), {"gb_bytes": "x", "cores": "y"})
    with pytest.raises(TargetError, match="has no 'gb'"):
        changed_machine(machine_of("cluster-4"), {"gb": "1"})


def test_plan_as_table_and_picture(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, package = tmp_path / "plan.svg", tmp_path / "m.vtapkg"
    vta_compile.main(
        [
            *(str(MODEL), "--target", "cluster-2", "--set", "gb_bytes=65536", "--batch", "3"),
            *("--calibrate", str(samples), "--plan", "--plan-picture", str(picture)),
            *("--explain", "-o", str(package)),
        ]
    )
    text = capsys.readouterr().out
    assert "the plan of @vta_0" in text and "tensors in the global buffer" in text
    assert "not cut into parts" in text
    assert "tried by the clock" in text and "as estimated" in text
    boxes = ET.parse(picture).getroot().iter("{http://www.w3.org/2000/svg}rect")
    assert len(list(boxes)) > 3
    module = vtac.load(package)
    assert module.target == machine_of("cluster-2").replace(gb_bytes=65536)
    assert [value.shape for value in module.inputs] == [(3, 1, 8, 8)]


def test_plan_needs_a_cluster(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        vta_compile.main([str(MODEL), "--calibrate", str(samples), "--plan"])
    assert "--target cluster-8" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["sim", "cluster-2"])
def test_batches_compute_the_same(target: str) -> None:
    """Three images in one run are three runs of one image, bit for bit."""
    data, whole = images()[:6], images()[8:14]
    one = vtac.compile(MODEL, target, data, criteria=EVERYTHING)
    three = vtac.compile(MODEL, target, data, criteria=EVERYTHING, batch=3)
    (expected,), (found,) = one.run(whole).values(), three.run(whole).values()
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(CompileError, match="option batch: 0 makes no sense"):
        vtac.compile(MODEL, target, data, batch=0)


def test_throughput_is_the_least_cycles_per_sample() -> None:
    found = compile_for_throughput(MODEL, "cluster-2", images()[:8], (1, 2, 5))
    assert [trial.batch for trial in found.trials] == [1, 2, 5]
    assert found.best.cycles_per_sample == min(t.cycles / t.batch for t in found.trials)
    assert found.module.profile().cycles == found.best.cycles
    assert found.module.inputs[0].shape == (found.best.batch, 1, 8, 8)
    for wrong in ((), (0,)):
        with pytest.raises(CompileError, match="a whole number of at least 1"):
            compile_for_throughput(MODEL, "cluster-2", images()[:8], wrong)
    with pytest.raises(CompileError, match="nothing to time"):
        compile_for_throughput(MODEL, "cluster-2", batches=(1,))


def test_throughput_command(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "m.vtapkg"
    args = [str(MODEL), "--target", "cluster-2", "--calibrate", str(samples), "-o", str(package)]
    vta_compile.main([*args, "--throughput", "1,2"])
    assert "samples per launch" in capsys.readouterr().out
    assert vtac.load(package).inputs[0].shape[0] in (1, 2)
    with pytest.raises(SystemExit):
        vta_compile.main([*args, "--throughput", "--batch", "2"])
    assert "--batch" in capsys.readouterr().err


def test_dumped_launches_are_read_by_vta_sim(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One stream per unit, the memory before and after; the clock and the checker take it."""
    package = tmp_path / "m.vtapkg"
    module = vtac.compile(MODEL, "cluster-2", images()[:8], criteria=EVERYTHING)
    module.save(package)
    vta_run.main([str(package), "--input", str(samples), "--dump-programs", str(tmp_path / "d")])
    (folder,) = (tmp_path / "d").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == [
        *("core0.bin", "core1.bin", "dma.bin", "image.npz", "machine.json")
    ]
    with np.load(folder / "image.npz") as arrays:
        assert set(arrays) == {"dram_in", "dram_out"}
        assert (arrays["dram_in"] != arrays["dram_out"]).any()
    capsys.readouterr()
    vta_sim.main([str(folder), "--check", "--json"])
    cluster, streams, _ = read_streams(folder)
    told = json.loads(capsys.readouterr().out)["cycles"]
    assert told == estimate_cluster(cluster, streams).cycles == module.profile().cycles


def test_decisions_can_be_changed_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bindings and places in the saved level are edited as text; what follows gives the same
    integers from other programs, and ``vta-opt`` and ``vta-sim`` take the text, too."""
    module = vtac.compile(
        MODEL, "cluster-4", images()[:8], batch=4, criteria=EVERYTHING, save_ir=tmp_path
    )
    (saved,) = tmp_path.glob("*_graph.mlir")
    text = saved.read_text()
    edited, count = re.subn(
        r"#graph\.binding<n = \d+, h = \d+, c = \d+>",
        "#graph.binding<n = 2, h = 1, c = 1>",
        text,
        count=2,
    )
    assert count == 2 and edited != text
    edited = re.sub(r"#graph\.place<gb, \d+>", "#graph.place<ddr>", edited, count=1)
    saved.write_text(edited)
    programs, blobs = rebuilt(saved)
    package = replace(module.package, functions=programs, blobs={**module.package.blobs, **blobs})
    assert package.functions != module.package.functions
    data = images()[8:16]
    (expected,) = module.run(data).values()
    (found,) = vtac.Module(package).run(data).values()
    np.testing.assert_array_equal(found, expected)
    lowered = tmp_path / "edited.mlir"
    rest = str(part_of(pipeline_of([VtaCodegen()]), "graph", None))
    vta_opt.main([str(saved), "-p", rest, "-o", str(lowered)])
    capsys.readouterr()
    vta_sim.main([str(lowered), "--check", "--json"])
    assert json.loads(capsys.readouterr().out)["cycles"] == vtac.Module(package).profile().cycles


def rebuilt(saved: Path):
    """The functions and blobs that the rest of the pipeline makes of a saved level."""
    ctx = VtacContext()
    load_dialects(ctx)
    ctx.resources.load(Path(f"{saved}.npz"))
    module = Parser(ctx, saved.read_text()).parse_module()
    assert isinstance(module, ModuleOp)
    for function, _ in planned_functions(module):
        assert layers_of(function)
    rest = part_of(pipeline_of([VtaCodegen()]), "graph", None)
    PassPipeline(tuple(built_passes(rest.passes, OurPasses()))).apply(ctx, module)
    functions, blobs = {}, {}
    for op in clusters(list(module.ops)):
        name = op.properties["sym_name"].data  # type: ignore[attr-defined]
        built = VtaCodegen().build(op, ctx)
        functions[name], more = engine_named("vta", name, {}).store(
            name, "vta", built, ctx.resources
        )
        blobs |= more
    return functions, blobs


def clusters(ops: Sequence[Operation]) -> list[Operation]:
    return [op for op in ops if op.name == "vta.cluster"]


def test_copies_are_listed() -> None:
    """Each copy with the layer that reads it; a program without copies has no such table."""
    module = vtac.compile(MODEL, "cluster-4", images()[:8], batch=4, criteria=EVERYTHING)
    (program,) = clusters_of(module)
    copies = [command for command in program.commands if isinstance(command, PlacedCopy)]
    found = copies_table(program)
    assert (found is None) == (not copies)
    (plain,) = clusters_of(
        vtac.compile(
            *(MODEL, "cluster-4", images()[:8]),
            criteria=EVERYTHING,
            pipeline=lambda p: p.with_options("vta-stage-weights", most=0),
        )
    )
    assert copies_table(plain) is None
    staged = replace(plain, commands=(PlacedCopy(*[(plain.buffers[0].name, 0)] * 2, nbytes=8),))
    table = copies_table(staged)
    assert table is not None and table.row_count == 1
