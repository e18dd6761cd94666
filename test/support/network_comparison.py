"""What random networks are judged by: the accelerator's integers, the reference's, and floats."""

import numpy as np
import onnxruntime
from graph_reference import run_reference
from random_networks import Network
from small_models import one_thread
from xdsl.dialects.builtin import ModuleOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.target import Target
from vtac.passes.graph.quantize import error_bounds
from vtac.tools.driver.placements import FREE
from vtac.tools.driver.planner import main_function

TARGETS = {
    "1x16": Target.named("pynq"),
    "4x8": Target.named("sim").replace(log_batch=2, log_block=3),
    "2x16": Target.named("sim").replace(log_batch=1),
    "chisel": Target.named("chisel-pynq"),
}
ORDERS = (None, 1, 2, 3)
"""Which ready module goes next: the program's own order, and three adversarial ones."""


def assert_exact(network: Network, target: Target, shift: str) -> None:
    """All runs on the accelerator, equals the reference in any order, and is near the floats.

    An exact network equals the floats.
    """
    module = assert_equals_reference(network, target, shift)
    assert all(p.where != "host" or p.reason == FREE for p in module.report.placements)


def assert_equals_reference(network: Network, target: Target, shift: str = "auto") -> vtac.Module:
    """As `assert_exact`, wherever the nodes run; returns the compiled module."""
    reference: dict[str, np.ndarray] = {}
    bounds: list[float | None] = []

    def evaluate(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            reference.update(run_reference(module, network.inputs, ctx.resources))
            bounds.extend(error_bounds(main_function(module)))

    # Also where the host would finish sooner.
    everything = vtac.Criteria(compare=False)
    module = vtac.compile(
        network.model,
        target,
        network.samples,
        shift=shift,
        observe=evaluate,
        criteria=everything,
    )
    session = onnxruntime.InferenceSession(network.model.SerializeToString(), one_thread())
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
    return module
