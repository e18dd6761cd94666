"""The quantisation error of each layer, measured on samples.

Each layer has two errors, as signal to quantisation noise in dB. The *total* error is that of the
network as it runs, in which the errors of all layers before add up. The layer's *own* error is that
of the layer alone, fed with the float network's values rounded to int8. Onnxruntime runs the
quantised graph (its integers are those of docs/quantisation.md), so nothing is lowered or
simulated. Layers whose own error is larger than the user allows stay on the host, and the network
is quantised again without them. Wu et al., "Integer Quantization for Deep Learning Inference:
Principles and Empirical Evaluation", 2020, section 5.2, do the same by hand.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array, Stored, VtacContext
from vtac.dialects.graph import shape_of
from vtac.dialects.locations import layer_of
from vtac.lowering.graph_to_onnx import build_model, host_model, opsets_of
from vtac.passes.graph.float_groups.rules import rule_of
from vtac.passes.graph.float_groups.rules.rule import PassingRule
from vtac.passes.graph.reasons import Reason, ReasonKind, keep_on_host
from vtac.runtime.calibration import open_float_model
from vtac.runtime.samples import Source, input_specs, load_samples
from vtac.tools.driver.calibrate import Calibrated
from vtac.tools.driver.observations import first_batches
from vtac.tools.driver.planner import main_function
from vtac.tools.reports.agreement import Agreement

Batch = Mapping[str, Array]
Quantise = Callable[[VtacContext, ModuleOp], None]


@dataclass(frozen=True)
class LayerError:
    """The error of a layer as signal to noise in dB: more is better, infinity means exact.

    node: the layer's name. ops: the ops of the float network that it computes. total: the error in
    the network as it runs. own: the error of the layer alone, in integers. reason: why the layer
    stays on the host, empty if it does not; its inputs may have been rounded before.
    """

    node: str
    ops: tuple[str, ...]
    total: float
    own: float
    reason: str = ""


@dataclass(frozen=True, eq=False)
class _Layer:
    """A layer of a trial. stored: its result, or the parts of it. value, covered: its result and
    its ops in the original network."""

    stored: tuple[Stored, ...]
    value: SSAValue
    name: str
    covered: tuple[Operation, ...]


@dataclass(frozen=True)
class ErrorOptions:
    """How to measure the errors of layers.

    least: a layer with less signal to noise than this, in dB, stays on the host; None for no bound.
    samples: what to measure on; None for the samples of calibration.
    """

    least: float | None = None
    samples: Source | None = None


class LayerErrors:
    """Measures the layers of a calibrated float network."""

    def __init__(
        self, module: ModuleOp, ctx: VtacContext, calibrated: Calibrated, options: ErrorOptions
    ):
        self.module, self.ctx = module, ctx
        self.names, self.observed = calibrated.names, calibrated.observed
        self.least = options.least
        self.floats = open_float_model(calibrated.model, calibrated.weights)
        main, samples = main_function(module), calibrated.samples
        if options.samples is not None:
            samples = load_samples(options.samples, input_specs(main))
        self.batches = first_batches(main, samples)

    def settle(self, quantise: Quantise) -> tuple[LayerError, ...]:
        """The errors of all layers, worst first; mark layers beyond the bound to stay on the host.

        The bound applies to a layer's own error, so no layer pays for the layers before it. If a
        layer misses the bound on the host too, the rounding of its inputs is the cause; then the
        layers that make these inputs stay on the host as well. Reasons are written on the ops of
        the module, so that it will be quantised as it was measured.
        """
        left: dict[_Layer, LayerError] = {}
        while True:
            trial = self._trial(quantise)
            figures = self._compare(trial, [layer.value for layer in left])
            pairs = zip(trial.layers, figures, strict=False)
            errors = {x: LayerError(x.name, _kinds(x.covered), *pair) for x, pair in pairs}
            on_host = dict(zip(left, figures[len(errors) :], strict=True))
            blamed = {} if self.least is None else self._blamed(trial, errors, on_host, self.least)
            if not blamed:
                settled = (replace(left[x], total=total) for x, (total, _) in on_host.items())
                listed = [*settled, *errors.values()]
                return tuple(sorted(listed, key=lambda error: error.total))
            for layer, reason in blamed.items():
                left[layer] = replace(errors[layer], reason=reason)
                for op in layer.covered:
                    keep_on_host(op, reason)

    def _blamed(
        self,
        trial: "_Trial",
        errors: Mapping[_Layer, LayerError],
        on_host: Mapping[_Layer, tuple[float, float]],
        least: float,
    ) -> dict[_Layer, Reason]:
        """The layers that must not run in integers, with the reason for each."""
        blamed = {}
        hint = "Lower the bound (--min-layer-snr), or calibrate with other samples."
        for layer, error in errors.items():
            if error.own < least:
                text = f"its signal to quantisation noise is {error.own:.1f} dB"
                text = f"{text}, the bound is {least:g} dB"
                blamed[layer] = Reason(text, ReasonKind.PRECISION, hint)
        for layer, (_, own) in on_host.items():
            if own < least:
                text = f"its result in int8 leaves '{layer.name}' {own:.1f} dB of signal to noise"
                text = f"{text}, the bound is {least:g} dB"
                for maker in _makers(layer, trial.layers):
                    blamed.setdefault(maker, Reason(text, ReasonKind.PRECISION, hint))
        return blamed

    def _trial(self, quantise: Quantise) -> "_Trial":
        """A copy of the network, quantised."""
        ctx, copies = self.ctx.clone(), dict[SSAValue, SSAValue]()
        module = self.module.clone(copies)
        originals = dict(zip(module.walk(), self.module.walk(), strict=True))
        values = {copy: value for value, copy in copies.items()}
        ctx.observations = observed = replace(self.observed, stored=[], parts={}, copies={})
        quantise(ctx, module)
        known: dict[Stored, _Real] = {}
        layers: dict[SSAValue, _Layer] = {}
        for stored in observed.stored:
            part, maker = observed.parts.get(stored.value), stored.result.owner
            value = values.get(stored.value if part is None else part.whole)
            assert isinstance(maker, Operation), "what stands for a value is computed"
            if value not in self.names or maker.parent is None:  # what a later pass took back
                continue
            assert value is not None, "what has a name is a value of the original"
            known[stored] = _Real(self.names[value], None if part is None else part.channels)
            # What passes integers on unchanged is no layer.
            if all(isinstance(rule_of(op), PassingRule) for op in stored.covered):
                continue
            if value in layers:
                layers[value] = replace(layers[value], stored=(*layers[value].stored, stored))
                continue
            ops = (observed.copies.get(op, op) for op in stored.covered)
            covered = tuple(originals[op] for op in ops if op in originals)
            layers[value] = _Layer((stored,), value, layer_of(maker), covered)
        return _Trial(module, ctx, copies, known, list(layers.values()))

    def _compare(self, trial: "_Trial", others: Sequence[SSAValue]) -> list[tuple[float, float]]:
        """Total and own signal to noise of each layer, then of the values ``others``.

        others: values that the trial computes in floating point.
        """
        totals, owns = ([Agreement() for _ in (*trial.layers, *others)] for _ in range(2))
        shown = [
            _Shown(trial.known[stored], stored, stored.result, total, own)
            for layer, total, own in zip(trial.layers, totals, owns, strict=False)
            for stored in layer.stored
        ]
        left = slice(len(trial.layers), None)
        shown += [
            _Shown(_Real(self.names[value]), None, trial.copies[value], total, own)
            for value, total, own in zip(others, totals[left], owns[left], strict=True)
        ]
        outputs = {f"shown:{number}": one.result for number, one in enumerate(shown)}
        weights: dict[str, Array] = {}
        quantised = host_model(trial.module, trial.ctx, extra_outputs=outputs, weights=weights)
        whole = open_float_model(quantised, weights)
        fed = {s: f"fed:{n}" for n, s in enumerate(trial.known) if s.scale is not None}
        apart = open_float_model(*_apart(trial, fed, outputs))
        names = {real.name for real in (*trial.known.values(), *(one.real for one in shown))}
        for batch in self.batches:
            reals = self._reals(batch, names)
            feeds = {name: _rounded(s, trial.known[s].of(reals)) for s, name in fed.items()}
            here = _run(whole, list(outputs), batch)
            there = _run(apart, list(outputs), {**batch, **feeds})
            for one, found, alone in zip(shown, here, there, strict=True):
                real = one.real.of(reals)
                one.total.add(real, _real(one.stored, found))
                one.own.add(real, _real(one.stored, alone))
        return [(total.snr, own.snr) for total, own in zip(totals, owns, strict=True)]

    def _reals(self, batch: Batch, names: set[str]) -> dict[str, Array]:
        """Values of the float network for a batch, by name."""
        computed = sorted(names - set(batch))
        return dict(batch) | dict(zip(computed, _run(self.floats, computed, batch), strict=True))


@dataclass(frozen=True)
class _Real:
    """A value of the float network by its name, or some channels of it."""

    name: str
    channels: Array | None = None

    def of(self, reals: Batch) -> Array:
        """The real numbers among those of the float network."""
        whole = reals[self.name]
        return whole if self.channels is None else whole.take(self.channels, axis=1)


@dataclass(frozen=True)
class _Shown:
    """A result of a trial that is compared: with which real numbers, and to what that is added."""

    real: _Real
    stored: Stored | None
    result: SSAValue
    total: Agreement
    own: Agreement


@dataclass(frozen=True)
class _Trial:
    """A quantised copy of the network.

    copies: value of the original to its copy. known: the real numbers that each stored value stands
    for.
    """

    module: ModuleOp
    ctx: VtacContext
    copies: Mapping[SSAValue, SSAValue]
    known: Mapping[Stored, _Real]
    layers: Sequence[_Layer]


def _run(session: Any, outputs: Sequence[str], feeds: Batch) -> list[Array]:
    """Some outputs of a model; none for no names, for which onnxruntime would return all."""
    return list(session.run(list(outputs), dict(feeds))) if outputs else []


def _makers(layer: _Layer, layers: Sequence[_Layer]) -> list[_Layer]:
    """The layers whose results a layer reads, directly or through other ops."""
    known = {other.value: other for other in layers}
    found: dict[_Layer, None] = {}
    seen: set[SSAValue] = set()
    left = [value for op in layer.covered for value in op.operands]
    while left:
        value = left.pop()
        if value in known:
            found[known[value]] = None
        elif value not in seen and isinstance(value.owner, Operation):
            seen.add(value)
            left += value.owner.operands
    return list(found)


def _apart(
    trial: _Trial, fed: Mapping[Stored, str], outputs: Mapping[str, SSAValue]
) -> tuple[ModelProto, dict[str, Array]]:
    """A model in which every integer that a layer reads is a further input; its large weights."""
    copies: dict[SSAValue, SSAValue] = {}
    main = main_function(trial.module.clone(copies))
    block = main.body.block
    names: dict[SSAValue, str] = {
        argument: spec.name for argument, spec in zip(block.args, input_specs(main), strict=True)
    }
    for stored, name in fed.items():
        result = copies[stored.result]
        argument = block.insert_arg(result.type, len(block.args))
        result.replace_all_uses_with(argument)
        names[argument] = name
    ops, results = list(block.ops)[:-1], [copies[output] for output in outputs.values()]
    opsets = opsets_of(trial.module)
    weights: dict[str, Array] = {}
    wanted, arguments = list(outputs), list(block.args)
    model = build_model(
        ops, arguments, results, names, trial.ctx, opsets, output_names=wanted, weights=weights
    )
    return model, weights


def _per_channel(vector: Array | None, value: SSAValue) -> Any:
    """One number per channel, in a shape that broadcasts over a value."""
    if vector is None:
        return np.float32(1)
    return vector.astype(np.float32).reshape(-1, *(1 for _ in (shape_of(value) or ())[2:]))


def _rounded(stored: Stored, real: Array) -> Array:
    """The integers that stand for a real value."""
    assert stored.scale is not None
    steps = np.rint(real * _per_channel(stored.factors, stored.value) / np.float32(stored.scale))
    rounded: Array = np.clip(steps + stored.zero_point, -128, 127).astype(np.int8)
    return rounded


def _real(stored: Stored | None, result: Array) -> Array:
    """The real numbers that integers stand for; real numbers are returned as they are."""
    if stored is None or stored.scale is None:
        return result
    steps = result.astype(np.float32) - stored.zero_point
    real: Array = steps * np.float32(stored.scale) / _per_channel(stored.factors, stored.value)
    return real


def _kinds(ops: Iterable[Operation]) -> tuple[str, ...]:
    """The names of the ops that a layer computes, in order of execution."""
    return tuple(op.name.removeprefix("graph.") for op in reversed(list(ops)))
