"""The picture of an exploration: cycles against cost, with the front."""

from typing import TYPE_CHECKING

from vtac.sim.timing.pictures import image_of, new_figure
from vtac.tools.explore_machines.exploration import Exploration, ExploredMachine
from vtac.tools.explore_machines.output import shown, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#4c78a8", "#f2a03d", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#888888")
_MARKERS = "osD^vPX"


def front_picture(found: Exploration, suffix: str = "png") -> bytes:
    """One dot per machine, an image in the format `suffix` (png, svg, pdf).

    The colours are those of `coloured_by`. The front is a line with numbers, as in the table, and
    the base a cross. Raises `PlotsMissing`.
    """
    figure, axes = new_figure(9.0, 5.5)
    field = coloured_by(found)
    _dots(axes, found, field)
    front = found.front
    axes.step(
        [row.candidate.cost for row in front],
        [row.cycles for row in front],
        where="post",
        color="black",
        linewidth=1,
        zorder=1,
        label="no other is better",
    )
    for number, row in enumerate(front, start=1):
        at = (row.candidate.cost, row.cycles)
        axes.annotate(str(number), at, xytext=(-3, -11), textcoords="offset points", size=7)
    cost = found.space.cost_of(found.space.base)
    if found.base.cycles is not None and cost is not None:
        axes.plot(
            [cost],
            [found.base.cycles],
            "x",
            color="black",
            label=f"base ({found.space.base.preset})",
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel(f"cost: {found.space.cost.text}")
    axes.set_ylabel("cycles")
    axes.set_title(f"{found.network}: {len(found.compared)} machines")
    axes.legend(frameon=False, fontsize=8)
    return image_of(figure, suffix)


def _dots(axes: "Axes", found: Exploration, field: str) -> None:
    on_front = set(map(id, found.front))
    values = list(found.space.fields[field])
    for value in values:
        number = values.index(value)
        rows = [row for row in found.compared if row.values[field] == value]
        colour, marker = _COLOURS[number % 7], _MARKERS[number % 7]
        label = f"{title_of(field)} {shown(field, value)}"
        others = [row for row in rows if id(row) not in on_front]
        axes.plot(*_places(others), marker, color=colour, alpha=0.45, markersize=4, label=label)
        best = [row for row in rows if id(row) in on_front]
        axes.plot(*_places(best), marker, color=colour, markersize=7)


def _places(rows: list[ExploredMachine]) -> tuple[list[float], list[int]]:
    return [row.candidate.cost for row in rows], [row.cycles for row in rows]


def coloured_by(found: Exploration) -> str:
    """The field that says most about cycles: of which cycles differ least where it is the same.

    Cycles are compared on a logarithmic scale. A field with one value says nothing.
    """
    import numpy as np

    cycles = np.log([row.cycles for row in found.compared])

    def left(name: str) -> float:
        values = [row.values[name] for row in found.compared]
        groups = ([c for c, v in zip(cycles, values, strict=True) if v == each] for each in values)
        return float(sum(np.var(group) for group in groups))

    return min(found.space.names, key=left)
