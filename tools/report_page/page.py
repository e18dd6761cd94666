"""Writes the page: the template, the styles and the scripts with the contents of a network."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vtac.dialects.arguments import NONE, PATH, TEXT, Kind, instance, several, takes
from vtac.runtime.executor import Module
from vtac.sim import TimingPreset
from vtac.tools.report_page.contents import (
    Contents,
    contents_of,
    figures,
    machine_text,
    macs_text,
    module_rows,
    page_data,
)
from vtac.tools.report_page.lanes import LaneRow, width
from vtac.tools.report_page.nodes import NodeCost
from vtac.tools.reports.page_parts import page_templates, plot_library

if TYPE_CHECKING:
    from vtac.tools.reports.layer_errors import LayerError

TEMPLATES = Path(__file__).parent / "templates"
STYLE = TEMPLATES / "page.css"
ROW = 30
"""The height of a row in pixels, which lanes must meet exactly."""

LANE, NARROW, MOST = 14, 4, 180
"""Pixels from lane to lane: as wide as that, or as narrow, where lanes need more than the most."""

COLOURS = 6
"""The number of colours of lanes."""


def _is_layer_error(value: object) -> bool:
    return hasattr(value, "node")


@takes(
    module=instance("a Module", Module),
    title=TEXT,
    preset=PATH | instance("a TimingPreset", TimingPreset) | NONE,
    layer_errors=several(Kind("the error of a layer", _is_layer_error)) | NONE,
)
def report_html(
    module: Module,
    *,
    title: str = "",
    preset: str | TimingPreset | None = None,
    layer_errors: "Iterable[LayerError] | None" = None,
) -> str:
    """The page of a compiled network, as the text of one HTML file.

    title: a name for the network. preset: the clock, as of `Module.profile`. layer_errors: the
    errors of layers; by default those that the compiler measured, if it did so in this process.
    Raises `CompileError` if a package that the page needs is not installed, or as `Module.profile`.
    """
    return html_of(contents_of(module, title or "A compiled network", preset, layer_errors))


def html_of(contents: Contents) -> str:
    """The page that shows the contents. Raises `CompileError` as `report_html`."""
    environment, library = page_templates(TEMPLATES), plot_library()
    scripts = [library, *(_source(name) for name in ("charts.js", "page.js"))]
    return str(
        environment.get_template("page.html.j2").render(
            contents=contents,
            figures=figures(contents),
            rows=_rows(contents),
            module_rows=module_rows(contents),
            machine=machine_text(contents),
            row_height=ROW,
            data=page_data(contents),
            style=_source("page.css"),
            scripts=[text.replace("</script", "<\\/script") for text in scripts],
        )
    )


@cache
def _source(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class LanePath:
    """A line of a lane: the commands of an SVG path, and the number of its colour."""

    commands: str
    colour: int


@dataclass(frozen=True)
class NodeRow:
    """A row of the list of nodes. work, waits: in per cent of the largest cycles of a node."""

    number: int
    node: NodeCost
    macs: str
    lines: Sequence[LanePath]
    x: float
    radius: float
    graph_width: float
    work: float
    waits: float


def _rows(contents: Contents) -> list[NodeRow]:
    count = width(contents.lanes)
    pitch = max(NARROW, min(LANE, MOST / count))
    most = max((node.cycles for node in contents.nodes), default=0) or 1
    rows = []
    for number, (node, lanes) in enumerate(zip(contents.nodes, contents.lanes, strict=True)):
        cost = node.cost
        work = 100 * cost.work / most if cost is not None else 0.0
        rows.append(
            NodeRow(
                number,
                node,
                macs_text(node.placement).replace("at least", "\N{GREATER-THAN OR EQUAL TO}"),
                _lines(lanes, pitch),
                _x(lanes.lane, pitch),
                round(3 + 3.5 * (node.cycles / most) ** 0.5, 1),
                round((count + 1) * pitch, 1),
                round(work, 2),
                round(100 * node.cycles / most - work, 2),
            )
        )
    return rows


def _x(lane: int, pitch: float) -> float:
    return round((lane + 0.8) * pitch, 1)


def _lines(row: LaneRow, pitch: float) -> list[LanePath]:
    """What the lanes of a row look like: straight on, bent to the node, and on from it."""
    middle, at = ROW / 2, _x(row.lane, pitch)
    lines = [LanePath(f"M{_x(lane, pitch)} 0V{ROW}", lane % COLOURS) for lane in row.passes]
    for lane in row.reads:
        x = _x(lane, pitch)
        bent = f"M{x} 0C{x} {middle} {at} 0 {at} {middle}"
        lines.append(LanePath(bent if x != at else f"M{at} 0V{middle}", lane % COLOURS))
    if row.is_read:
        lines.append(LanePath(f"M{at} {middle}V{ROW}", row.lane % COLOURS))
    return lines
