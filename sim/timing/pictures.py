"""Pictures of a run: the timeline of the modules, and the roofline with one dot per layer.

They need matplotlib, the optional extra ``plots``.
"""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dialects.target import Target, TimingPreset
from .accounts import Account
from .report import TimingReport
from .roofline import Roofs, intensity
from .work import InstructionKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = {
    InstructionKind.INP: ("#4c78a8", "LOAD INP"),
    InstructionKind.WGT: ("#9ecae9", "LOAD WGT"),
    InstructionKind.ACC: ("#72b7b2", "LOAD ACC"),
    InstructionKind.UOP: ("#b279a2", "LOAD UOP"),
    InstructionKind.GEMM: ("#54a24b", "GEMM"),
    InstructionKind.RESET: ("#b4d8ae", "GEMM reset"),
    InstructionKind.ALU: ("#f2a03d", "ALU"),
    InstructionKind.STORE: ("#e45756", "STORE"),
    InstructionKind.SYNC: ("#888888", "sync"),
}
"""For each kind of instruction its colour, and its name for users."""

_MARKERS = "osD"
_FETCH_COLOUR = "#bab0ac"


class PlotsMissing(Exception):  # noqa: N818
    """matplotlib is not installed."""

    def __init__(self) -> None:
        super().__init__("pictures need matplotlib: pip install 'vtac[plots]'")


def timeline_picture(
    report: TimingReport, suffix: str = "png", window: tuple[int, int] | None = None
) -> bytes:
    """The four modules over time, an image in the format `suffix` (png, svg, pdf).

    window: the cycles to show, all if None. Raises `PlotsMissing`.
    """
    figure, axes = new_figure(12.0, 3.2)
    low, high = window if window is not None else (0, report.cycles)
    chunks = [(c.command, c.ready) for c in report.timeline.chunks if c.command < report.cycles]
    bars(axes, 0, np.array(chunks, np.int64).reshape(-1, 2), _FETCH_COLOUR, None)
    work, timeline = report.work, report.timeline
    spans = np.stack([timeline.start, np.minimum(timeline.end, report.cycles)], axis=1)
    started = timeline.start < report.cycles
    for kind, (colour, name) in KINDS.items():
        chosen = started & (work.kind == kind)
        label: str | None = name
        for module in report.target.system.modules:
            rows = chosen & (work.module == module)
            if rows.any():
                bars(axes, module + 1, spans[rows], colour, label)
                label = None
    tracks = ["fetch", *(module.name for module in report.target.system.modules)]
    axes.set_yticks(range(len(tracks)), tracks)
    axes.invert_yaxis()
    axes.set_xlim(low, high)
    axes.set_xlabel(f"cycle ({report.preset.name}, {report.cycles:,} in all)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.18), ncols=len(KINDS), frameon=False)
    return image_of(figure, suffix)


def roofline_picture(report: TimingReport, suffix: str = "png") -> bytes:
    """One dot per label (or one for the program) under the machine's two roofs.

    Raises `PlotsMissing`.
    """
    return roofline_of(report.target, report.preset, report.regions or (report.total,), suffix)


def roofline_of(
    target: Target, preset: TimingPreset, accounts: Sequence[Account], suffix: str = "png"
) -> bytes:
    """One dot per account, of one run or of several on the same machine.

    Raises `PlotsMissing`.
    """
    figure, axes = new_figure(9.0, 5.0)
    dots = [account for account in accounts if account.macs and account.cycles]
    roofs = Roofs.of(target, preset)
    peak = roofs.peak
    intensities = [intensity(dot) for dot in dots]
    knee = peak / (preset.port_bytes * preset.read_channels)
    low = min([knee, *intensities]) / 4
    high = max([knee, *intensities]) * 4
    axes.plot([low, knee, high], [roofs.limit(x) for x in (low, knee, high)], color="black")
    if (bandwidth := roofs.bandwidth) is not None:
        middle = (low * knee) ** 0.5
        axes.text(middle * 1.15, middle * bandwidth, f"{bandwidth:g} bytes per cycle", va="top")
    axes.text(high, peak * 1.08, f"{peak:g} per cycle", ha="right")
    for number, (dot, at_intensity) in enumerate(zip(dots, intensities, strict=True), start=1):
        at = (at_intensity, dot.macs / dot.cycles)
        colour = f"C{(number - 1) % 10}"
        name = f"{number}  {dot.label or preset.name}"
        axes.plot(
            *([value] for value in at), _MARKERS[(number - 1) // 10 % 3], color=colour, label=name
        )
        axes.annotate(str(number), at, xytext=(4, -10), textcoords="offset points", size=7)
    if dots:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=7)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(top=peak * 2)
    axes.set_xlabel("multiply-accumulates per byte read from DRAM")
    axes.set_ylabel("multiply-accumulates per cycle")
    axes.set_title(preset.name)
    return image_of(figure, suffix)


def new_figure(width: float, height: float) -> "tuple[Figure, Axes]":
    """A figure of so many inches, and its axes. Raises `PlotsMissing`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotsMissing from None
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def bars(axes: "Axes", track: int, spans: Any, colour: str, label: str | None) -> None:
    """Draw spans of time, int64 [n, 2], on a track."""
    pairs: Sequence[tuple[int, int]] = [(a, b - a) for a, b in spans.tolist()]
    axes.broken_barh(pairs, (track - 0.4, 0.8), facecolors=colour, label=label)


def image_of(figure: "Figure", suffix: str) -> bytes:
    """The figure as an image in the format `suffix`."""
    stream = io.BytesIO()
    metadata = (
        {"Software": None} if suffix == "png" else {"Date": None} if suffix == "svg" else None
    )
    figure.savefig(stream, format=suffix, dpi=150, metadata=metadata)
    return stream.getvalue()
