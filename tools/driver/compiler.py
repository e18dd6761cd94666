"""The driver: compiles an ONNX model to a module that runs.

It imports the model, runs the pipeline of `levels`, cuts the network into steps and packs them. It
connects the rooms, which do not know each other.
"""

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from xdsl.dialects.builtin import ModuleOp
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import DiagnosticException

from vtac.dialects.arguments import MODEL, NONE, SAMPLES, takes
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import MACHINE, TARGET_ATTRIBUTE, Machine, machine_of
from vtac.lowering.onnx_to_graph import (
    ModelSource,
    import_model,
    load_model,
    symbols_of_several_extents,
)
from vtac.lowering.onnx_to_graph.batch import with_batch
from vtac.passes.graph.least_work import least_cycles
from vtac.passes.graph.quantize import QuantizePass
from vtac.passes.pipeline import Pipeline, Segment
from vtac.runtime.engine import Engine
from vtac.runtime.engines import engine_named
from vtac.runtime.executor import Module
from vtac.runtime.memory import give_back_memory
from vtac.runtime.package import Function, Package
from vtac.runtime.samples import (
    Samples,
    Source,
    doubts,
    input_specs,
    load_samples,
    read_source,
    shapes_from_samples,
)
from vtac.tools.commands.positions import Positions, verify_module
from vtac.tools.driver.calibrate import Calibrated, CalibratePass
from vtac.tools.driver.capacity import keep_what_does_not_fit
from vtac.tools.driver.collector import collector_paused
from vtac.tools.driver.discovery import OurPasses, chosen_codegens, load_dialects
from vtac.tools.driver.keep_float import keep_float
from vtac.tools.driver.levels import (
    CALIBRATED,
    CANONICAL,
    IMPORTED,
    PARTITIONED,
    Criteria,
    pipeline_of,
)
from vtac.tools.driver.observed_shapes import observed_types, unknown_dimensions
from vtac.tools.driver.options import (
    OPTIONS,
    CompileKeywords,
    CompileOptions,
    both_given,
    options_from,
)
from vtac.tools.driver.packing import (
    Built,
    Lowered,
    PartitionedSteps,
    faults_sought,
    package_of,
)
from vtac.tools.driver.pipelines import built_passes
from vtac.tools.driver.placements import Nodes, place_nodes, quantisation_of
from vtac.tools.driver.planner import (
    functions_taken,
    main_function,
    network_steps,
)
from vtac.tools.driver.plans import best_plan
from vtac.tools.driver.saved_levels import SavedLevels
from vtac.tools.driver.trials import ClockTrials
from vtac.tools.files.ir_files import module_text, referenced
from vtac.tools.reports.layer_errors import ErrorOptions, LayerErrors
from vtac.tools.reports.partition_report import partition_report
from vtac.tools.reports.plan_summary import plan_summary
from vtac.tools.reports.report import CompileReport, choices_of, count_ops, uncut_layers
from vtac.tools.tune.lookup import recorded_schedules

GIVE_SAMPLES = "Give samples of its inputs: calibration=... (vta-compile: --calibrate data.npz)."
NO_CALIBRATION = (
    "the model is a float model and there are no calibration samples, so all of it runs on the"
    f" host. {GIVE_SAMPLES}"
)

_HOLDS_WEIGHTS = frozenset(
    {"import", "observe shapes", CalibratePass.name, QuantizePass.name, "encode", "package", "open"}
)
"""Steps that may hold all weights of a network for a while."""

NOTHING_OFFLOADED = (
    "nothing runs on the accelerator; --explain (module.explain) says why of each node"
)


@takes(model=MODEL, target=MACHINE, calibration=SAMPLES | NONE, options=OPTIONS | NONE)
def compile_model(
    model: ModelSource,
    target: str | os.PathLike[str] | Machine = "pynq",
    calibration: Source | None = None,
    options: CompileOptions | None = None,
    **keywords: Unpack[CompileKeywords],
) -> Module:
    """Compile an ONNX model (path, bytes or ModelProto) for a VTA.

    target: the name of a preset (of a cluster, too), the path of a file that describes a machine, a
    Target or a ClusterTarget.
    calibration: inputs from which the ranges of all values are taken; see `vtac.runtime.samples`.
    options: a `CompileOptions`; or its fields as keyword arguments, but not both.
    Raises `CompileError` with everything that is wrong. ``module.report`` has notes and warnings;
    the warnings are issued as Python warnings, too.
    """
    if options is not None and keywords:
        raise both_given()
    driver = Driver(machine_of(target), options or options_from(**keywords))
    try:
        module = driver.finish(driver.prepare(model, calibration))
    finally:
        driver.close()
    for warning in driver.report.warnings:
        warnings.warn(warning, stacklevel=3)
    return module


@dataclass(frozen=True)
class PreparedNetwork:
    """A prepared network, its nodes as imported, and the rest of its pipeline."""

    module: ModuleOp
    nodes: Nodes
    rest: Pipeline
    has_samples: bool


class Driver:
    """One compilation: its options, its context and its report."""

    def __init__(self, target: Machine, options: CompileOptions) -> None:
        codegens = chosen_codegens(options.codegens)
        self.recorded = recorded_schedules(options.tuning)
        self.ctx = VtacContext(codegens=lambda: codegens, schedules=self.recorded)
        load_dialects(self.ctx)
        self.target = target
        self.codegens = {codegen.name: codegen for codegen in codegens}
        self.options = options
        self.criteria = options.criteria or Criteria()
        self.report = CompileReport()
        self._calibrated: Calibrated | None = None
        self._is_silent = False  # while what is reached may be only one of several plans
        self._saved = None if options.save_ir is None else SavedLevels(Path(options.save_ir))
        self._observe = options.observe or (lambda name, module, ctx: None)
        self._progress = options.progress or (lambda _: None)

    def close(self) -> None:
        """Let go of the files of records."""
        if self.recorded is not None:
            self.recorded.close()

    def prepare(self, source: ModelSource, calibration: Source | None) -> PreparedNetwork:
        """Import the model and run the part of its pipeline that does not depend on the target."""
        module, samples = self._import(source, calibration, dict(self.options.shapes or {}))
        nodes = Nodes.of(module)
        module.attributes[TARGET_ATTRIBUTE] = self.target
        self._level(IMPORTED, module)
        pipeline = self._pipeline(samples is not None)
        before = pipeline.until(CALIBRATED if CALIBRATED in pipeline.levels else CANONICAL)
        for segment in before.segments:
            self._run(segment, module, samples)
            if segment.level == CANONICAL:
                self.report.notes += keep_float(module, nodes, self.options.keep_float)
            elif segment.level == CALIBRATED and self.options.errors is not None:
                self._measure(module, self.options.errors)
            self._level(segment.level, module)
        return PreparedNetwork(
            module, nodes, pipeline.since(before.levels[-1]), samples is not None
        )

    def quantise(self, prepared: PreparedNetwork) -> PreparedNetwork:
        """Run the passes between calibration and the segment that partitions the network.

        The prepared network is used up.
        """
        if not prepared.has_samples:
            self._note_missing_samples(prepared.module)
        *before, _ = prepared.rest.until(PARTITIONED).segments
        with collector_paused():
            for segment in before:
                self._segment(segment, prepared.module)
        self._drop_weights(prepared.module)
        rest = Pipeline(prepared.rest.segments[len(before) :])
        return replace(prepared, rest=rest)

    def finish(self, prepared: PreparedNetwork) -> Module:
        """Run the rest of the pipeline, and pack the result. The prepared network is used up."""
        return self.lower(self.quantise(prepared))

    def lower(self, prepared: PreparedNetwork) -> Module:
        """Partition and lower what `quantise` returned, and pack the result; it is used up."""
        with collector_paused():
            return self._lower(prepared.rest, prepared.module, prepared.nodes)

    def _pipeline(self, calibrated: bool) -> Pipeline:
        """The pipeline that the options lead to, after the user's changes."""
        pipeline = pipeline_of(
            list(self.codegens.values()),
            self.criteria,
            self.options.quantise,
            self.options.calibrate if calibrated else None,
        )
        change = self.options.pipeline
        return pipeline if change is None else change(pipeline)

    def _lower(self, pipeline: Pipeline, module: ModuleOp, nodes: Nodes) -> Module:
        """Run the part of the pipeline that begins with partitioning, and pack the result.

        Where layers turn out not to fit the machine, the network is partitioned again with these
        layers on the host.
        """
        before = self.report.copy()
        while True:
            unpartitioned = module.clone()
            try:
                usual = self._planned(pipeline, module, nodes)
                break
            except CompileError as error:
                if not keep_what_does_not_fit(unpartitioned, error):
                    raise
                module = unpartitioned
                self._begin_again(before)

        def attempt(plan: Pipeline) -> Lowered:
            self.report, self._is_silent = before.copy(), True
            return self._planned(plan, unpartitioned.clone(), nodes)

        best, plan = best_plan(usual, self.target, attempt)
        self._is_silent = False
        if best is not usual and self._is_watched:
            self.report = usual.report
            self._begin_again(before)
            best = self._planned(best.pipeline, unpartitioned, nodes)
        self.report = best.report
        faults = faults_sought(best.built, self._engine, self.ctx.resources)
        self.report.note_records(() if self.recorded is None else self.recorded.notes)
        self.report.tried = tuple(each for each in (plan, best.trials.choice()) if each)
        self.report.notes += [each.text for each in self.report.tried]
        if not best.built and NO_CALIBRATION not in self.report.warnings:
            self.report.warnings.append(NOTHING_OFFLOADED)
        try:
            with self._step("open"):
                return Module(best.package, report=self.report, engines=self._engines)
        finally:
            with self._step("check"):
                problems = faults()
            if problems:
                raise CompileError(problems)

    def _drop_weights(self, module: ModuleOp) -> None:
        """Drop the float weights of what is quantised now.

        Whoever observes the levels may keep earlier ones, which need theirs.
        """
        self._calibrated = None
        if self.options.observe is None:
            self.ctx.resources.keep(referenced(module))

    def _segment(self, segment: Segment, module: ModuleOp) -> None:
        """Run a segment after calibration, and record the level that it reaches."""
        self._run(segment, module)
        self.ctx.observations = None  # they describe the float network only
        self._level(segment.level, module)

    def _planned(self, pipeline: Pipeline, module: ModuleOp, nodes: Nodes) -> Lowered:
        """Partition and lower a module in the way that is fastest."""
        (partition,) = pipeline.until(PARTITIONED).segments
        self._segment(partition, module)
        cut = self._cut(module, nodes)
        least = least_cycles(module, self.ctx)
        package, built, trials = self._fastest(pipeline.since(PARTITIONED), cut, module)
        return Lowered(pipeline, package, built, trials, self.report, least)

    def _fastest(
        self, lowering: Pipeline, cut: PartitionedSteps, module: ModuleOp
    ) -> tuple[Package, Built, ClockTrials]:
        """Lower a partitioned module to the best package: that, what is in it, what was tried."""
        idle = {
            level
            for codegen in self.codegens.values()
            if codegen.name not in cut.made.values()
            for level in codegen.lowering().levels
        }
        segments = (s for s in lowering.segments if s.level not in idle and cut.made)
        trials = ClockTrials(Pipeline(tuple(segments)), self.target, self.options.trials)
        for segment in trials.shared.segments:
            if segment.level:
                self._segment(segment, module)
            else:
                self._run(segment, module)
        best, fronts = None, dict[str, ModuleOp]()
        for way in trials.alternatives(module):
            known = fronts.get(str(way.front))
            trial = (known or module).clone() if trials.are_more else module
            if known is None:
                self._run_all(way.front, trial)
                fronts[str(way.front)] = trial.clone() if trials.are_more else trial
            self._run_all(way.rest, trial)
            built = self._build(trial, cut.made)
            package = self._package(cut, built)
            opened = Module(package, engines=self._engines) if trials.are_timed else None
            if opened is None or trials.is_best(way, opened):
                best = package, trial, (way.front + way.rest).levels, built
        assert best is not None
        package, module, levels, built = best
        for name, (codegen, op) in built.items():
            self.report.instructions[name] = self._engine(codegen, name).instructions(op)
        for level in levels:
            self._level(level, module)
        return package, built, trials

    def _cut(self, module: ModuleOp, nodes: Nodes) -> PartitionedSteps:
        """Cut a partitioned network into steps, and report where each node went."""
        with self._step("cut into steps"):
            network = network_steps(module, self.ctx)
        placements = self.report.placements = place_nodes(nodes, module)
        self.report.partition = partition_report(
            module, self.codegens.values(), self.criteria.pruning, placements
        )
        return PartitionedSteps(network, quantisation_of(module, self.ctx), functions_taken(module))

    def _package(self, cut: PartitionedSteps, built: Built) -> Package:
        functions: dict[str, Function] = {}
        blobs: dict[str, bytes] = {}
        with self._step("package"):
            for name, (codegen, op) in built.items():
                engine = self._engine(codegen, name)
                functions[name], more = engine.store(name, codegen, op, self.ctx.resources)
                blobs |= more
        on_target = any(codegen.uses_target for codegen in self.codegens.values())
        return package_of(cut, functions, blobs, self.target if on_target else None, self.report)

    def _import(
        self, source: ModelSource, calibration: Source | None, shapes: dict[str, Sequence[int]]
    ) -> tuple[ModuleOp, Samples | None]:
        """Import the network; shapes of the user or of the samples fix symbolic dimensions."""
        with self._step("import"):
            model = load_model(source)
            if self.options.batch is not None:
                model = with_batch(model, self.options.batch)
            is_calibrated = calibration is not None
            module = import_model(model, self.ctx, shapes=shapes, calibrated=is_calibrated)
        samples, fixed = None, shapes
        if calibration is not None:
            with self._step("read samples"):
                calibration = read_source(calibration)
                specs = input_specs(main_function(module), calibration)
                found = shapes_from_samples(calibration, specs)
                fixed = {**found, **shapes}
                if found:
                    module = import_model(model, self.ctx, shapes=fixed, calibrated=True)
                    specs = input_specs(main_function(module))
                samples = load_samples(calibration, specs)
            with self._step("observe shapes"):
                known = observed_types(module, model, fixed, samples)
                if known:
                    module = import_model(
                        model, self.ctx, shapes=fixed, known=known, calibrated=True
                    )
            self.report.notes += samples.notes
            self.report.warnings += doubts(samples, specs)
            self.report.notes += [
                f"input '{name}' has shape {list(shape)}, from the calibration samples"
                for name, shape in found.items()
            ]
        self.report.warnings += symbols_of_several_extents(model, fixed)
        self.report.warnings += unknown_dimensions(module)
        if samples is None and self.options.errors is not None:
            what = "are measured where samples calibrate the network"
            raise CompileError(Problem("layer errors", what, GIVE_SAMPLES))
        return module, samples

    def _note_missing_samples(self, module: ModuleOp) -> None:
        """Warn if every codegen could take more of the network with samples than without."""
        network = list(main_function(module).body.block.ops)
        codegens = self.codegens.values()
        if all(c.wants_samples(network, self.ctx) for c in codegens):
            self.report.warnings.append(NO_CALIBRATION)

    def _measure(self, module: ModuleOp, errors: ErrorOptions) -> None:
        """Measure the error of each layer, quantised as the codegens' preparations do it."""
        assert self._calibrated is not None, "the level is reached by the pass calibrate"
        pipeline = Pipeline()
        for codegen in self.codegens.values():
            pipeline += codegen.preparation(self.options.quantise)

        def quantise(ctx: VtacContext, trial: ModuleOp) -> None:
            for found in built_passes(pipeline.passes, OurPasses()):
                found.apply(ctx, trial)

        with self._step("measure layer errors"):
            measured = LayerErrors(module, self.ctx, self._calibrated, errors)
            self.report.layer_errors = measured.settle(quantise)

    def _run(self, segment: Segment, module: ModuleOp, samples: Samples | None = None) -> None:
        """Run the passes of a segment, time each, then verify the module."""
        for found in built_passes(segment.passes, OurPasses()):
            with self._step(found.name):
                if isinstance(found, CalibratePass) and samples is not None:
                    self._calibrated = found.run(module, self.ctx, samples, self._count(samples))
                    continue
                try:
                    found.apply(self.ctx, module)
                except DiagnosticException as error:
                    raise CompileError(
                        Problem(f"pass '{found.name}'", str(error).strip())
                    ) from error
        if not segment.is_checked_later:
            with self._step("verify"):
                verify_module(module, Positions(f"level {segment.level}"))

    def _run_all(self, pipeline: Pipeline, module: ModuleOp) -> None:
        for segment in pipeline.segments:
            self._run(segment, module)

    def _count(self, samples: Samples) -> Callable[[int], None]:
        return lambda done: self._progress(f"calibrate {done}/{len(samples)}")

    def _level(self, name: str, module: ModuleOp) -> None:
        """Record a level: count its ops, tell the observer, keep or save its text if asked for."""
        self.report.levels.append(count_ops(name, module))
        self.report.uncut |= uncut_layers(module)
        if name == PARTITIONED:
            self.report.plan = plan_summary(module)
        self.report.choices = max(self.report.choices, choices_of(module), key=len)
        if self._is_silent:
            return
        self._observe(name, module, self.ctx)
        if self._saved is None and name not in self.options.keep_ir:
            return
        text = module_text(module, locations=True)
        if name in self.options.keep_ir:
            self.report.ir[name] = text
        if self._saved is not None:
            self._saved.write(len(self.report.levels) - 1, name, text, module, self.ctx)

    @property
    def _is_watched(self) -> bool:
        """Whether anybody wants to see the IR of levels."""
        return bool(self._saved or self.options.keep_ir or self.options.observe)

    def _begin_again(self, before: CompileReport) -> None:
        """Forget the levels that were reached since a state of the report."""
        if self._saved is not None:
            for number in range(len(before.levels), len(self.report.levels)):
                self._saved.remove(number, self.report.levels[number].name)
        self.report = before.copy()

    @property
    def _engines(self) -> dict[str, Engine]:
        """The engines of those codegens that have one as an attribute."""
        own = {name: codegen.engine for name, codegen in self.codegens.items()}
        return {name: engine for name, engine in own.items() if isinstance(engine, Engine)}

    def _engine(self, codegen: str, function: str) -> Engine:
        """The engine of a codegen, for one of its functions."""
        return engine_named(codegen, function, self._engines)

    def _build(self, module: ModuleOp, made: Mapping[str, str]) -> Built:
        """Build each function by its codegen."""
        built: dict[str, tuple[str, object]] = {}
        for name, codegen in made.items():
            op = SymbolTable.lookup_symbol(module, name)
            assert op is not None, f"the passes of codegen {codegen} lost @{name}"
            with self._step("encode"):
                built[name] = codegen, self.codegens[codegen].build(op, self.ctx)
        return built

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._progress(name)
        started = time.perf_counter()
        try:
            yield
        finally:
            if name in _HOLDS_WEIGHTS:
                give_back_memory()
            self.report.spend(name, time.perf_counter() - started)
