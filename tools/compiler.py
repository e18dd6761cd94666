"""The driver: an ONNX model in, a module that runs out.

Import, canonicalise, calibrate, and then the pipeline of `stages`; at the end the network is cut
into steps and everything is packed. What needs two rooms is put together here and nowhere else.
"""

import gc
import os
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp, StringAttr, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import DiagnosticException

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import ConstantOp, HostOp, given_by
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.dialects.vta.program import BinaryProgram
from vtac.lowering.graph_to_onnx import host_model
from vtac.lowering.onnx_to_graph import ModelSource, import_model, load_model
from vtac.passes.graph.codegen import CODEGEN, Codegen, Stage
from vtac.passes.graph.conv_transpose_phases import can_split
from vtac.runtime.calibration import PERCENT, Method, calibrate, calibration_values
from vtac.runtime.engine import Engine
from vtac.runtime.engines import engine_named
from vtac.runtime.executor import Module
from vtac.runtime.package import Function, Package, Quantisation
from vtac.runtime.samples import (
    Samples,
    Source,
    input_specs,
    load_samples,
    read_source,
    shapes_from_samples,
    tensor_specs,
)
from vtac.tools.discovery import OurPasses, chosen_codegens, load_dialects
from vtac.tools.ir_files import module_text, write_ir
from vtac.tools.keep_float import keep_float
from vtac.tools.layer_errors import Calibrated, ErrorOptions, LayerErrors
from vtac.tools.observations import Observed
from vtac.tools.observed_shapes import observed_types
from vtac.tools.partition_report import macs_of_layers, partition_report
from vtac.tools.pipelines import parse_passes
from vtac.tools.placements import Nodes, place_nodes, quantisation_of
from vtac.tools.planner import Plan, main_function, make_plan
from vtac.tools.positions import Positions, verify_module
from vtac.tools.report import CompileReport, choices_of, count_ops
from vtac.tools.stages import (
    CANONICAL,
    ENCODABLE,
    IMPORTED,
    PARTITIONED,
    UNCALIBRATED,
    Criteria,
    pipeline,
)
from vtac.tools.verify_hazards import hazards_of

Shapes = Mapping[str, Sequence[int]]
Progress = Callable[[str], None]
"""Told what comes next."""

Observer = Callable[[str, ModuleOp, VtacContext], None]
"""Called with each level's name, the module as it is then, and the context with the weights."""

GIVE_SAMPLES = "Give samples of its inputs: calibration=... (vta-compile: --calibrate data.npz)."
NO_CALIBRATION = (
    "the model is a float model and there are no calibration samples, so all of it runs on the"
    f" host. {GIVE_SAMPLES}"
)


def compile_model(
    model: ModelSource,
    target: str | os.PathLike[str] | Target = "pynq",
    calibration: Source | None = None,
    *,
    shapes: Shapes | None = None,
    shift: str = "auto",
    requantise: str = "auto",
    method: Method = "minmax",
    percentile: float = PERCENT,
    keep_float: Sequence[str] = (),
    layer_errors: bool = False,
    min_layer_snr: float | None = None,
    error_samples: Source | None = None,
    save_ir: str | os.PathLike[str] | None = None,
    keep_ir: Collection[str] = (),
    observe: Observer | None = None,
    progress: Progress | None = None,
    codegens: Sequence[str | Codegen] | None = None,
    criteria: Criteria | None = None,
    stages: Sequence[Stage] | None = None,
) -> Module:
    """Compile an ONNX model (path, bytes or ModelProto) for a VTA.

    target: the name of a preset, the path of a ``vta_config.json``, or a Target.
    calibration: inputs from which the ranges of all values are taken; see `vtac.runtime.samples`.
    shapes: input name to shape, for symbolic dimensions. shift: ``channel``, ``block`` or ``auto``:
    what shares one shift (``quantize``). requantise: how sums return to int8, ``shift``,
    ``multiply`` (where the target can), ``exact`` (more weight planes where it cannot), or
    ``auto``: where the model brings its scales along multiply, or more planes for some layers,
    else shift.
    method: ``minmax``, ``percentile`` or ``entropy``. percentile: the share of magnitudes that this
    method keeps inside, in percent. keep_float: names of nodes that stay on the host, as they are.
    layer_errors: measure the signal to quantisation noise of each layer, worst first
    (``module.report.layer_errors``). min_layer_snr: leave layers on the host whose own signal to
    noise is less, in dB. error_samples: what to measure on, the calibration samples unless given.
    save_ir: a folder for the IR of every level; keep_ir: levels kept in the package as text.
    observe: called with the name of each level, the module as it is then, and the context.
    codegens: who may take parts of the network, by falling priority: names, or `Codegen` objects;
    ``["vta"]`` unless given. criteria: what the user wants of the partition besides.
    stages: the passes after calibration, for experiments; they end in encodable programs.
    Raises `CompileError` with everything that is wrong. What only deserves a note is in
    ``module.report``; its warnings are also given as such.
    """
    chosen = chosen_codegens(codegens)
    measures = layer_errors or min_layer_snr is not None or error_samples is not None
    wishes = _Wishes(
        {"shift": shift, "requantise": requantise},
        method,
        percentile,
        keep_float,
        ErrorOptions(min_layer_snr, error_samples) if measures else None,
        criteria or Criteria(),
        stages,
    )
    driver = _Driver(Target.of(target), chosen, wishes, save_ir, keep_ir, observe, progress)
    module = driver.compile(model, calibration, dict(shapes or {}))
    for warning in driver.report.warnings:
        warnings.warn(warning, stacklevel=2)
    return module


@dataclass(frozen=True)
class _Wishes:
    """What the user wants of a compilation, as of `compile_model`. options: of stages."""

    options: Mapping[str, str]
    method: Method
    percentile: float
    keep_float: Sequence[str]
    errors: ErrorOptions | None
    criteria: Criteria
    stages: Sequence[Stage] | None


@dataclass(frozen=True)
class _Cut:
    """A network in steps. made: the functions that codegens compile, and whose each is."""

    plan: Plan
    quantisation: tuple[Quantisation, ...]
    made: Mapping[str, str]


class _Driver:
    """One compilation: the context, the report, and the module on its way down."""

    def __init__(
        self,
        target: Target,
        codegens: Sequence[Codegen],
        wishes: _Wishes,
        save_ir: str | os.PathLike[str] | None,
        keep_ir: Collection[str],
        observe: Observer | None,
        progress: Progress | None,
    ) -> None:
        self.ctx = VtacContext(codegens=lambda: codegens)
        load_dialects(self.ctx)
        self.target = target
        self.codegens = {codegen.name: codegen for codegen in codegens}
        self.wishes = wishes
        self._stages = wishes.stages or pipeline(codegens, wishes.criteria)
        self.report = CompileReport()
        self._save_ir = None if save_ir is None else Path(save_ir)
        self._keep_ir = keep_ir
        self._observe = observe or (lambda name, module, ctx: None)
        self._progress = progress or (lambda _: None)

    def compile(
        self,
        source: ModelSource,
        calibration: Source | None,
        shapes: dict[str, Sequence[int]],
    ) -> Module:
        module, samples = self._import(source, calibration, shapes)
        nodes = Nodes.of(module)
        module.attributes[TARGET_ATTRIBUTE] = self.target
        self._level(IMPORTED, module)
        self._run(UNCALIBRATED if samples is None else CANONICAL, module)
        calibrated = self._calibrate(module, samples)
        self.report.notes += keep_float(module, nodes, self.wishes.keep_float)
        if self.wishes.errors is not None:
            self._measure(module, calibrated, self.wishes.errors)
        with _collector_paused():
            return self._lower(module, nodes)

    def _lower(self, module: ModuleOp, nodes: Nodes) -> Module:
        """The stages after calibration, and what is packed of them."""
        macs = macs_of_layers(module)
        cut: _Cut | None = None
        idle: set[Stage] = set()  # of codegens that got nothing
        for stage in self._stages:
            if stage in idle:
                continue
            self._run(stage.with_options(self.wishes.options), module)
            self.ctx.observations = None  # they are of the float network
            if stage.level == PARTITIONED:
                cut = self._cut(module, nodes, macs)
                if not cut.made:
                    break
                without = [c for c in self.codegens.values() if c.name not in cut.made.values()]
                idle = {stage for codegen in without for stage in codegen.lowering()}
        assert cut is not None
        package = self._package(cut, *self._build(module, cut.made))
        with self._step("open"):
            return Module(package, report=self.report, engines=self._engines)

    def _cut(self, module: ModuleOp, nodes: Nodes, macs: Mapping[str, int]) -> "_Cut":
        """The steps of a partitioned network, and what is to be said of it."""
        with self._step("cut into steps"):
            plan = make_plan(module, self.ctx)
        placements = self.report.placements = place_nodes(nodes, module)
        self.report.partition = partition_report(
            module, self.codegens.values(), self.wishes.criteria.pruning, placements, macs
        )
        made = {
            function.sym_name.data: name.data
            for function in module.ops
            if isinstance(function, FuncOp)
            and isinstance(name := function.attributes.get(CODEGEN), StringAttr)
        }
        return _Cut(plan, quantisation_of(module, self.ctx), made)

    def _package(
        self, cut: "_Cut", functions: Mapping[str, Function], blobs: Mapping[str, bytes]
    ) -> Package:
        plan = cut.plan
        on_target = any(codegen.uses_target for codegen in self.codegens.values())
        return Package(
            self.target if on_target else None,
            plan.inputs,
            plan.outputs,
            plan.values,
            plan.steps,
            plan.host_parts,
            functions,
            {**plan.blobs, **blobs},
            cut.quantisation,
            self.report.placements,
            self.report.ir,
        )

    def _import(
        self, source: ModelSource, calibration: Source | None, shapes: dict[str, Sequence[int]]
    ) -> tuple[ModuleOp, Samples | None]:
        """The imported network, its symbolic dimensions fixed as far as anything says how."""
        with self._step("import"):
            model = load_model(source)
            widen = calibration is not None
            module = import_model(model, self.ctx, shapes=shapes, widen_halves=widen)
        samples = None
        if calibration is not None:
            with self._step("read samples"):
                specs = input_specs(main_function(module))
                calibration = read_source(calibration)
                found = shapes_from_samples(calibration, specs)
                fixed = {**found, **shapes}
                if found:
                    module = import_model(model, self.ctx, shapes=fixed, widen_halves=True)
                    specs = input_specs(main_function(module))
                samples = load_samples(calibration, specs)
            with self._step("observe shapes"):
                known = observed_types(module, model, fixed, samples)
                if known:
                    module = import_model(
                        model, self.ctx, shapes=fixed, known=known, widen_halves=True
                    )
            self.report.notes += samples.notes
            self.report.notes += [
                f"input '{name}' has shape {list(shape)}, from the calibration samples"
                for name, shape in found.items()
            ]
        self._note_unknown_dimensions(module)
        return module, samples

    def _note_unknown_dimensions(self, module: ModuleOp) -> None:
        for spec in tensor_specs(main_function(module)):
            if DYNAMIC_INDEX in spec.shape:
                extents = ", ".join("?" if e == DYNAMIC_INDEX else str(e) for e in spec.shape)
                self.report.warnings.append(
                    f"input '{spec.name}' has unknown dimensions, [{extents}]: what depends on them"
                    f" runs on the host. Fix them: shapes={{'{spec.name}': ...}} (vta-compile:"
                    f" --shape {spec.name}=...)."
                )

    def _calibrate(self, module: ModuleOp, samples: Samples | None) -> Calibrated | None:
        main = main_function(module)
        if samples is None:
            wanted = all(codegen.preparation() for codegen in self.codegens.values())
            ops = list(main.body.block.ops)
            if (
                wanted
                and not any(map(given_by, ops))
                and any(_could_be_quantised(op) or can_split(self.ctx, op) for op in ops)
            ):
                self.report.warnings.append(NO_CALIBRATION)
            return None
        with self._step("calibrate"):
            names = calibration_values(main)
            extra = {name: v for v, name in names.items() if not isinstance(v, BlockArgument)}
            model = host_model(module, self.ctx, extra_outputs=extra)
            observed = Observed(module, main, names, samples, self.ctx)
            calibrate(
                model,
                names,
                samples,
                method=self.wishes.method,
                percent=self.wishes.percentile,
                progress=lambda done: self._progress(f"calibrate {done}/{len(samples)}"),
                watch=observed.watch,
            )
            observed.leave_out_outliers()
            self.ctx.observations = observed
        return Calibrated(names, model, observed, samples)

    def _measure(
        self,
        module: ModuleOp,
        calibrated: Calibrated | None,
        errors: ErrorOptions,
    ) -> None:
        """The error of each layer, as the preparations of the codegens quantise the network."""
        if calibrated is None:
            raise CompileError(
                Problem(
                    "layer errors", "are measured where samples calibrate the network", GIVE_SAMPLES
                )
            )
        stages = [stage for codegen in self.codegens.values() for stage in codegen.preparation()]
        texts = [stage.with_options(self.wishes.options).passes for stage in stages]

        def quantise(ctx: VtacContext, trial: ModuleOp) -> None:
            for found in _passes(",".join(texts)):
                found.apply(ctx, trial)

        with self._step("measure layer errors"):
            measured = LayerErrors(module, self.ctx, calibrated, errors)
            self.report.layer_errors = measured.settle(quantise)

    def _run(self, stage: Stage, module: ModuleOp) -> None:
        """The passes of a stage, each timed, and then the verifier."""
        for found in _passes(stage.passes):
            with self._step(found.name):
                try:
                    found.apply(self.ctx, module)
                except DiagnosticException as error:
                    raise CompileError(
                        Problem(f"pass '{found.name}'", str(error).strip())
                    ) from error
        if stage.level != ENCODABLE:  # encoding and the hazard checker see more
            with self._step("verify"):
                verify_module(module, Positions(f"level {stage.level}"))
        self._level(stage.level, module)

    def _level(self, name: str, module: ModuleOp) -> None:
        """Count the ops of a level, and keep its text if that is wished for."""
        self.report.levels.append(count_ops(name, module))
        self.report.choices = max(self.report.choices, choices_of(module), key=len)
        self._observe(name, module, self.ctx)
        if self._save_ir is None and name not in self._keep_ir:
            return
        text = module_text(module, locations=True)
        if name in self._keep_ir:
            self.report.ir[name] = text
        if self._save_ir is not None:
            try:
                self._save_ir.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise CompileError(
                    Problem(str(self._save_ir), f"cannot make it: {error.strerror}")
                ) from None
            file = self._save_ir / f"{len(self.report.levels) - 1}_{name}.mlir"
            write_ir(file, text, module, self.ctx)

    @property
    def _engines(self) -> dict[str, Engine]:
        """The engines of codegens that bring their own."""
        own = {name: codegen.engine for name, codegen in self.codegens.items()}
        return {name: engine for name, engine in own.items() if isinstance(engine, Engine)}

    def _build(
        self, module: ModuleOp, made: Mapping[str, str]
    ) -> tuple[dict[str, Function], dict[str, bytes]]:
        """What each codegen makes of its functions; VTA programs first pass the hazard checker."""
        functions: dict[str, Function] = {}
        blobs: dict[str, bytes] = {}
        problems: list[Problem] = []
        for name, codegen in made.items():
            op = SymbolTable.lookup_symbol(module, name)
            assert op is not None, f"the passes of codegen {codegen} lost @{name}"
            with self._step("encode"):
                built = self.codegens[codegen].build(op, self.ctx)
                engine = engine_named(codegen, name, self._engines)
                function, more = engine.store(name, codegen, built, self.ctx.resources)
                functions[name] = function
                blobs |= more
            if isinstance(built, BinaryProgram):
                self.report.instructions[name] = len(built.insns)
                with self._step("verify hazards"):
                    problems += hazards_of(built, self.ctx.resources)
        if problems:
            raise CompileError(problems)
        return functions, blobs

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._progress(name)
        started = time.perf_counter()
        try:
            yield
        finally:
            self.report.spend(name, time.perf_counter() - started)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Python's collector of cycles waits: lowering makes much that stays, and it would look through
    all that again and again. What passes leave behind is collected afterwards.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@cache
def _passes(text: str) -> tuple[ModulePass, ...]:
    return parse_passes(text, OurPasses())


def _could_be_quantised(op: Operation) -> bool:
    """Whether an op computes with floats and is none of those that the host alone knows."""
    return not isinstance(op, HostOp | ConstantOp) and any(
        isinstance(result.type, TensorType) and result.type.element_type == f32
        for result in op.results
    )
