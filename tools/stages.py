"""The pipeline, as data: which passes lead from which level to which.

``vtac.compile`` runs these; `vta-opt -p` takes the same text, so that any stage can be repeated by
hand on the IR that ``--save-ir`` left.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """Passes that run together. level: what the module is called afterwards."""

    level: str
    passes: str


CANONICAL = Stage(
    "canonical", "fold-constants,conv-transpose-phases,canonicalize-graph,flatten-to-conv"
)
"""Before calibration: float ops in their normal form."""

UNCALIBRATED = Stage(CANONICAL.level, CANONICAL.passes.replace("conv-transpose-phases,", ""))
"""Instead, where no samples are given: what stays float gains nothing from being split."""

STAGES = (
    Stage("quantised", "quantize{{shift={shift}}}"),
    Stage(
        "graph",
        "byte-planes,fold-first-layer,match-patterns,annotate,merge-regions,prune-regions,"
        "outline-regions,layout",
    ),
    Stage(
        "te",
        "graph-to-te,te-legalize-casts,te-fuse-accumulators,te-split-bodies,"
        "te-drop-clips,te-nest-shifts,te-place-biases,te-block-immediates,te-cover-stores,"
        "te-schedule",
    ),
    Stage(
        "loops",
        "te-declare-intrinsics,te-to-loops,te-apply-schedule,te-share-buffers,te-simplify-loops,"
        "te-pack-constants",
    ),
    Stage("vta", "te-to-vta,vta-allocate,vta-plan-microops,vta-insert-dependences"),
)
"""After calibration, in order; ``{shift}`` is filled in."""

IMPORTED = "imported"
LEVELS = (IMPORTED, CANONICAL.level, *(stage.level for stage in STAGES))
"""The names of all levels, in order."""

PARTITIONED = "graph"
"""The level at which ``@main`` is cut into host parts and launches."""

ENCODABLE = STAGES[-1].level
"""The level whose programs are encoded and checked for hazards."""
