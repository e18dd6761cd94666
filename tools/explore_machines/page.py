"""The page of an exploration: one HTML file, whose plot names each machine under the pointer."""

from pathlib import Path
from typing import Any

from vtac.tools.explore_machines.exploration import Exploration, ExploredMachine
from vtac.tools.explore_machines.output import (
    cost_text,
    machine_line,
    shown,
    summary,
    title_of,
)
from vtac.tools.explore_machines.pictures import coloured_by
from vtac.tools.report_page.page import STYLE
from vtac.tools.reports.page_parts import page_templates, plot_library

TEMPLATES = Path(__file__).parent / "templates"


def page_of(found: Exploration) -> str:
    """The page. Raises `CompileError` if a package that it needs is not installed."""
    templates, library = page_templates(TEMPLATES), plot_library()
    names = found.space.names
    rows = [
        [
            str(number),
            f"{row.cycles:,}",
            cost_text(row.candidate.cost),
            *(shown(name, row.values[name]) for name in names),
        ]
        for number, row in enumerate(found.front, start=1)
    ]
    fields = [
        (
            title_of(field.name),
            ", ".join(
                f"{shown(field.name, value)}: {field.front.get(value, 0)}/{tried}"
                for value, tried in field.tried.items()
            ),
            field.trend,
        )
        for field in found.fields
    ]
    return str(
        templates.get_template("machines.html.j2").render(
            found=found,
            base=str(found.space.base),
            summary=summary(found),
            titles=list(map(title_of, names)),
            rows=rows,
            fields=fields,
            spec=plot_of(found),
            style=STYLE.read_text(encoding="utf-8"),
            library=library.replace("</script", "<\\/script"),
        )
    )


def plot_of(found: Exploration) -> dict[str, Any]:
    """The plot as a specification of Vega-Lite."""
    field = coloured_by(found)
    numbers = {id(row): number for number, row in enumerate(found.front, start=1)}
    points = [_point(row, field, numbers.get(id(row), 0)) for row in found.compared]
    x = {
        "field": "cost",
        "type": "quantitative",
        "scale": {"type": "log"},
        "title": found.space.cost.text,
        "axis": {"format": "~s", "labelOverlap": True},
    }
    y = {
        "field": "cycles",
        "type": "quantitative",
        "scale": {"type": "log"},
        "title": "cycles",
        "axis": {"format": "~s", "labelOverlap": True},
    }
    is_front = {"filter": "datum.number > 0"}
    return {
        "width": "container",
        "height": 400,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": points},
        "encoding": {"x": x, "y": y},
        "layer": [
            {
                "transform": [is_front],
                "mark": {"type": "line", "interpolate": "step-after", "color": "#888888"},
                "encoding": {"order": {"field": "cost", "type": "quantitative"}},
            },
            {
                "mark": {"type": "point", "filled": True},
                "encoding": {
                    "color": {
                        "field": "group",
                        "type": "nominal",
                        "title": title_of(field),
                        "sort": [shown(field, value) for value in found.space.fields[field]],
                    },
                    "size": {"condition": {"test": "datum.number > 0", "value": 110}, "value": 35},
                    "opacity": {
                        "condition": {"test": "datum.number > 0", "value": 1},
                        "value": 0.5,
                    },
                    "tooltip": [
                        {"field": "machine", "type": "nominal"},
                        {"field": "cycles", "type": "quantitative", "format": ",d"},
                        {"field": "cost", "type": "quantitative", "format": ",.6~g"},
                    ],
                },
            },
        ],
    }


def _point(row: ExploredMachine, field: str, number: int) -> dict[str, Any]:
    """A dot. number: on the front, 0 for others."""
    return {
        "cost": row.candidate.cost,
        "cycles": row.cycles,
        "group": shown(field, row.values[field]),
        "number": number,
        "machine": machine_line(list(row.values.items())),
    }
