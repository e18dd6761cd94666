"""The clock's choice between plans of a cluster, and between ways to lower one."""

import re

import numpy as np
import pytest
from onnx import helper
from small_models import small_model

import vtac
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import machine_of
from vtac.passes.pipeline import Pipeline
from vtac.tools.driver import trials
from vtac.tools.driver.trials import ClockTrials, best_plan, changed

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


class Timed(ClockTrials):
    """Trials of programs of so many ops, which the clock has timed."""

    def __init__(self, cycles: int, ops: int):
        super().__init__(LOWERING, machine_of("cluster-4"), True)
        self._cycles, self.ops, self.are_more = {"as estimated": cycles}, ops, True


@pytest.mark.parametrize("ops, tried", [(1, 3), (trials.MOST_OPS // 8, 2), (trials.MOST_OPS, 0)])
def test_plans_are_tried_within_the_budget(ops: int, tried: int) -> None:
    pipeline, seen = Pipeline.of("graph-bind-cores"), list[str]()

    def attempt(plan: Pipeline) -> ClockTrials:
        seen.append(str(plan))
        if len(seen) == 1:
            raise CompileError(Problem("", "it does not fit"))
        return Timed(90 if len(seen) == 2 else 95, ops)

    best, note = best_plan(pipeline, machine_of("cluster-4"), Timed(100, ops), attempt)
    assert len(seen) == tried
    if tried:
        assert str(best) == seen[1] == "graph-bind-cores{cores=2}"
        assert note.startswith("plan, chosen by the clock: on two cores, 90 cycles (as estimated")
    else:
        assert (best, note) == (pipeline, "")


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

    tried, usual = module(), module(trials=False)
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
    for order in (None, 1):
        for mine, other in zip(
            tried.run(x, order_seed=order).values(), usual.run(x).values(), strict=True
        ):
            np.testing.assert_array_equal(mine, other)
