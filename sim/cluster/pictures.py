"""Pictures of a launch of a cluster: all modules and GB over time, and a roofline per memory.

They need matplotlib, the optional extra ``plots``.
"""

import numpy as np

from ..timing.pictures import KINDS, bars, image_of, new_figure
from ..timing.work import InstructionKind
from .timing import ClusterReport, cluster_rooflines, gb_occupancy

CLUSTER_KINDS = {
    **KINDS,
    InstructionKind.WAIT: ("#ffd8d8", "wait"),
    InstructionKind.SIGNAL: ("#d62728", "signal"),
    InstructionKind.COPY: ("#bcbd22", "copy"),
}
"""The colours and names of kinds of instructions, also those of a cluster alone."""
_INCH_PER_TRACK = 0.22


def cluster_timeline_picture(report: ClusterReport, suffix: str = "png") -> bytes:
    """The modules of all units over time, and the occupied bytes of GB below them.

    suffix: the format of the image (png, svg, pdf). Raises `PlotsMissing`.
    """
    cluster = report.cluster
    names = [
        f"{cluster.unit_name(unit)} {module}"
        for unit in range(cluster.cores)
        for module in cluster.core.system.modules
    ]
    names += ["dma"] * cluster.dma
    figure, axes = new_figure(12.0, 2.4 + _INCH_PER_TRACK * len(names))
    below = axes
    if cluster.gb_bytes:
        figure.delaxes(axes)
        ratios = [max(len(names), 6), 3]
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=ratios)
        levels = gb_occupancy(report)
        below.fill_between(levels.cycles, levels.amounts / 1024, step="post", color="#72b7b2")
        below.set_ylabel("GB, KiB")
        below.set_ylim(bottom=0)
    labelled: set[InstructionKind] = set()
    for unit in range(cluster.units):
        work, timeline = report.work(unit), report.timeline(unit)
        spans = np.stack([timeline.start, np.minimum(timeline.end, report.cycles)], axis=1)
        started = timeline.start < timeline.cycles
        for kind, (colour, name) in CLUSTER_KINDS.items():
            for module in cluster.core.system.modules:
                rows = started & (work.kind == kind) & (work.module == module)
                if rows.any():
                    track = len(cluster.core.system.modules) * unit + module
                    bars(axes, track, spans[rows], colour, None if kind in labelled else name)
                    labelled.add(kind)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", labelsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, report.cycles)
    below.set_xlabel(f"cycle ({cluster.preset}, {report.cycles:,} in all)")
    figure.legend(loc="outside upper center", ncols=len(CLUSTER_KINDS) // 2, frameon=False)
    return image_of(figure, suffix)


def cluster_roofline_picture(report: ClusterReport, suffix: str = "png") -> bytes:
    """One roof and one dot per memory: how much is computed for each byte that is read from it.

    Raises `PlotsMissing`.
    """
    figure, axes = new_figure(9.0, 5.0)
    lines = cluster_rooflines(report)
    knees = [line.roofs.peak / line.roofs.bandwidth for line in lines if line.roofs.bandwidth]
    known = [line.intensity for line in lines if 0 < line.intensity < float("inf")]
    low, high = min([*knees, *known]) / 4, max([*knees, *known]) * 4
    for number, (line, knee) in enumerate(zip(lines, knees, strict=True)):
        colour = f"C{number}"
        points = (low, knee, high)
        label = f"{line.name}, {line.roofs.bandwidth:g} bytes per cycle"
        axes.plot(points, [line.roofs.limit(x) for x in points], color=colour, label=label)
        if line.intensity in known and line.reached:
            axes.plot([line.intensity], [line.reached], "o", color=colour)
    axes.legend(frameon=False)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("multiply-accumulates per byte read from the memory")
    axes.set_ylabel("multiply-accumulates per cycle")
    axes.set_title(report.cluster.preset)
    return image_of(figure, suffix)
