"""Shows the plan of a function for a cluster: as a table, and as a picture over time.

The times are the analytic ones of `PlanSteps`: each layer begins when the one before has ended. In
the picture, the rows above are the cores, with a bar for each layer on those that compute it; below
lies the global buffer, with a box for each tensor, from bottom to top by offset. What the DMA
brings is decided later, in ``vta-stage-weights``: `copies_table` shows it of an encoded program.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import shape_of
from vtac.dialects.locations import layer_of
from vtac.dialects.vta.cluster_program import BinaryCluster, PlacedCopy
from vtac.passes.graph.cluster.layers import planned_functions
from vtac.passes.graph.cluster.plan_steps import PlannedLayer, PlanSteps
from vtac.runtime.engines.vta import layers_of
from vtac.runtime.executor import Module
from vtac.runtime.vta_program import from_function
from vtac.tools.driver.levels import PARTITIONED


def plans_of(module: ModuleOp) -> list[PlanSteps]:
    """The plan of each function of a module that is for a cluster."""
    return [PlanSteps(function, cluster) for function, cluster in planned_functions(module)]


@dataclass(frozen=True)
class ShownPlan:
    """The plan of a function as it is shown.

    table: its layers, for a terminal. totals: lines to go below. picture: an SVG.
    """

    table: Table
    totals: Sequence[str]
    picture: str


class PlanRecorder:
    """Keeps the plans of a compilation, of which it is the observer (`CompileOptions.observe`).

    The plans are those at the level `PARTITIONED`. If a network has to be partitioned again, its
    new plans replace the ones before.
    """

    def __init__(self) -> None:
        self.plans: tuple[ShownPlan, ...] = ()

    def __call__(self, level: str, module: ModuleOp, ctx: VtacContext) -> None:
        """Called at each level."""
        if level == PARTITIONED:
            self.plans = tuple(map(shown, plans_of(module)))


@dataclass(frozen=True)
class LayerRow:
    """A layer as it is shown. weights, ddr: bytes. begin, end: cycles."""

    step: PlannedLayer
    group: str
    layer: str
    result: str
    parts: str
    place: str
    weights: int
    ddr: int
    begin: int
    end: int


def rows_of(plan: PlanSteps) -> list[LayerRow]:
    """The layers of a plan in their order."""
    rows, now = list[LayerRow](), 0
    for step in plan.steps:
        time = plan.time(step)
        rows.append(
            LayerRow(
                step,
                _group(step),
                layer_of(step.layer) or step.layer.results[0].name_hint or step.layer.name,
                "x".join(map(str, shape_of(step.layer.results[0]) or ())),
                _parts(step),
                " ".join(_place(plan, step)),
                plan.costs.weights(step.layer),
                plan.ddr_bytes(step),
                now,
                now + time.cycles,
            )
        )
        now += time.cycles
    return rows


def _group(step: PlannedLayer) -> str:
    instance = step.instance
    if instance is None:
        return ""
    return f"{instance.group.data} {instance.part.value.data + 1}/{instance.parts.value.data}"


def _parts(step: PlannedLayer) -> str:
    cut = [f"{name}{factor}" for name, factor in step.binding.factors.items() if factor > 1]
    return " ".join(cut) or "whole"


def _place(plan: PlanSteps, step: PlannedLayer) -> Iterator[str]:
    for value in step.layer.results:
        offset = plan.offset(value)
        inside = None if offset is None else offset + plan.buffers.offset(value)
        yield "DDR" if inside is None else f"GB {inside:,}"


HEADINGS = ("step", "group", "layer", "result", "parts", "place", "weights", "DDR bytes", "cycles")


def _cells(row: LayerRow) -> tuple[str, ...]:
    return (
        str(row.step.number),
        row.group,
        row.layer,
        row.result,
        row.parts,
        row.place,
        f"{row.weights:,}",
        f"{row.ddr:,}",
        f"{row.end - row.begin:,}",
    )


def table(plan: PlanSteps) -> str:
    """The layers of a plan as a table in Markdown, with the totals and the bounds below."""
    rows = rows_of(plan)
    head = [_line(HEADINGS), _line(["---"] * len(HEADINGS))]
    return "\n".join([*head, *(_line(_cells(row)) for row in rows), "", *_totals(plan, rows)])


def shown(plan: PlanSteps) -> ShownPlan:
    """A plan for a terminal, and as a picture."""
    rows = rows_of(plan)
    name = plan.function.sym_name.data
    found = Table(title=f"the plan of @{name}", title_justify="left")
    for heading in HEADINGS:
        is_number = heading in ("step", "weights", "DDR bytes", "cycles")
        found.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        found.add_row(*_cells(row))
    return ShownPlan(found, _totals(plan, rows), picture(plan))


def clusters_of(module: Module) -> list[BinaryCluster]:
    """The programs of a compiled module that are for a cluster."""
    package, found = module.package, []
    for name, function in package.functions.items():
        if function.codegen == "vta" and package.target is not None:
            program = from_function(function, package.target, package.blobs, name)
            if isinstance(program, BinaryCluster):
                found.append(program)
    return found


def copies_table(program: BinaryCluster) -> Table | None:
    """What the copy engine of an encoded program brings, in order; None if it brings nothing.

    Steps are those of the program, which count the copies, too.
    """
    copies = [command for command in program.commands if isinstance(command, PlacedCopy)]
    if not copies:
        return None
    found = Table(title="brought by the copy engine", title_justify="left")
    for heading in ("layers", "bytes", "place", "from step", "to step"):
        is_text = heading in ("layers", "place")
        found.add_column(heading, justify="left" if is_text else "right", overflow="fold")
    readers = _readers(program)
    for copy in copies:
        name, first = copy.destination
        buffer = program.buffer[name]
        place = "DDR" if buffer.place is None else f"GB {buffer.place[1] + first:,}"
        live = ("", "") if buffer.live is None else map(str, buffer.live)
        found.add_row(", ".join(readers.get(name, ())), f"{copy.nbytes:,}", place, *live)
    return found


def _readers(program: BinaryCluster) -> Mapping[str, Sequence[str]]:
    """For each buffer, the layers whose instructions name it."""
    found: dict[str, dict[str, None]] = {}
    for core in program.cores:
        labels = layers_of(core)
        for index, name in core.relocations:
            if labels is not None:
                found.setdefault(name, {})[labels[index]] = None
    return {name: tuple(layers) for name, layers in found.items()}


def _totals(plan: PlanSteps, rows: Sequence[LayerRow]) -> list[str]:
    """The sums of a plan, and the bounds below which none gets."""
    compute, traffic = plan.bounds()
    total = rows[-1].end if rows else 0
    inner = [b for b in plan.buffers.by_root.values() if not b.outside]
    outside = [b for b in inner if plan.offset(b.tensor) is None]
    return [
        f"{len(rows)} steps, {total:,} cycles by the analytic model,"
        f" {sum(row.ddr for row in rows):,} bytes of DDR;"
        f" {len(inner) - len(outside)} of {len(inner)} tensors in the global buffer.",
        f"Bounds: {compute:,} cycles of compute on {plan.cluster.cores} cores,"
        f" {traffic:,} cycles of compulsory traffic.",
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


WIDTH, LEFT, BAR, GAP, BUFFER = 900, 60, 16, 20, 220
"""Pixels: the picture, its left margin, a unit's row, a space, and the height of the buffer."""

_STYLE = """<style>
text { font: 11px sans-serif; fill: #222 }
.unit { fill: #f0f0f0 }
.box { stroke: #fff; stroke-width: 0.5 }
</style>"""


def picture(plan: PlanSteps) -> str:
    """Cores over time, and the global buffer over time, as an SVG."""
    rows = rows_of(plan)
    total = max(rows[-1].end if rows else 1, 1)
    scale = (WIDTH - LEFT) / total
    top = plan.cluster.cores * (BAR + 2) + GAP
    height = top + BUFFER + GAP
    begins = [row.begin for row in rows] + [total]
    shapes = [*_cores(plan, rows, scale), *_tensors(plan, begins, scale, top)]
    shapes.append(_text(LEFT, height - 4, f"{total:,} cycles"))
    size = f'viewBox="0 0 {WIDTH} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{_STYLE}'
    return "\n".join([head, *shapes, "</svg>\n"])


def _cores(plan: PlanSteps, rows: Sequence[LayerRow], scale: float) -> Iterator[str]:
    for core in range(plan.cluster.cores):
        y = core * (BAR + 2)
        yield _text(2, y + 12, f"core {core}")
        yield _box(LEFT, y, WIDTH - LEFT, BAR, 'class="unit"')
    for row in rows:
        color = _color(row.group or row.layer)
        for core in row.step.binding.cores:
            x, width = LEFT + row.begin * scale, (row.end - row.begin) * scale
            title = f"{row.layer}, {row.group or 'whole network'}, {row.parts}"
            yield _box(x, core * (BAR + 2), width, BAR, f'fill="{color}" class="box"', title)


def _tensors(plan: PlanSteps, begins: Sequence[int], scale: float, top: int) -> Iterator[str]:
    room = max(plan.cluster.gb_bytes, 1)
    yield _text(2, top + 12, "buffer")
    yield _box(LEFT, top, WIDTH - LEFT, BUFFER, 'class="unit"')
    for number, (root, buffer) in enumerate(plan.buffers.by_root.items()):
        offset = plan.offset(root)
        if offset is None:
            continue
        begin = begins[max(buffer.first, 0)] * scale
        until = begins[min(buffer.last + 1, len(begins) - 1)] * scale
        y = top + BUFFER * (1 - (offset + buffer.size) / room)
        style = f'fill="{_color(str(number))}" class="box"'
        title = f"{buffer.size:,} bytes at {offset:,}"
        yield _box(LEFT + begin, y, until - begin, BUFFER * buffer.size / room, style, title)


def _color(text: str) -> str:
    return f"hsl({sum(map(ord, text)) * 47 % 360} 55% 60%)"


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, style: str, title: str = "") -> str:
    inside = f"<title>{escape(title)}</title>" if title else ""
    shape = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}"'
    return f"<rect {shape} {style}>{inside}</rect>"
