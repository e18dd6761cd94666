"""The driver: an ONNX model in, a module that runs out.

Import, canonicalise, calibrate, and then the pipeline of `stages`; at the end the network is cut
into steps and everything is packed. What needs two rooms is put together here and nowhere else.
"""

import os
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import ConstantOp, HostOp
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.dialects.vta import ProgramOp
from vtac.lowering.graph_to_onnx import host_model
from vtac.lowering.onnx_to_graph import ModelSource, import_model, load_model
from vtac.lowering.vta_to_binary import encode_program
from vtac.passes.graph.conv_transpose_phases import can_split
from vtac.passes.graph.match_patterns import CODEGEN
from vtac.runtime.calibration import Method, calibrate, calibration_values
from vtac.runtime.executor import Module
from vtac.runtime.package import Function, Package
from vtac.runtime.samples import (
    Samples,
    Source,
    input_specs,
    load_samples,
    shapes_from_samples,
    tensor_specs,
)
from vtac.runtime.vta_program import to_function
from vtac.tools.discovery import OurPasses, load_dialects, our_codegens
from vtac.tools.ir_files import module_text, write_ir
from vtac.tools.observations import Observed
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
    STAGES,
    UNCALIBRATED,
    Stage,
)
from vtac.tools.verify_hazards import hazards_of

Shapes = Mapping[str, Sequence[int]]
Progress = Callable[[str], None]
"""Told what comes next."""

Observer = Callable[[str, ModuleOp, VtacContext], None]
"""Called with each level's name, the module as it is then, and the context with the weights."""

NO_CALIBRATION = (
    "the model is a float model and there are no calibration samples, so all of it runs on the"
    " host. Give samples of its inputs: calibration=... (vta-compile: --calibrate data.npz)."
)


def compile_model(
    model: ModelSource,
    target: str | os.PathLike[str] | Target = "pynq",
    calibration: Source | None = None,
    *,
    shapes: Shapes | None = None,
    shift: str = "auto",
    method: Method = "minmax",
    save_ir: str | os.PathLike[str] | None = None,
    keep_ir: Collection[str] = (),
    observe: Observer | None = None,
    progress: Progress | None = None,
    stages: Sequence[Stage] = STAGES,
) -> Module:
    """Compile an ONNX model (path, bytes or ModelProto) for a VTA.

    target: the name of a preset, the path of a ``vta_config.json``, or a Target.
    calibration: inputs from which the ranges of all values are taken; see `vtac.runtime.samples`.
    shapes: input name to shape, for symbolic dimensions. shift: ``channel``, ``block`` or ``auto``:
    what shares one shift (``quantize``). method: ``minmax``, ``percentile`` or ``entropy``.
    save_ir: a folder for the IR of every level; keep_ir: levels kept in the package as text.
    observe: called with the name of each level, the module as it is then, and the context.
    stages: the passes after calibration, for experiments; they end in encodable programs.
    Raises `CompileError` with everything that is wrong. What only deserves a note is in
    ``module.report``; its warnings are also given as such.
    """
    driver = _Driver(Target.of(target), save_ir, keep_ir, observe, progress)
    module = driver.compile(model, calibration, dict(shapes or {}), shift, method, stages)
    for warning in driver.report.warnings:
        warnings.warn(warning, stacklevel=2)
    return module


class _Driver:
    """One compilation: the context, the report, and the module on its way down."""

    def __init__(
        self,
        target: Target,
        save_ir: str | os.PathLike[str] | None,
        keep_ir: Collection[str],
        observe: Observer | None,
        progress: Progress | None,
    ) -> None:
        self.ctx = VtacContext(codegens=our_codegens)
        load_dialects(self.ctx)
        self.target = target
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
        shift: str,
        method: Method,
        stages: Sequence[Stage],
    ) -> Module:
        module, samples = self._import(source, calibration, shapes)
        nodes = Nodes.of(module)
        module.attributes[TARGET_ATTRIBUTE] = self.target
        self._level(IMPORTED, module)
        self._run(UNCALIBRATED if samples is None else CANONICAL, module)
        self._calibrate(module, samples, method)
        plan: Plan | None = None
        for stage in stages:
            self._run(Stage(stage.level, stage.passes.format(shift=shift)), module)
            self.ctx.observations = None  # they are of the float network
            if stage.level == PARTITIONED:
                with self._step("cut into steps"):
                    plan = make_plan(module, self.ctx)
                self.report.placements = place_nodes(nodes, module)
                quantisation = quantisation_of(module, self.ctx)
                if not any(CODEGEN in f.attributes for f in module.ops if isinstance(f, FuncOp)):
                    break
        assert plan is not None
        functions, blobs = self._encode(module)
        package = Package(
            self.target,
            plan.inputs,
            plan.outputs,
            plan.values,
            plan.steps,
            plan.host_parts,
            functions,
            {**plan.blobs, **blobs},
            quantisation,
            self.report.placements,
            self.report.ir,
        )
        with self._step("open"):
            return Module(package, report=self.report)

    def _import(
        self, source: ModelSource, calibration: Source | None, shapes: dict[str, Sequence[int]]
    ) -> tuple[ModuleOp, Samples | None]:
        """The imported network, its symbolic dimensions fixed as far as anything says how."""
        with self._step("import"):
            model = load_model(source)
            module = import_model(model, self.ctx, shapes=shapes)
        samples = None
        if calibration is not None:
            with self._step("read samples"):
                specs = input_specs(main_function(module))
                found = shapes_from_samples(calibration, specs)
                if found:
                    module = import_model(model, self.ctx, shapes={**found, **shapes})
                    specs = input_specs(main_function(module))
                samples = load_samples(calibration, specs)
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

    def _calibrate(self, module: ModuleOp, samples: Samples | None, method: Method) -> None:
        main = main_function(module)
        if samples is None:
            if any(
                _could_be_quantised(op) or can_split(self.ctx, op) for op in main.body.block.ops
            ):
                self.report.warnings.append(NO_CALIBRATION)
            return
        with self._step("calibrate"):
            names = calibration_values(main)
            extra = {name: v for v, name in names.items() if not isinstance(v, BlockArgument)}
            model = host_model(module, self.ctx, extra_outputs=extra)
            observed = Observed(module, main, names, samples, self.ctx)
            calibrate(
                model,
                names,
                samples,
                method=method,
                progress=lambda done: self._progress(f"calibrate {done}/{len(samples)}"),
                watch=observed.watch,
            )
            self.ctx.observations = observed

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

    def _encode(self, module: ModuleOp) -> tuple[dict[str, Function], dict[str, bytes]]:
        """The programs as functions of a package; each first passes the hazard checker."""
        functions: dict[str, Function] = {}
        blobs: dict[str, bytes] = {}
        problems: list[Problem] = []
        for op in module.ops:
            if not isinstance(op, ProgramOp):
                continue
            with self._step("encode"):
                program = encode_program(op)
                function, more = to_function(program, self.ctx.resources)
                functions[function.name] = function
                blobs |= more
                self.report.instructions[function.name] = len(program.insns)
            with self._step("verify hazards"):
                problems += hazards_of(program, self.ctx.resources)
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


@cache
def _passes(text: str) -> tuple[ModulePass, ...]:
    return parse_passes(text, OurPasses())


def _could_be_quantised(op: Operation) -> bool:
    """Whether an op computes with floats and is none of those that the host alone knows."""
    return not isinstance(op, HostOp | ConstantOp) and any(
        isinstance(result.type, TensorType) and result.type.element_type == f32
        for result in op.results
    )
