"""Whole networks, random: the accelerator's integers against the reference, and against floats.

The reference is the quantised graph evaluated in NumPy (`vtac.runtime.reference`), which shares no
code with what lies below. It starts from the imported IR, so it cannot see a wrong import: half of
the networks lose nothing in quantisation, and must reproduce onnxruntime's floats exactly.
"""

import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_networks import Network, networks
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.target import Target
from vtac.passes.graph.quantize.quantize import error_bounds
from vtac.runtime.reference import run_reference

TARGETS = {
    "1x16": Target.named("pynq"),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
    "2x16": Target.named("sim").replace(log_batch=1),
    "chisel": Target.named("chisel-pynq"),
}
ORDERS = (None, 1, 2, 3)
"""Which ready module goes next: the program's own order, and three adversarial ones."""

MANY = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def assert_exact(network: Network, target: Target, shift: str) -> None:
    reference: dict[str, np.ndarray] = {}
    bounds: list[float | None] = []

    def evaluate(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            reference.update(run_reference(module, network.inputs, ctx.resources))
            main = next(op for op in module.ops if isinstance(op, FuncOp))
            bounds.extend(error_bounds(main))

    module = vtac.compile(
        network.model,
        target,
        network.samples,
        shift=shift,
        observe=evaluate,
    )
    assert all(placement.where != "host" for placement in module.report.placements)
    session = onnxruntime.InferenceSession(network.model.SerializeToString())
    (expected,) = session.run(None, network.inputs)
    ((name, integers),) = reference.items()
    for seed in ORDERS:
        (result,) = module.run(network.inputs, order_seed=seed).values()
        np.testing.assert_array_equal(result, integers, f"order {seed}")
    if network.exact:
        np.testing.assert_array_equal(integers, expected)
    else:
        (bound,) = bounds
        assert bound is not None, f"the quantiser gave no bound for {name}"
        assert np.abs(integers - expected).max() <= bound


@pytest.mark.parametrize("target", TARGETS)
@MANY
@given(network=networks(exact=True), shift=st.sampled_from(["channel", "block", "auto"]))
def test_exact_networks(target: str, network: Network, shift: str) -> None:
    assert_exact(network, TARGETS[target], shift)


@pytest.mark.parametrize("target", TARGETS)
@MANY
@given(network=networks(exact=False), shift=st.sampled_from(["channel", "block", "auto"]))
def test_general_networks(target: str, network: Network, shift: str) -> None:
    assert_exact(network, TARGETS[target], shift)
