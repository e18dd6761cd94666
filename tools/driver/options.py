"""The options of a compilation, as one object for `vtac.compile` and ``vta-compile``."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict, Unpack, get_args

from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.arguments import (
    ANYTHING,
    FLAG,
    FUNCTION,
    NONE,
    PATH,
    SAMPLES,
    TEXT,
    ArgumentError,
    Kind,
    by_name,
    instance,
    number,
    one_of,
    several,
    verify_arguments,
    whole,
)
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import Problem
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


_KINDS = {
    "shapes": by_name(ANYTHING) | NONE,
    "batch": whole(1) | NONE,
    "shift": one_of(get_args(Sharing)),
    "requantise": one_of(get_args(Requantise)),
    "method": one_of(METHODS),
    "percentile": number(above=0, most=100),
    "layer_errors": FLAG,
    "min_layer_snr": number() | NONE,
    "error_samples": SAMPLES | NONE,
    "codegens": several(TEXT | instance("a Codegen", Codegen)) | NONE,
    "criteria": instance("a Criteria", Criteria) | NONE,
    "keep_float": several(TEXT),
    "tuning": several(PATH) | Kind("False", lambda value: value is False) | NONE,
    "trials": FLAG,
    "pipeline": FUNCTION | NONE,
    "save_ir": PATH | NONE,
    "keep_ir": several(TEXT),
    "observe": FUNCTION | NONE,
    "progress": FUNCTION | NONE,
}
"""What each field of `CompileOptions` may be."""


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
        verify_arguments("option", _KINDS, vars(self))

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


OPTIONS = instance("a CompileOptions", CompileOptions)


def both_given() -> ArgumentError:
    """What to raise on options as an object and as keywords."""
    what = "options, or their fields as keywords, but not both"
    return ArgumentError(Problem("argument options", what, "Leave one of them out."))


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
    """Options from keyword arguments. Raises `ArgumentError` on names that are none."""
    names = [each.name for each in fields(CompileOptions)]
    known = f"There are {', '.join(names)}."
    problems = [
        Problem(f"option {name}", f"there is no option {name!r}{close_matches(name, names)}", known)
        for name in keywords
        if name not in names
    ]
    if problems:
        raise ArgumentError(problems)
    given: dict[str, Any] = dict(keywords)
    return CompileOptions(**given)
