"""``quantize``: float regions with calibrated ranges become integer ops.

Takes a function of float graph ops whose values carry ranges (``graph.ranges`` on ops,
``graph.range`` on arguments; see ``vtac.runtime.calibration``), batch norms folded and dense layers
normalised. Leaves ``graph.quantize`` where reals enter, integer sums that end in
``graph.requantize`` with relu and clip in its bounds, ``graph.dequantize`` where reals leave, and
``graph.host_reason`` on each computing op that stays float. The function gets
``graph.error_bounds`` and ``graph.error_estimates``: how far each result may lie from the float
network's, and the root mean square of how far it does (unit if unknown).
Where the context has observations of the network on samples, biases are corrected by them.

The scheme is symmetric int8 with shifts only, after Jacob et al., "Quantization and Training of
Neural Networks for Efficient Integer-Arithmetic-Only Inference", with the multiplier absorbed in
the weight scales. docs/quantisation.md defines the arithmetic and the choices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, ModuleOp, UnitAttr, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from vtac.dialects.context import Array
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import target_at
from vtac.passes.approximation.error_models import Expected, WorstCase
from vtac.passes.graph.codegen import functions_of_host
from vtac.passes.graph.float_groups.groups import Sum
from vtac.passes.graph.float_groups.network import Network
from vtac.passes.graph.quantise_options import Requantise, Sharing
from vtac.passes.graph.quantize.bounds import Bound, output_errors
from vtac.passes.graph.quantize.correction import correct_biases, round_unseen
from vtac.passes.graph.quantize.emit import emit
from vtac.passes.graph.quantize.mixing import mix_planes
from vtac.passes.graph.quantize.numbers import ShiftPolicy
from vtac.passes.graph.quantize.plan import QuantisationPlan, make_plan
from vtac.passes.side_by_side import begun_beside

ERROR_BOUNDS_ATTRIBUTE = "graph.error_bounds"
"""Name of a function's attribute: a bound for each result, in real units, or unit."""

ERROR_ESTIMATES_ATTRIBUTE = "graph.error_estimates"
"""Name of a function's attribute: an estimate for each result, in real units, or unit."""

MANY_WEIGHTS = 1 << 20
"""From so many on, finding error bounds takes longer than the start of a process."""


@dataclass(frozen=True)
class QuantizePass(ModulePass):
    """Make float ops with calibrated ranges integer.

    shift: how many channels share a shift amount: ``channel``, none; ``block``, those of a block of
    the module's target; ``auto``, those of a block where this costs the layer little accuracy (see
    SHARED_NOISE_LIMIT). requantise: how accumulators become int8. ``shift`` shifts; ``multiply``
    multiplies and shifts, where the target's ALU multiplies; ``exact`` multiplies if the target
    can, and else uses two int8 planes of weights. ``auto`` does as ``exact`` for layers with given
    scales (two planes only where they gain most, see `mixing`), and shifts in all others.
    """

    name = "quantize"

    shift: Sharing = "channel"
    requantise: Requantise = "auto"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Quantise every function that has a body and no codegen yet."""
        policy = self._policy(op)
        for function in functions_of_host(op):
            if len(function.body.blocks) == 1:
                network = Network(ctx, function)
                plan = mix_planes(make_plan(network, policy), policy)
                if network.observations is None:
                    plan = round_unseen(plan)
                else:
                    plan = correct_biases(plan, network.observations)
                bounds, estimates = _errors_of_plan(plan)
                function.attributes |= {
                    ERROR_BOUNDS_ATTRIBUTE: _errors_attribute(bounds, np.max),
                    ERROR_ESTIMATES_ATTRIBUTE: _errors_attribute(estimates, _root_mean_square),
                }
                stored = emit(plan)
                if network.observations is not None:
                    network.observations.quantised(stored)

    def _policy(self, op: ModuleOp) -> ShiftPolicy:
        target = target_at(op)
        if target is None:
            if self.shift != "channel":
                what = f"shift={self.shift} shares shifts in blocks of a target, and there is none"
                hint = "Name a target, or use shift=channel."
                raise CompileError(Problem("quantize", what, hint))
            return ShiftPolicy(self.shift, 1, self.requantise, self.requantise == "multiply")
        if self.requantise == "multiply" and not target.alu_mul:
            what = "requantise=multiply needs a target whose ALU multiplies (alu_mul)"
            raise CompileError(Problem("quantize", what, "Use requantise=exact or shift."))
        return ShiftPolicy(self.shift, target.block, self.requantise, target.alu_mul, target.timing)


def _errors_of_plan(plan: QuantisationPlan) -> tuple[list[Bound], list[Bound]]:
    """The worst and the expected error of each result; of a large plan side by side."""
    sums = [layer for layer in plan.layers.values() if isinstance(layer.group, Sum)]
    worst: Callable[[], list[Bound]] = partial(output_errors, plan, WorstCase())
    if sum(term.weights.size for layer in sums for term in layer.terms) >= MANY_WEIGHTS:
        worst = begun_beside(worst)
    expected = output_errors(plan, Expected())
    return worst(), expected


def error_bounds(function: FuncOp) -> list[float | None]:
    """The proven error bound of each result of a function; None where there is none. |quantised -
    float| stays below it, in real units, for inputs that keep every float value inside its
    calibrated range.
    """
    return _errors(function, ERROR_BOUNDS_ATTRIBUTE)


def error_estimates(function: FuncOp) -> list[float | None]:
    """The root mean square of quantised - float over the elements of each result, as estimated.

    In real units; None where nothing is known. Inputs as for `error_bounds`.
    """
    return _errors(function, ERROR_ESTIMATES_ATTRIBUTE)


def _errors(function: FuncOp, name: str) -> list[float | None]:
    errors = function.attributes.get(name)
    if not isinstance(errors, ArrayAttr):
        return [None] * len(function.function_type.outputs)
    return [e.value.data if isinstance(e, FloatAttr) else None for e in errors]


def _errors_attribute(errors: Sequence[Bound], over: Callable[[Array], float]) -> Attribute:
    """The errors as an attribute; ``over`` reduces those of the channels to one number."""
    return ArrayAttr(UnitAttr() if e is None else FloatAttr(float(over(e)), f64) for e in errors)


def _root_mean_square(errors: Array) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))
