"""``calibrate``: a float network runs on samples, and its values get ranges and observations.

Takes the module of a float network in its normal form (level ``canonical``). Leaves the level
``calibrated``: ``graph.ranges`` and ``graph.range`` on values, ``graph.value_names`` on ops, and in
the context the observations, which ``vta-opt -o`` and ``--save-ir`` write beside the IR. Options:
samples, the path of an ``.npz`` or ``.npy`` (`vtac.runtime.samples`); method and percentile, how
ranges follow from what was seen (`vtac.runtime.calibration`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from onnx import ModelProto
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.context import Array, VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.lowering.graph_to_onnx import host_model
from vtac.runtime.calibration import calibrate, calibration_values
from vtac.runtime.calibration_methods import PERCENT, Method
from vtac.runtime.samples import Samples, input_specs, load_samples
from vtac.tools.driver.observations import Observed, Observer
from vtac.tools.driver.planner import main_function


@dataclass(frozen=True)
class Calibrated:
    """The results of calibration that are not written on the network.

    names: the name of each float value. model: the float model with all of them as outputs.
    weights: its large weights, which lie beside it. observed: the observations of these values.
    samples: the samples that the model ran on.
    """

    names: Mapping[SSAValue, str]
    model: ModelProto
    weights: Mapping[str, Array]
    observed: Observed
    samples: Samples


def calibrate_network(
    module: ModuleOp,
    ctx: VtacContext,
    samples: Samples,
    method: Method = "minmax",
    percentile: float = PERCENT,
    progress: Callable[[int], None] | None = None,
) -> Calibrated:
    """Calibrate ``@main`` and put the observations into the context. Raises `CompileError`."""
    main = main_function(module)
    names = calibration_values(main)
    shown = {name: v for v, name in names.items() if not isinstance(v, BlockArgument)}
    weights: dict[str, Array] = {}
    model = host_model(module, ctx, extra_outputs=shown, weights=weights)
    observer = Observer(module, main, names, samples, ctx)
    calibrate(
        model,
        names,
        samples,
        method=method,
        percent=percentile,
        progress=progress,
        watch=observer.watch,
        weights=weights,
    )
    ctx.observations = observed = observer.observed()
    return Calibrated(names, model, weights, observed, samples)


@dataclass(frozen=True)
class CalibratePass(ModulePass):
    """Run a float network on samples, and record the ranges of its values."""

    name = "calibrate"

    samples: str = ""
    method: Method = "minmax"
    percentile: int | float = PERCENT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Calibrate ``@main``. Raises `CompileError` on samples that do not fit its inputs."""
        if not isinstance(ctx, VtacContext):
            raise CompileError(Problem("", "this pass needs a VtacContext, which has the weights"))
        if not self.samples:
            hint = 'Name a file: calibrate{samples="data.npz"}.'
            raise CompileError(Problem("pass 'calibrate'", "there are no samples", hint))
        self.run(op, ctx, load_samples(self.samples, input_specs(main_function(op))))

    def run(
        self,
        module: ModuleOp,
        ctx: VtacContext,
        samples: Samples,
        progress: Callable[[int], None] | None = None,
    ) -> Calibrated:
        """Run the pass on given samples. progress: called with the number of batches done."""
        return calibrate_network(module, ctx, samples, self.method, self.percentile, progress)
