"""TVM's schedules for the convolutions of ResNet-18, as pipelines: the baseline of bench_layers.

The tiles are those that Apache TVM publishes for its VTA backend (TopHub, ``vta_v0.08``), found by
AutoTVM on the 1x16 design; the schedule they fill in is `te-schedule-conv2d`. The first layer has
none: TVM leaves it to the CPU.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace

from vtac.passes.pipeline import Pipeline


@dataclass(frozen=True)
class Tiles:
    """The options of te-schedule-conv2d, in its order."""

    h: int
    w: int
    ci: int
    co: int
    oc_threads: int
    h_threads: int

    @property
    def alone(self) -> "Tiles":
        """The same tiles in one thread."""
        return replace(self, oc_threads=1, h_threads=1)


TUNED: Mapping[str, Tiles] = {
    "C2": Tiles(8, 56, 1, 2, 2, 1),
    "C3": Tiles(7, 28, 1, 4, 2, 1),
    "C4": Tiles(7, 28, 1, 4, 1, 2),
    "C5": Tiles(14, 28, 1, 2, 1, 2),
    "C6": Tiles(14, 14, 1, 4, 2, 1),
    "C7": Tiles(7, 14, 1, 8, 2, 1),
    "C8": Tiles(14, 14, 1, 4, 2, 1),
    "C9": Tiles(7, 7, 1, 16, 2, 1),
    "C10": Tiles(7, 7, 1, 16, 2, 1),
    "C11": Tiles(7, 7, 1, 16, 2, 1),
}
"""By layer."""


def with_tvm_schedule(pipeline: Pipeline, tiles: Tiles) -> Pipeline:
    """A pipeline with TVM's schedule; the epilogue is what TVM makes of it, ALU operations.

    Instructions stay in the order of the schedule, and buffers have the slots that it gives them.
    """
    names = ("h", "w", "ci", "co", "oc-threads", "h-threads")
    options = " ".join(f"{n}={v}" for n, v in zip(names, astuple(tiles), strict=True))
    schedule = f"graph-to-te,te-split-bodies,te-block-immediates,te-schedule-conv2d{{{options}}}"
    as_written = pipeline.without("vta-order-instructions")
    return as_written.with_options("vta-allocate", most_slots=0).replace("te", schedule)
