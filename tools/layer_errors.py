"""How far each layer of the quantised network lies from the float one, on samples.

Two errors a layer, as signal to quantisation noise in dB: that of the network as it runs, in which
the errors of all layers before it add up, and the layer's own, fed with the float network's values
rounded to int8. The integers are those of docs/quantisation.md, run by onnxruntime on the quantised
graph, so that nothing needs to be lowered or simulated. Layers whose own error is larger than the
user allows are left on the host, and the network is quantised anew without them (as in the
sensitivity analysis of Wu et al., "Integer Quantization for Deep Learning Inference: Principles and
Empirical Evaluation", 2020, section 5.2, where layers are left out by hand).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array, Stored, VtacContext
from vtac.dialects.graph import MaxPoolOp, ReshapeOp, shape_of
from vtac.lowering.graph_to_onnx import build_model, host_model
from vtac.passes.graph.annotate import layer_of
from vtac.passes.graph.reasons import Kind, Reason, keep_on_host
from vtac.runtime.calibration import open_float_model
from vtac.runtime.samples import Samples, Source, input_specs, load_samples, split_labels
from vtac.tools.agreement import Agreement
from vtac.tools.observations import Observed, first_batches
from vtac.tools.planner import main_function

Batch = Mapping[str, Array]
Quantise = Callable[[VtacContext, ModuleOp], None]

PASSES_ON = (MaxPoolOp, ReshapeOp)
"""Ops that hand on integers as they are: no layers."""


@dataclass(frozen=True)
class LayerError:
    """The error of a layer, in dB of signal to noise: more is better, infinity is exact.

    node: the layer's name. ops: the ops of the float network that it computes. total: in the
    network as it runs, None if the layer does not run in integers. own: of the layer alone.
    reason: why it was left on the host, if it was.
    """

    node: str
    ops: tuple[str, ...]
    total: float | None
    own: float
    reason: str = ""


@dataclass(frozen=True)
class _Layer:
    """A layer of a trial: what stands for its result, and the float ops of the original."""

    stored: Stored
    name: str
    covered: tuple[Operation, ...]


@dataclass(frozen=True)
class Calibrated:
    """What calibration leaves: names of the float values, a model that has them all as outputs.

    samples: those that it ran on.
    """

    names: Mapping[SSAValue, str]
    model: ModelProto
    observed: Observed
    samples: Samples


@dataclass(frozen=True)
class ErrorOptions:
    """What the user wants. least: signal to noise below which a layer stays on the host, in dB.

    samples: what to measure on; None for the samples of calibration.
    """

    least: float | None = None
    samples: Source | None = None


class LayerErrors:
    """Measures a calibrated float network that some pass can quantise."""

    def __init__(
        self, module: ModuleOp, ctx: VtacContext, calibrated: Calibrated, options: ErrorOptions
    ):
        self.module, self.ctx = module, ctx
        self.names, self.observed = calibrated.names, calibrated.observed
        self.least = options.least
        self.floats = open_float_model(calibrated.model)
        main, samples = main_function(module), calibrated.samples
        if options.samples is not None:
            specs = input_specs(main)
            samples = load_samples(split_labels(options.samples, specs)[0], specs)
        self.batches = first_batches(main, samples)

    def settle(self, quantise: Quantise) -> tuple[LayerError, ...]:
        """The errors of all layers, worst first; those below the bound get a reason to stay.

        Their own error counts: a layer does not pay for those before it. Reasons are written on the
        ops of the module, so that it will be quantised as it was measured.
        """
        left: list[LayerError] = []
        while True:
            layers, errors = self._measure(quantise)
            failing = [
                (layer, error)
                for layer, error in zip(layers, errors, strict=True)
                if self.least is not None and error.own < self.least
            ]
            if not failing:
                return tuple(sorted([*left, *errors], key=_badness))
            for layer, error in failing:
                reason = Reason(
                    f"its signal to quantisation noise is {error.own:.1f} dB, the bound is"
                    f" {self.least:g} dB",
                    Kind.PRECISION,
                    "Lower the bound (--min-layer-snr), or calibrate with other samples.",
                )
                left.append(replace(error, total=None, reason=reason))
                for op in layer.covered:
                    keep_on_host(op, reason)

    def _measure(self, quantise: Quantise) -> tuple[list[_Layer], list[LayerError]]:
        """Quantise a copy, and run it and its layers one by one beside the float network."""
        ctx, copies = self.ctx.clone(), dict[SSAValue, SSAValue]()
        trial = self.module.clone(copies)
        originals = dict(zip(trial.walk(), self.module.walk(), strict=True))
        values = {copy: value for value, copy in copies.items()}
        ctx.observations = observed = self.observed.moved(copies)
        quantise(ctx, trial)
        known = {
            stored: self.names[values[stored.value]]
            for stored in observed.stored
            if values[stored.value] in self.names
        }
        layers = []
        for stored in known:
            maker = stored.result.owner
            assert isinstance(maker, Operation), "what stands for a value is computed"
            if stored.covered and not isinstance(maker, PASSES_ON):
                covered = tuple(originals[op] for op in stored.covered)
                layers.append(_Layer(stored, layer_of(maker), covered))
        totals, owns = self._compare(trial, ctx, known, [layer.stored for layer in layers])
        errors = [
            LayerError(layer.name, _kinds(layer.covered), total.snr, own.snr)
            for layer, total, own in zip(layers, totals, owns, strict=True)
        ]
        return layers, errors

    def _compare(
        self,
        trial: ModuleOp,
        ctx: VtacContext,
        known: Mapping[Stored, str],
        layers: Sequence[Stored],
    ) -> tuple[list[Agreement], list[Agreement]]:
        """The results of layers against the float network's: in the network, and alone."""
        outputs = {f"layer:{number}": stored.result for number, stored in enumerate(layers)}
        whole = open_float_model(host_model(trial, ctx, extra_outputs=outputs))
        fed = {s: f"fed:{n}" for n, s in enumerate(known) if s.scale is not None}
        apart = open_float_model(_apart(trial, ctx, fed, list(outputs.values())))
        totals = [Agreement() for _ in layers]
        owns = [Agreement() for _ in layers]
        wanted = list(dict.fromkeys(name for name in known.values()))
        for batch in self.batches:
            shown = [name for name in wanted if name not in batch]
            reals = dict(zip(shown, self.floats.run(shown, dict(batch)), strict=True)) | dict(batch)
            feeds = {name: _rounded(s, reals[known[s]]) for s, name in fed.items()}
            found = whole.run(list(outputs), dict(batch))
            alone = apart.run(None, {**batch, **feeds})
            for stored, here, there, total, own in zip(
                layers, found, alone, totals, owns, strict=True
            ):
                total.add(reals[known[stored]], _real(stored, here))
                own.add(reals[known[stored]], _real(stored, there))
        return totals, owns


def _apart(
    module: ModuleOp, ctx: VtacContext, fed: Mapping[Stored, str], outputs: Sequence[SSAValue]
) -> ModelProto:
    """A model of the network's layers one by one: what they read as integers are further inputs."""
    copies: dict[SSAValue, SSAValue] = {}
    main = main_function(module.clone(copies))
    block = main.body.block
    names: dict[SSAValue, str] = {
        argument: spec.name for argument, spec in zip(block.args, input_specs(main), strict=True)
    }
    for stored, name in fed.items():
        result = copies[stored.result]
        argument = block.insert_arg(result.type, len(block.args))
        result.replace_all_uses_with(argument)
        names[argument] = name
    opsets = module.attributes.get("graph.opsets", DictionaryAttr({}))
    assert isinstance(opsets, DictionaryAttr)
    ops, results = list(block.ops)[:-1], [copies[output] for output in outputs]
    return build_model(ops, list(block.args), results, names, ctx, opsets)


def _per_channel(vector: Array | None, value: SSAValue) -> Any:
    """One number a channel, as it broadcasts over a value."""
    if vector is None:
        return np.float32(1)
    return vector.astype(np.float32).reshape(-1, *(1 for _ in (shape_of(value) or ())[2:]))


def _rounded(stored: Stored, real: Array) -> Array:
    """A real value as the integers that stand for it."""
    assert stored.scale is not None
    steps = np.rint(real * _per_channel(stored.factors, stored.value) / np.float32(stored.scale))
    rounded: Array = np.clip(steps + stored.zero_point, -128, 127).astype(np.int8)
    return rounded


def _real(stored: Stored, result: Array) -> Array:
    """What integers stand for."""
    if stored.scale is None:
        return result
    steps = result.astype(np.float32) - stored.zero_point
    real: Array = steps * np.float32(stored.scale) / _per_channel(stored.factors, stored.value)
    return real


def _kinds(ops: Iterable[Operation]) -> tuple[str, ...]:
    """What a layer computes, in order of execution."""
    return tuple(op.name.removeprefix("graph.") for op in reversed(list(ops)))


def _badness(error: LayerError) -> tuple[bool, float]:
    """Layers that were left on the host come first, then those with the most noise."""
    return error.total is not None, error.own if error.total is None else error.total
