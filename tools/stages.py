"""The pipeline, as data: which passes lead from which level to which.

``vtac.compile`` runs these; `vta-opt -p` takes the same text, so that any stage can be repeated by
hand on the IR that ``--save-ir`` left. What comes before and after partitioning is the codegens'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vtac.lowering.codegens.vta import VtaCodegen
from vtac.passes.graph.codegen import Codegen, Stage
from vtac.passes.graph.merge_regions import MergeRegionsPass
from vtac.passes.graph.prune_regions import PruneRegionsPass

CANONICAL = Stage(
    "canonical",
    "fold-constants,conv-transpose-phases,canonicalize-graph,fuse-quantize-pairs,flatten-to-conv,"
    "fuse-quantize-pairs",
)
"""Before calibration: float ops in their normal form."""

UNCALIBRATED = Stage(CANONICAL.level, CANONICAL.passes.replace("conv-transpose-phases,", ""))
"""Instead, where no samples are given: what stays float gains nothing from being split."""

PARTITIONED = "graph"
"""The level at which ``@main`` is cut into host parts and launches."""


@dataclass(frozen=True)
class Criteria:
    """What the user wants of a partition, beyond what the codegens can do.

    max_ops: a region has at most. min_macs: multiply-accumulates that a region has at least.
    max_border_bytes: that enter and leave it at most. compare: whether a region goes back that the
    host would finish sooner. host: how fast that host is, where it is not as the codegen says:
    fields of `HostModel`.
    """

    max_ops: int | None = None
    min_macs: int = 0
    max_border_bytes: int | None = None
    compare: bool = True
    host: Mapping[str, float] = field(default_factory=dict)

    @property
    def pruning(self) -> PruneRegionsPass:
        """The pass that applies most of them."""
        return PruneRegionsPass(self.min_macs, self.max_border_bytes, self.compare, **self.host)

    @property
    def passes(self) -> str:
        """The passes from composites to functions."""
        chosen = MergeRegionsPass(self.max_ops), self.pruning
        specs = (str(found.pipeline_pass_spec()) for found in chosen)
        return ",".join(("annotate", *specs, "outline-regions"))


def pipeline(codegens: Sequence[Codegen], criteria: Criteria) -> tuple[Stage, ...]:
    """Everything after calibration, for codegens by falling priority.

    Each prepares what the ones before it have left, and takes of that what it can.
    """
    stages: list[Stage] = []
    pending: list[str] = []
    for codegen in codegens:
        for stage in codegen.preparation():
            pending.append(stage.passes)
            if stage.level:
                stages.append(Stage(stage.level, ",".join(pending)))
                pending = []
        pending.append(f"match-patterns{{codegen={codegen.name}}}")
    pending.append(criteria.passes)
    if any(codegen.passes() for codegen in codegens):
        pending.append("codegen-passes")
    pending += [codegen.layout() for codegen in codegens if codegen.layout()]
    stages.append(Stage(PARTITIONED, ",".join(pending)))
    return (*stages, *(stage for codegen in codegens for stage in codegen.lowering()))


STAGES = pipeline([VtaCodegen()], Criteria())
"""The pipeline of the default, which `tools.te_compiler` and experiments take parts of."""

IMPORTED = "imported"
LEVELS = (IMPORTED, CANONICAL.level, *(stage.level for stage in STAGES))
"""The names of all levels, in order."""

ENCODABLE = STAGES[-1].level
"""The level whose programs are encoded and checked for hazards."""
