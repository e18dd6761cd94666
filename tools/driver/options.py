"""The options of a compilation, as one object for `vtac.compile` and ``vta-compile``."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, Literal, TypedDict, Unpack, get_args

from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.passes.graph.codegen import Codegen
from vtac.passes.graph.quantise_options import QuantiseOptions, Requantise, Sharing
from vtac.passes.pipeline import Pipeline
from vtac.runtime.calibration_methods import METHODS, PERCENT, Method
from vtac.runtime.samples import Source
from vtac.tools.commands.diagnostics import close_matches
from vtac.tools.driver.levels import Criteria, calibration
from vtac.tools.reports.layer_errors import ErrorOptions

Shapes = Mapping[str, Sequence[int]]
"""Name of an input to its shape."""

Progress = Callable[[str], None]
"""Called with the name of the next step."""

Observe = Callable[[str, ModuleOp, VtacContext], None]
"""Called with each level's name, the module as it is then, and the context with the weights."""

TuningFiles = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Literal[False]
"""A file of recorded schedules, several, or none at all."""

ChangePipeline = Callable[[Pipeline], Pipeline]
"""Called with the pipeline that the other options lead to; returns the one to run."""


@dataclass(frozen=True)
class CompileOptions:
    """How to compile a model. Raises `CompileError` on values that make no sense.

    *The model.* shapes: input name to shape, for symbolic dimensions. batch: the number of samples
    per run, in place of the leading dimension of every input.

    *Quantisation.* shift: what shares one shift, ``channel``, ``block``, or ``auto``.
    requantise: how sums return to int8, ``shift``, ``multiply`` (where the target can), ``exact``
    (more weight planes where it cannot), or ``auto``: for a model that brings its scales, multiply
    or more planes for some layers, else shift. method: how ranges follow from the samples,
    ``minmax``, ``percentile`` or ``entropy``. percentile: the share of magnitudes that the method
    percentile keeps inside, in percent. layer_errors: measure the signal to quantisation noise of
    each layer (``module.report.layer_errors``, worst first). min_layer_snr: leave layers on the
    host whose own signal to noise is less, in dB. error_samples: what to measure on; the
    calibration samples unless given.

    *Partition.* codegens: who may take parts of the network, by falling priority, as names or as
    `Codegen` objects; None for the default. criteria: what a region must be like to be offloaded.
    keep_float: names of nodes that stay on the host in floating point.

    *Schedules.* tuning: files of recorded schedules (``vta-tune``), the first of which counts most;
    the records that come with vtac are looked at last. None: these alone; False: no records.

    *Clusters.* trials: whether plans, and ways to lower them, are compared on the clock
    (`vtac.tools.driver.trials`); if not, the usual ones are taken.

    *Pipeline.* pipeline: a function that gets the pipeline which the options lead to and returns
    the one to run, for experiments: ``lambda p: p.replace("te-schedule", "te-schedule-conv2d")``.

    *Output.* save_ir: a folder for the IR of every level. keep_ir: levels kept in the package as
    text. observe: called at each level. progress: called with the name of each step.
    """

    shapes: Shapes | None = None
    batch: int | None = None

    shift: str = "auto"
    requantise: str = "auto"
    method: Method = "minmax"
    percentile: float = PERCENT
    layer_errors: bool = False
    min_layer_snr: float | None = None
    error_samples: Source | None = None

    codegens: Sequence[str | Codegen] | None = None
    criteria: Criteria | None = None
    keep_float: Sequence[str] = ()

    tuning: TuningFiles | None = None

    trials: bool = True

    pipeline: ChangePipeline | None = None

    save_ir: str | os.PathLike[str] | None = None
    keep_ir: Collection[str] = ()
    observe: Observe | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        """Raise `CompileError` with all values that make no sense. One name is a list of one."""
        for name in ("keep_float", "codegens"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, (getattr(self, name),))
        if isinstance(self.tuning, str | os.PathLike):
            object.__setattr__(self, "tuning", (self.tuning,))
        problems = [
            Problem(f"option {name}", f"there is no {value!r}", f"Choose {', '.join(known)}.")
            for name, value, known in (
                ("shift", self.shift, get_args(Sharing)),
                ("requantise", self.requantise, get_args(Requantise)),
                ("method", self.method, METHODS),
            )
            if value not in known
        ]
        if self.batch is not None and self.batch < 1:
            problems.append(Problem("option batch", f"{self.batch} is less than 1"))
        if self.min_layer_snr is not None and not isfinite(self.min_layer_snr):
            what = f"{self.min_layer_snr} is no finite number of dB"
            problems.append(Problem("option min_layer_snr", what))
        if not 0 < self.percentile <= 100:
            what = f"{self.percentile} is no percentage above 0"
            problems.append(Problem("option percentile", what))
        if problems:
            raise CompileError(problems)

    @property
    def quantise(self) -> QuantiseOptions:
        """The options of the pass ``quantize``."""
        return QuantiseOptions(self.shift, self.requantise)

    @property
    def calibrate(self) -> Pipeline:
        """The pipeline to the level ``calibrated``, for samples that the driver has in memory."""
        return calibration(method=self.method, percentile=self.percentile)

    @property
    def errors(self) -> ErrorOptions | None:
        """How to measure the errors of layers; None if nobody asks for them."""
        asked = self.layer_errors or self.min_layer_snr is not None
        if not asked and self.error_samples is None:
            return None
        return ErrorOptions(self.min_layer_snr, self.error_samples)


class CompileKeywords(TypedDict, total=False):
    """The fields of `CompileOptions` as keyword arguments."""

    shapes: Shapes | None
    batch: int | None
    shift: str
    requantise: str
    method: Method
    percentile: float
    layer_errors: bool
    min_layer_snr: float | None
    error_samples: Source | None
    codegens: Sequence[str | Codegen] | None
    criteria: Criteria | None
    keep_float: Sequence[str]
    tuning: TuningFiles | None
    trials: bool
    pipeline: ChangePipeline | None
    save_ir: str | os.PathLike[str] | None
    keep_ir: Collection[str]
    observe: Observe | None
    progress: Progress | None


def options_from(**keywords: Unpack[CompileKeywords]) -> CompileOptions:
    """Options from keyword arguments. Raises TypeError on a name that is none."""
    names = [each.name for each in fields(CompileOptions)]
    for name in keywords:
        if name not in names:
            raise TypeError(f"compile() has no option {name!r}{close_matches(name, names)}")
    given: dict[str, Any] = dict(keywords)
    return CompileOptions(**given)
