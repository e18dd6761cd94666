"""Writes cluster_plan.md: one residual block through all passes of a cluster's plan.

``make docs``; a test holds the page, and its picture, against what this would write.
"""

import re
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import PassPipeline

from vtac.dialects.context import VtacContext
from vtac.dialects.vta import ClusterOp
from vtac.lowering.codegens.vta import LOWERING
from vtac.lowering.vta_to_binary import encode_cluster
from vtac.passes.pipeline import Pipeline
from vtac.sim.cluster import ClusterReport, estimate_cluster
from vtac.tools.driver.discovery import OurPasses, load_dialects
from vtac.tools.driver.pipelines import built_passes
from vtac.tools.reports.cluster_plan import picture, plans_of, table

HERE = Path(__file__).parent
PAGE, EXAMPLE = HERE / "cluster_plan.md", HERE / "residual_block.mlir"
PICTURE = HERE / "pictures" / "cluster_plan.svg"

TEXT = """\
# The plan of a cluster

*Written by `make docs`.*

A cluster is several cores around a global buffer that software manages ([cluster.md](cluster.md)).
Which layers run together, on how many images or rows at a time, in which order, on which cores, and
where each tensor lies is decided at the level `graph`, after GraphTurbo (Zhao et al., "Effectively
Scheduling Computational Graphs of Deep Neural Networks toward Their Domain-Specific Accelerators",
OSDI 2023). The paper's local buffer is the global buffer here, and its global buffer is DDR: a core
can only pass data on through memory. So cores exchange tensors without copies, and a binding costs
no redistribution.

Every decision is an attribute or an op that can be read, changed by hand and taken on from. Each
pass can be run alone. This page follows `docs/residual_block.mlir`: the block that halves the
images of a residual network, and a layer behind it, for four images on four cores with a global
buffer of 64 KiB. Types, bodies of layers and attributes that do not matter are left out.

```mlir
{start}
```

## Splits and groups

`piece_of` (`dialects/graph/split_rules.py`) is the one place that knows what an op needs to compute
a rectangle of its results: images are independent, rows of a convolution need a halo, blocks of
channels need all inputs. With it the footprint of a piece is computed, halo included, and the least
number of pieces that fit: `graph.splits`. `graph-group-layers` merges layers as long as no
tensor is cut more finely than it needs to be: straight, diamond and branch patterns with the
paper's rules. While the block that halves the image runs, its large input is alive: groups end
behind it.

`vta-opt docs/residual_block.mlir -p '{group}'`

```mlir
{grouped}
```

## Instances

`graph-plan-instances` chooses the factors. With `mode="paper"` it takes the best split of each
group. By default it groups the layers anew by cost: a dynamic program over the points where one
tensor is alive chooses images per instance, and strips of rows where a single image does not fit.
A segment costs the larger of its compute over all cores and its traffic to DDR.

`graph-instantiate` makes the instances. Windows say what is read, `graph.assemble` where pieces
lie. `graph-order-instances` puts them in order: depth first, the two instances of the block are
followed by the one of the next group that needs them. A tensor that grows is a chain of assemblies,
so each piece has one place.

`-p '{order}'`

```mlir
{ordered}
```

## Cores and places

`graph-bind-cores` cuts each layer into parts, uneven ones too, so that the largest is done first.
`graph-place-tensors` gives each tensor an offset in the global buffer for its life; what does not
fit goes to DDR, the longest life first.

`-p '{bind}'`

```mlir
{bound}
```

`graph-inline-instances` then leaves plain layers, windows and assemblies for `graph-to-te`. Weights
are decided later, when it is known which core loads what, and when: `vta-stage-weights` lets the
copy engine bring them to the room that is left ([cluster_compiler.md](cluster_compiler.md)).

## The plan as a table

Times and bytes are those of the analytic model (`vtac.tools.reports.cluster_plan.table`); weights
that the copy engine may bring count once. The clock knows more.

{table}

Above, cores over time; below, the tensors in the global buffer over time.

![Cores and the global buffer over time](pictures/cluster_plan.svg)

## Down to streams

`vta-opt docs/residual_block.mlir -p '...,graph-inline-instances,'` and the passes behind the level
`graph` (`vta-compile --print-pipeline --from graph`) lead to a stream per unit. By the clock
(`vta-sim`) the program takes {cycles:,} cycles and moves {moved:,} bytes of DDR: units do not wait
for each other where no byte is shared, and equal weights are stored once.

## By cost

The program above splits as the paper would, so that there is something to see. By cost the block
stays whole: four images of it fit the global buffer one layer after another, and their weights are
then read once.

`vta-opt docs/residual_block.mlir -p 'graph-plan-instances'`

```mlir
{by_cost}
```

## What departs from the paper

- **Footprints.** SplitInfo divides the peak of the whole by the factor; here the footprint is that
  of the piece, with halo, the group's inputs and a stage for weights.
- **Groups of ResNet-50.** Eight images of which the first stage fits one become four groups with
  the factors 8, 4, 2, 1. A group takes the halving block behind it, where the paper's stages begin
  with it, because that block's input is as large as the tensors before.
- **Bindings** are chosen by cycles, with uneven parts; the paper's 8, 4, 2, 1 are `mode="paper"`.
- **Scopes.** A producer whose consumers disagree on the binding stays in the buffer: all cores read
  it.
- **Halo** is computed again by each strip (`overlap = recompute`); rows of neighbours are not kept.
"""

_TYPE = r"tensor<[^<>]*(?:<[^<>]*>)?>"
_TYPES = rf"(?:\({_TYPE}(?:, {_TYPE})*\)|{_TYPE})"

GROUP = 'graph-group-layers{mode="paper" rows=false stage=4096}'
ORDER = ",".join(
    (
        GROUP,
        'graph-plan-instances{mode="paper"}',
        "graph-instantiate",
        'graph-order-instances{order="depth"}',
    )
)
BIND = "graph-bind-cores,graph-place-tensors"


def planned(pipeline: str) -> ModuleOp:
    """The example after some passes."""
    ctx = VtacContext()
    load_dialects(ctx)
    module = Parser(ctx, EXAMPLE.read_text()).parse_module()
    if pipeline:
        passes = built_passes(Pipeline.of(pipeline).passes, {}, OurPasses())
        PassPipeline(tuple(passes)).apply(ctx, module)
    return module


def short(module: ModuleOp) -> str:
    """The text of a module without types, bodies of layers and marks of codegens."""
    lines, inside = [], 0
    for line in str(module).splitlines()[1:-1]:
        if inside:
            inside += line.count("{") - line.count("}")
            continue
        if "graph.composite" in line:
            inside = 1
            line = line[: line.index(" : (")]
        line = line.replace('codegen = "vta"', "").replace(", }", "}").replace(" {}", "")
        line = line.replace(" attributes {", " {")
        for pattern in (f" -> {_TYPES}", f" : {_TYPES}"):
            line = re.sub(pattern, "", line)
        lines.append(line.removeprefix("  ").rstrip())
    return "\n".join(lines)


def page() -> str:
    """The page."""
    (plan,) = plans_of(planned(f"{ORDER},{BIND}"))
    return TEXT.format(
        start=short(planned("")),
        group=GROUP,
        grouped=short(planned(GROUP)),
        order=ORDER.removeprefix(f"{GROUP},"),
        ordered=short(planned(ORDER)),
        bind=BIND,
        bound=short(planned(f"{ORDER},{BIND}")),
        table=table(plan),
        by_cost=short(planned("graph-plan-instances")),
        cycles=(report := timed()).cycles,
        moved=report.total_ddr_bytes,
    )


def timed() -> ClusterReport:
    """The launch of the example on the clock, compiled down to streams."""
    lowering = ",".join(spec.name for spec in LOWERING.passes)
    module = planned(f"{ORDER},{BIND},graph-inline-instances,{lowering}")
    (program,) = (op for op in module.ops if isinstance(op, ClusterOp))
    encoded = encode_cluster(program)
    return estimate_cluster(encoded.target, encoded.relocate(encoded.place()))


def drawn() -> str:
    """The picture."""
    (plan,) = plans_of(planned(f"{ORDER},{BIND}"))
    return picture(plan)


if __name__ == "__main__":
    PAGE.write_text(page())
    PICTURE.write_text(drawn())
