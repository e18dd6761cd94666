"""Lanes as a knob: other choices than the cheapest compute the same; bad ranks are refused."""

import flextensor_kernels as flextensor
import pytest

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError
from vtac.dialects.target import Target
from vtac.lowering.python_to_te.module import module_of
from vtac.tools.driver.discovery import OurPasses
from vtac.tools.driver.pipelines import built_passes
from vtac.tools.tensor_expressions.compiler import PIPELINE
from vtac.tools.tune.proof import prove
from vtac.tools.tune.protocol import Task
from vtac.tools.tune.tasks import tasks_of


def kernels_with(ranks: str, target: str = "chisel-pynq") -> list[Task]:
    """The tasks of a small product whose lanes are chosen so."""
    ctx = VtacContext()
    module = module_of((flextensor.gemm(24, 32, 48),), Target.named(target), ctx)
    pipeline = PIPELINE.replace("te-pack-lanes", f'te-pack-lanes{{ranks="{ranks}"}}')
    for found in built_passes(pipeline.until("te").passes, OurPasses()):
        found.apply(ctx, module)
    return tasks_of(module)


@pytest.mark.parametrize("target", ["chisel-pynq", "ultra96"])
def test_every_rank_computes_the_reference(target: str) -> None:
    cycles = []
    for rank in range(3):
        for task in kernels_with(f"gemm={rank}", target):
            assert not prove(task.module, task.template, task.default).problem, rank
            cycles.append(task.default_cycles)
    assert len(set(cycles)) > 1 and cycles[0] == min(cycles)


def test_rank_0_is_what_the_formula_takes() -> None:
    assert [t.digest for t in kernels_with("gemm=0")] == [t.digest for t in kernels_with("")]


@pytest.mark.parametrize(
    ("ranks", "what"),
    [
        ("nothing=1", "no stage 'nothing'"),
        ("gemm=-1", "from 0 on"),
        ("gemm=many", "from 0 on"),
        ("gemm", "cannot be read"),
        ("gemm=999", "no axes can lie in the lanes"),
    ],
)
def test_bad_ranks_are_refused(ranks: str, what: str) -> None:
    with pytest.raises(CompileError, match=what):
        kernels_with(ranks)
