"""The clock's choice between plans of a cluster, and between ways to lower one."""

import re
from typing import cast

import numpy as np
import pytest
from cluster_cases import cluster_network
from onnx import helper
from small_models import small_model
from vta_runner import context, parse

import vtac
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import machine_of
from vtac.passes.pipeline import Pipeline
from vtac.runtime.package import Package
from vtac.tools.commands.presentation import tried_table
from vtac.tools.commands.report_json import compilation_values
from vtac.tools.driver import plans, trials
from vtac.tools.driver.packing import Lowered
from vtac.tools.driver.plans import ONE_CORE, PLANS, best_plan
from vtac.tools.driver.trials import REFINEMENTS, WAYS, ClockTrials, changed
from vtac.tools.reports.plan_summary import PlanSummary
from vtac.tools.reports.report import CompileReport

PIPELINE = Pipeline.of(
    "graph-bind-cores,graph-place-tensors,graph-to-te,vta-stage-weights,vta-order-instructions"
)
FOLD = "fold-first-layer"
"""Runs before partitioning, and folds otherwise for several cores."""

STAGE = "vta-stage-weights"

LOWERING = Pipeline.of("te-to-vta,vta-stage-weights,vta-order-instructions", "vta")


def test_a_pipeline_is_split_in_front_of_a_pass() -> None:
    whole = Pipeline.of("a,b", "first") + Pipeline.of("c,d", "second")
    front, rest = whole.split("d")
    assert (str(front), front.levels) == ("a,b,c", ("first",))
    assert (str(rest), rest.levels) == ("d", ("second",))
    front, rest = whole.split("c")
    assert (str(front), front.levels, str(rest)) == ("a,b", ("first",), "c,d")
    with pytest.raises(CompileError, match="no pass 'e'"):
        whole.split("e")


def test_options_that_a_pipeline_gives_are_not_tried_otherwise() -> None:
    options = {"vta-stage-weights": {"most": 0}}
    found = changed(LOWERING, options)
    assert found is not None
    assert str(found) == "te-to-vta,vta-stage-weights{most=0},vta-order-instructions"
    assert changed(LOWERING.with_options("vta-stage-weights", most=3), options) is None
    assert changed(LOWERING.without("vta-stage-weights"), options) is None


@pytest.mark.parametrize("machine", ["pynq", "cluster-1"])
def test_one_core_has_one_way(machine: str) -> None:
    found = ClockTrials(LOWERING, machine_of(machine), True)
    assert (found.shared, found.are_more) == (LOWERING, False)
    assert not ClockTrials(LOWERING, machine_of("cluster-4"), False).are_more


def lowered(
    cycles: int, ops: int, *, least: int = 0, spilled: int = 0, pipeline: Pipeline = PIPELINE
) -> Lowered:
    """A plan whose programs have so many ops, and take so many cycles."""
    found = ClockTrials(LOWERING, machine_of("cluster-4"), True)
    found._cycles, found.ops, found.are_timed = {"as estimated": cycles}, ops, True
    report = CompileReport(plan=PlanSummary(in_ddr=spilled))
    return Lowered(pipeline, cast(Package, None), {}, found, report, least)


@pytest.mark.parametrize("ops, tried", [(1, 4), (trials.MOST_OPS // 8, 2), (trials.MOST_OPS, 1)])
def test_plans_are_tried_within_the_budget(ops: int, tried: int) -> None:
    seen = list[str]()

    def attempt(plan: Pipeline) -> Lowered:
        seen.append(str(plan))
        if len(seen) == 1:
            raise CompileError(Problem("", "it does not fit"))
        return lowered(90 if len(seen) == 2 else 95, ops, pipeline=plan)

    usual = lowered(100, ops, spilled=ops == 1)
    best, note = best_plan(usual, machine_of("cluster-4"), attempt)
    assert len(seen) == tried
    assert str(seen[0]).startswith("graph-bind-cores{cores=1},graph-place-tensors{buffer=false}")
    if tried > 1:
        assert str(best.pipeline) == seen[1] and seen[1].startswith("graph-bind-cores{cores=2}")
        assert note is not None
        assert note.text.startswith(
            "plan, chosen by the clock: on two cores, 90 cycles (as estimated"
        )
    else:
        assert best is usual and note is None
    assert ("graph-plan-instances" in seen[-1]) == (ops == 1)


def test_one_core_is_not_tried_where_it_cannot_be_faster() -> None:
    seen = list[str]()

    def attempt(plan: Pipeline) -> Lowered:
        seen.append(str(plan))
        return lowered(99, trials.MOST_OPS, pipeline=plan)

    for least, tried in ((99, 1), (100, 0), (101, 0)):
        seen.clear()
        usual = lowered(100, trials.MOST_OPS, least=least)
        best, _ = best_plan(usual, machine_of("cluster-4"), attempt)
        assert len(seen) == tried
        assert (best is usual) == (tried == 0)


def test_what_is_kept_is_as_fast_as_anything_tried_and_computes_the_same() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(32, c, 3, 3)).astype(np.float32) for c in (16, 32)]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["y"], pads=[1] * 4),
    ]
    shape = [1, 16, 12, 12]
    model = small_model(nodes, {"x": shape}, ["y"], {f"w{i}": w for i, w in enumerate(weights)})
    x = {"x": rng.normal(size=shape).astype(np.float32)}
    samples = {"x": rng.normal(size=shape).astype(np.float32)}
    criteria = vtac.Criteria(compare=False)

    def module(**options) -> vtac.Module:
        return vtac.compile(model, "cluster-2", samples, criteria=criteria, **options)

    seen = list[str]()
    tried, usual = module(observe=lambda name, *_: seen.append(name)), module(trials=False)
    assert seen[-len(tried.report.levels) :] == [level.name for level in tried.report.levels]
    one_core_is_best = "chosen by the clock: on one core" in " ".join(tried.report.notes)
    assert one_core_is_best or tried.report.uncut == usual.report.uncut
    plan, way = (note for note in tried.report.notes if "chosen by the clock" in note)
    assert not [note for note in usual.report.notes if "clock" in note]
    assert [level.name for level in tried.report.levels] == [
        level.name for level in usual.report.levels
    ]
    numbers = [
        int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?= cycles|[;)])", plan)
    ]
    assert tried.profile().cycles == numbers[0] == min(numbers) <= usual.profile().cycles
    assert "without staged weights" in way
    by_plan, by_way = tried.report.tried
    assert by_plan.cycles[by_plan.chosen] == min(by_plan.cycles.values()) == numbers[0]
    assert by_way.cycles[by_way.chosen] == numbers[0]
    rows = tried_table(tried.report.tried)
    assert rows.row_count == len(by_plan.cycles) + len(by_way.cycles)
    written = compilation_values(tried, None)["tried"]
    assert [(each["what"], each["chosen"]) for each in written] == [
        (each.what, each.chosen) for each in tried.report.tried
    ]
    assert not usual.report.tried
    for order in (None, 1):
        for mine, other in zip(
            tried.run(x, order_seed=order).values(), usual.run(x).values(), strict=True
        ):
            np.testing.assert_array_equal(mine, other)


def test_a_pipeline_that_says_how_much_is_staged_has_no_way_to_stage_otherwise() -> None:
    early = {name for name, way in WAYS.items() if "early" in way.get(STAGE, {})}
    assert early and all(changed(LOWERING, WAYS[name]) for name in early)
    for most in (0, 3):
        limited = LOWERING.with_options(STAGE, most=most)
        assert not any(changed(limited, WAYS[name]) for name in early)


@pytest.mark.parametrize("best", range(3))
def test_the_fastest_way_is_refined(best: int) -> None:
    target = '#target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 65536, dma = true>'
    cores = "vta.core 0 {vta.finish} vta.core 1 {vta.finish}"
    text = f"vta.cluster @p attributes {{vtac.target = {target}}} {{{cores}}}"
    module = parse(context(), text)
    found = ClockTrials(LOWERING + Pipeline.of("vta-join-compute"), machine_of("cluster-4"), True)
    seen = list[str]()
    for way in found.alternatives(module):
        seen.append(way.name)
        found._cycles[way.name] = 9 if len(seen) == best + 1 else 10
    (name,) = REFINEMENTS
    assert seen[:-1] == list(WAYS) and seen[-1] == f"{list(WAYS)[best]}, {name}"
    options = changed(LOWERING + Pipeline.of("vta-join-compute"), WAYS[list(WAYS)[best]])
    assert options is not None
    assert str(way.front + way.rest) == str(
        options.split(STAGE)[1].with_options("vta-join-compute", several=True)
    )


@pytest.mark.parametrize("name", [*WAYS, *REFINEMENTS])
@pytest.mark.parametrize("seed", [3, 5])
def test_every_way_computes_what_one_core_computes(name: str, seed: int) -> None:
    net, model = cluster_network(seed)
    rng = np.random.default_rng(seed)
    samples, x = ({"x": rng.normal(size=net.shapes["x"]).astype(np.float32)} for _ in range(2))
    criteria = vtac.Criteria(compare=False)

    def way(pipeline: Pipeline) -> Pipeline:
        found = changed(pipeline.without(FOLD), {**WAYS, **REFINEMENTS}[name])
        assert found is not None
        return found

    module = vtac.compile(
        model, "cluster-4", samples, criteria=criteria, trials=False, pipeline=way
    )
    alone = vtac.compile(
        model, "chisel-pynq", samples, criteria=criteria, pipeline=lambda p: p.without(FOLD)
    )
    for order in (None, 1):
        for mine, other in zip(
            module.run(x, order_seed=order).values(), alone.run(x).values(), strict=True
        ):
            np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_the_plan_for_one_core_is_the_program_of_one_core(seed: int) -> None:
    net, model = cluster_network(seed)
    samples = {"x": np.random.default_rng(seed).normal(size=net.shapes["x"]).astype(np.float32)}

    def on_one_core(pipeline: Pipeline) -> Pipeline:
        unfolded = pipeline.without(FOLD)
        return changed(unfolded, PLANS[ONE_CORE]) or unfolded

    def compiled(machine: str) -> vtac.Module:
        options = {"pipeline": on_one_core, "trials": False}
        return vtac.compile(
            model, machine, samples, criteria=vtac.Criteria(compare=False), **options
        )

    cluster, alone = compiled("cluster-4"), compiled("chisel-pynq")
    finishes = 3  # of the other cores
    programs = {name: n - finishes for name, n in cluster.report.instructions.items()}
    assert programs == alone.report.instructions
    assert cluster.profile().cycles <= alone.profile().cycles


@pytest.mark.parametrize("machine", ["cluster-2", "cluster-8"])
def test_a_cluster_is_not_slower_than_one_core_whatever_the_budget(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "MOST_OPS", 0)
    monkeypatch.setattr(plans, "MOST_OPS", 0)
    net, model = cluster_network(2)  # 2,506 and 2,682 cycles as estimated, 2,341 on one core
    samples = {"x": np.random.default_rng(0).normal(size=net.shapes["x"]).astype(np.float32)}
    criteria = vtac.Criteria(compare=False)
    cycles = [
        vtac.compile(model, target, samples, criteria=criteria).profile().cycles
        for target in (machine, "chisel-pynq")
    ]
    assert cycles[0] <= cycles[1]
