"""Keys that the accelerator makes are read as weights where they lie: exact, and a launch less."""

import warnings
from dataclasses import replace
from typing import Any

import encoder
import numpy as np
import pytest
from encoder import Form
from small_models import run
from xdsl.dialects.builtin import ModuleOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.target import Target
from vtac.lowering.graph_to_onnx import host_model
from vtac.runtime.package import LAUNCH
from vtac.tools.driver.discovery import chosen_codegens
from vtac.tools.driver.levels import COMPARING, pipeline_of

FORM = Form(layers=1, length=32, width=64, heads=2)

FORMS = {
    "two blocks per head": (FORM, 3),
    "one block per head": (replace(FORM, heads=4), 3),
    "batch of two": (replace(FORM, batch=2, length=16), 3),
    "a mask": (replace(FORM, mask="causal"), 3),
    "keys of another sequence": (replace(FORM, source=48), 5),
    "rows that fill no blocks": (replace(FORM, length=24), 4),
    "heads that fill no blocks": (replace(FORM, width=80, heads=2), 5),
}
"""Networks, and their launches on a machine that only shifts."""


@pytest.mark.parametrize("name", FORMS)
def test_scores_follow_their_keys_in_one_launch(name: str) -> None:
    """The integers are those of the quantised graph, in any order that the tokens allow."""
    (form, launches), found = FORMS[name], dict[str, Any]()

    def observe(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            found["model"] = host_model(module, ctx)

    samples = encoder.feeds(form, 3 * form.batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ranges from few samples
        criteria = vtac.Criteria(compare=False)
        module = vtac.compile(
            encoder.build(form), "pynq", samples, observe=observe, criteria=criteria
        )
    assert sum(step.kind == LAUNCH for step in module.package.steps) == launches
    batch = {key: array[: form.batch] for key, array in samples.items()}
    (expected,) = run(found["model"], batch)
    for seed in (None, 1):
        (result,) = module.run(batch, order_seed=seed).values()
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def launches(module: vtac.Module) -> int:
    return sum(step.kind == LAUNCH for step in module.package.steps)


def test_the_clock_decides_whether_a_launch_is_saved() -> None:
    """Wide rows, which every block of keys reads again, cost more than the launch."""
    form = replace(FORM, width=384, heads=12)
    model, samples = encoder.build(form), encoder.feeds(form, 2)
    found = {}
    for compare in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            criteria = vtac.Criteria(compare=compare)
            found[compare] = vtac.compile(model, "pynq", samples, criteria=criteria)
    assert (launches(found[True]), launches(found[False])) == (4, 3)
    assert found[True].profile().cycles < found[False].profile().cycles
    reasons = {placement.reason for placement in found[True].explain}
    assert any("as weights where it lies: " in reason for reason in reasons)


def test_a_host_that_takes_no_time_keeps_its_normalisations() -> None:
    """The rates of the host that the user gives reach the pass that compares with it."""
    model, samples = encoder.build(FORM), encoder.feeds(FORM, 2)
    counts = []
    for host in ({}, dict.fromkeys(("macs_a_cycle", "bytes_a_cycle"), 1e9)):
        if host:
            host |= dict.fromkeys(("cycles_an_op", "cycles_a_launch"), 0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pipeline = pipeline_of(chosen_codegens(), vtac.Criteria(host=host))
            specs = {spec.name: spec.parameters for spec in pipeline.passes}
            assert all(
                {key.replace("-", "_") for key in specs[name]} == {*host} for name in COMPARING
            )
            options = vtac.Criteria(host=host)
            module = vtac.compile(model, "sim", samples, criteria=options)
        counts.append(
            sum("normalised in integers" in placement.reason for placement in module.explain)
        )
    assert counts[0] > 0 == counts[1]


def test_elements_of_several_rows_are_no_weights() -> None:
    target = Target.named("pynq").replace(log_batch=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = vtac.compile(encoder.build(FORM), target, encoder.feeds(FORM, 2))
    assert sum(step.kind == LAUNCH for step in module.package.steps) == 4
