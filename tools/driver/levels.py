"""The pipeline of a compilation: which passes lead from which level to which.

`vtac.compile` runs what `pipeline_of` returns. ``vta-compile --print-pipeline`` prints it, and
``vta-opt`` takes it, whole or from a level on, so that the IR that ``--save-ir`` wrote can be taken
up at any level. The codegens say which passes come before and after partitioning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite

from vtac.dialects.arguments import ANYTHING, FLAG, NONE, by_name, verify_arguments, whole
from vtac.dialects.errors import CompileError, Problem
from vtac.passes.graph.codegen import Codegen
from vtac.passes.graph.host_model import HostModel
from vtac.passes.graph.merge_regions import MergeRegionsPass
from vtac.passes.graph.prune_regions import PruneRegionsPass
from vtac.passes.graph.quantise_options import QuantiseOptions
from vtac.passes.graph.softmax.integer_softmax import IntegerSoftmaxPass
from vtac.passes.graph.streams.integer_streams import IntegerStreamsPass
from vtac.passes.graph.weights_from_activations import WeightsFromActivationsPass
from vtac.passes.pipeline import Pipeline, Segment

IMPORTED = "imported"
"""The level of a network as it was imported, before any pass."""

CANONICAL = "canonical"
"""The level at which float ops are in their normal form."""

CALIBRATED = "calibrated"
"""The level at which float values have the ranges that they took on samples."""

PARTITIONED = "graph"
"""The level at which ``@main`` is cut into host parts and launches."""

COMPARING = tuple(
    each.name for each in (IntegerStreamsPass, IntegerSoftmaxPass, WeightsFromActivationsPass)
)
"""The passes before partitioning that compare the accelerator with the host."""

CANONICALISE = Pipeline.of(
    "fold-constants,move-transposes,conv-transpose-phases,canonicalize-graph,fuse-quantize-pairs,flatten-to-conv,"
    "fuse-quantize-pairs",
    CANONICAL,
)
"""From the imported network to its normal form."""


UNCALIBRATED = CANONICALISE.with_options("conv-transpose-phases", given=True)
"""The same for a network without samples, which has integers only where it brings its scales."""


def calibration(
    samples: str = "", *, method: str = "minmax", percentile: float = 99.99
) -> Pipeline:
    """The pass ``calibrate`` with its options. samples: a file, unless the driver has them."""
    options: dict[str, str | float] = {"method": method}
    if samples:
        options["samples"] = samples
    if method == "percentile":
        options["percentile"] = percentile
    return Pipeline.of("calibrate", CALIBRATED).with_options("calibrate", **options)


_KINDS = {
    "max_ops": whole(1) | NONE,
    "min_macs": whole(0),
    "max_border_bytes": whole(0) | NONE,
    "compare": FLAG,
    "host": by_name(ANYTHING),
}
"""What each field of `Criteria` may be."""


@dataclass(frozen=True)
class Criteria:
    """What the user wants of a partition, beyond what the codegens can do.

    max_ops: the largest number of ops in a region. min_macs: the smallest number of
    multiply-accumulates in a region. max_border_bytes: the most bytes that may enter and leave a
    region. compare: whether a region goes back to the host if the host would finish it sooner.
    host: how fast the host is: fields of `HostModel` that replace those of the codegen.
    """

    max_ops: int | None = None
    min_macs: int = 0
    max_border_bytes: int | None = None
    compare: bool = True
    host: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise `CompileError` on numbers that make no sense."""
        verify_arguments("criterion", _KINDS, vars(self))
        known = [field.name for field in fields(HostModel)]
        problems = [
            Problem(f"criterion host[{name!r}]", f"there is none; there are {', '.join(known)}")
            if name not in known
            else Problem(f"criterion host[{name!r}]", f"{rate} is no finite number above 0")
            for name, rate in self.host.items()
            if name not in known or not _is_rate(name, rate)
        ]
        if problems:
            raise CompileError(problems)

    @property
    def pruning(self) -> PruneRegionsPass:
        """The pass that applies all criteria but ``max_ops``."""
        return PruneRegionsPass(
            min_macs=self.min_macs,
            max_border_bytes=self.max_border_bytes,
            compare=self.compare,
            **self.host,
        )

    def comparing(self, preparation: Pipeline) -> Pipeline:
        """A codegen's preparation, whose passes compare with the same host as `pruning`."""
        options = {**({} if self.compare else {"compare": False}), **self.host}
        names = {spec.name for spec in preparation.passes} & {*COMPARING} if options else set()
        for name in sorted(names):
            preparation = preparation.with_options(name, **options)
        return preparation

    @property
    def passes(self) -> Pipeline:
        """The passes from composites to functions."""
        specs = (
            *Pipeline.of("annotate").passes,
            MergeRegionsPass(self.max_ops).pipeline_pass_spec(),
            self.pruning.pipeline_pass_spec(),
            *Pipeline.of("outline-regions").passes,
        )
        return Pipeline((Segment(specs),))


def _is_rate(name: str, value: float) -> bool:
    """Whether a host may be so fast: rates are above 0, fixed costs may be 0."""
    return isfinite(value) and (value > 0 or (value == 0 and name.startswith("cycles")))


def pipeline_of(
    codegens: Sequence[Codegen],
    criteria: Criteria | None = None,
    quantise: QuantiseOptions | None = None,
    calibrate: Pipeline | None = None,
) -> Pipeline:
    """Everything after import, for codegens by falling priority.

    Each codegen prepares what the ones before it have left, and takes of that what it can.
    calibrate: what leads to the level ``calibrated``, None where there are no samples. Then floats
    stay floats, and a transposed convolution of floats gains nothing from being split into phases.
    """
    pipeline = UNCALIBRATED if calibrate is None else CANONICALISE + calibrate
    for codegen in codegens:
        preparation = codegen.preparation(quantise or QuantiseOptions())
        pipeline += (criteria or Criteria()).comparing(preparation)
        pipeline += Pipeline.of("match-patterns").with_options(
            "match-patterns", codegen=codegen.name
        )
    pipeline += (criteria or Criteria()).passes
    if any(codegen.passes() for codegen in codegens):
        pipeline += Pipeline.of("codegen-passes")
    for codegen in codegens:
        pipeline += codegen.layout()
    pipeline = pipeline.reaching(PARTITIONED)
    for codegen in codegens:
        pipeline += codegen.lowering()
    return pipeline


def part_of(pipeline: Pipeline, start: str | None, end: str | None) -> Pipeline:
    """The passes from one level to another; None stands for the beginning and for the end.

    Raises `CompileError` on levels that are none, or that do not come in this order.
    """
    if start is not None and start != IMPORTED:
        pipeline = pipeline.since(start)
    return pipeline if end is None else pipeline.until(end)


def default_part(
    codegens: Sequence[Codegen], start: str | None, end: str | None, samples: str | None
) -> Pipeline:
    """The passes from one level to another for default options.

    samples: the file to calibrate on, if any. From the level ``calibrated`` on there is no need.
    """
    is_calibrated = samples is not None or CALIBRATED in (start, end)
    calibrate = calibration(samples or "") if is_calibrated else None
    return part_of(pipeline_of(codegens, calibrate=calibrate), start, end)
