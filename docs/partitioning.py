"""Writes partitioning.md: how a network is divided among codegens, with an example of a report.

``make docs``; a test holds the page against what this would write, and runs the codegen that the
page shows (own_codegen.py).
"""

import dataclasses
import inspect
import io
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console

import vtac
from vtac.passes.graph.codegen import Codegen
from vtac.passes.graph.host_model import HostModel
from vtac.passes.graph.reasons import ReasonKind
from vtac.tools.commands.explanation import hosted_table
from vtac.tools.reports.partition_report import regions_table, share_lines

HERE = Path(__file__).parent
PAGE, EXAMPLE = HERE / "partitioning.md", HERE / "own_codegen.py"

TEXT = """\
# Partitioning

*Written by `make docs`.*

A network is divided among *codegens*, after BYOC (Chen et al., "Bring Your Own Codegen to Deep
Learning Compiler", section 3). A codegen compiles parts of a network: `vta` for the accelerator,
and any that other packages offer by the entry points `vtac.codegens` and `vtac.engines`. The
package `examples/codegens` has two that a user may install: `json` (nodes as JSON beside their
weights, run by a reference runtime in NumPy) and `c` (a C file that calls kernels, compiled by the
system's compiler when the package is opened). What no codegen takes stays on the host, in
onnxruntime, and says why.

```python
module = vtac.compile("model.onnx", "pynq", samples, codegens=["vta", "c"])
```

or `vta-compile model.onnx --calibrate samples.npz --codegen vta,c`: integers on the accelerator,
float parts in C, the rest on the host. The order is the priority: whoever is named first is asked
first. A package with code of codegen `c` opens only for those who trust it
(`vtac.load(path, allow_native=True)`, `vta-run --allow-native`): nothing can check such code.

## The steps

Each is a pass; `vta-opt -p` runs them one by one. For each codegen, by falling priority:

1. its **preparation** of the network. That of `vta` is `split-channels` (large channels
   behind a curve become tensors of their own), `quantize` (floats that were calibrated become
   integers), `sort-channels` (channels whose shifts agree become neighbours), `raise-moves` (sums
   that turn out to move int8 unchanged become concatenations and slices), `byte-planes` and
   `fold-first-layer`. What a codegen before has taken is left alone.
2. `match-patterns{{codegen=NAME}}`: groups of ops that match one of its **patterns**, and single
   ops that one of its **predicates** accepts, become `graph.composite` ops. A predicate that
   refuses gives the reason. No value that others use is hidden in a composite, so none is computed
   twice.

Then once for all:

3. `annotate`: composites get their codegen, unless it refuses them. Every op that stays gets its
   reason.
4. `merge-regions`: neighbours of one codegen become one region, as long as no path leads from one
   to the other through a third place, since the two would wait for each other. Ops are visited in
   order and sets of ops are bits of integers: two thousand ops take a quarter of a second. Regions
   are convex, and none can be merged with a neighbour any more. Then regions that need nothing of
   each other share a launch, if as many launches lie before them. `--max-ops N` ends a region
   earlier.
5. `prune-regions`: regions that are not worth a launch go back to the host (below).
6. `outline-regions`: each region becomes a function with the attribute `codegen`, called where it
   stood.
7. `codegen-passes`: **passes** that a codegen registered run on its functions alone. Then its
   **layout** passes, which may change what calls pass on (`layout` of `vta` packs activations).

The network is then cut into steps, host parts around launches, and each codegen's **lowering**
turns its functions into what its **build** takes.

Whether a layer fits the machine is known only when it is scheduled and its buffers are placed.
Where a lowering finds layers for which there is no room (`DoesNotFit`), the compiler marks them in
the network as it was before step 2, with the reason "no room on the machine", and partitions again:
these layers run on the host, in the same integers, and the rest of their regions stays on the
accelerator.

The properties are tested on random networks with random codegens by random priorities
(`test/python/test_partition.py`): no cycle between regions, every op in exactly one place, regions
convex and maximal, results equal to those of before.

## What is worth a launch

The default offloads whatever is supported, and gives a region back only if it would be slower there
than on the host. Both are estimates in cycles of the accelerator's clock:

- **here**: the codegen's estimate of the region's own cycles, plus `cycles_a_launch`, plus the
  bytes that enter and leave the region over `bytes_a_cycle`. `vta` takes GEMM micro-ops, ALU
  elements and beats of the memory port from the shapes (`lowering/codegens/vta_cycles.py`). For
  whole networks on `pynq` this is close to what the simulator counts: 109,840 and 108,563 cycles
  for resnet8, 497,395 and 484,552 for mobilenet, 20,353 and 22,143 for mnist8. A codegen without an
  estimate, as `json` and `c`, never loses a region to the host model.
- **on the host**: for each op `cycles_an_op`, plus its multiply-accumulates over `macs_a_cycle`, or
  if it has none the bytes that it reads and writes over `bytes_a_cycle`.

{host_model}

A Cortex-A9 beside an accelerator of 100 MHz, the board of the VTA paper (Moreau et al., section 5),
has about 4 multiply-accumulates in such a cycle: convolutions ran 40 times as fast on its VTA,
which does at most 256 a cycle, and some two thirds of that in practice. The others are round
numbers for the same board: 400 MB/s for packing and copying, 20 microseconds to dispatch an op and
10 for a launch. They are a codegen's to choose (`host_model`) and the user's to replace:
`--host-model macs_a_cycle=40,bytes_a_cycle=16`, or `--host-model none` to offload whatever can be.

Other criteria are the user's alone:

| `vtac.Criteria` | `vta-compile` | |
| --- | --- | --- |
| `max_ops` | `--max-ops N` | ops that a region may hold |
| `min_macs` | `--min-macs N` | multiply-accumulates that a region must have |
| `max_border_bytes` | `--max-border-bytes N` | bytes that may enter and leave a region |
| `compare=False` | `--host-model none` | no comparison with the host |
| `host` | `--host-model NAME=NUMBER,...` | the numbers above |

A product of two variable tensors (squeeze and excite, `x[n, c, h, w] * s[n, c, 1, 1]`) stays on the
host where the ALU does not multiply. The GEMM core could form it, with s as a diagonal matrix of
weights that is loaded at run time; but nothing on the machine can write s so that each number has a
tile row of its own with zeros around it, and the host would have to, between two launches. Products
that are a function of one value, such as `x * Sigmoid(x)`, run there as clamped lines
([quantisation.md](quantisation.md)).

Nodes that the user keeps on the host (`keep_float=[...]`, `--keep-float NODE`) are settled before
anybody is asked: no preparation rounds them, and no codegen's pattern matches them.

A region that is slower than the host is cut if a part of it is not: a costly composite goes back
alone, and does not drag its neighbours along. (A region that is worth its launch stays whole: the
estimates of single layers are too rough to divide it. Cutting all regions split the network `kws`
into two launches for an averaging that the accelerator computes sooner than was estimated.) A value
that one side makes and the other reads crosses the border, once however many read it. The cheapest
division is a minimum cut between accelerator and host (`passes/graph/cut_regions.py`, by networkx;
after Stone, "Multiprocessor scheduling with the aid of network flow algorithms"). The cut counts
one launch; if what remains falls into parts, each with a launch, these are priced again, and the
cut is taken only if it is still cheaper than the host. The parts are convex, as all regions.

Regions are pruned once all codegens have chosen. So what goes back runs as the preparation of its
codegen left it, for `vta` in integers (`--keep-float` leaves a layer as it was), and nobody else is
offered it.

## What `--explain` shows

{explain_intro}

```text
{explain}
```

The share counts the multiply-accumulates of convolutions, recurrent layers and matrix products as
the model has them, wherever these run (`dialects/graph/mac_counts.py`). Where shapes do not say how
many there are (a dimension that is not known, a loop, an operator of another domain), the share
says "at least" and the nodes are named. The numbers of all nodes are in `module.explain`.

Reasons are of these kinds: {kinds}. The same is in `module.report.partition`.

## A codegen of one's own

A codegen is one class. Only `build` must be there, and `patterns` or `predicates` if it is to get
anything:

{hooks}

What `build` returns is a `Payload`: metadata that JSON holds, files, and constants, which a package
stores once. An **engine** runs it: a `FunctionEngine` has one method, `load`, which checks a
payload and returns the function that it is. It is the codegen's `engine`, or for those that come
with vtac the module of the same name in `runtime/engines`; installed packages name theirs in the
entry points `vtac.engines`. Who loads a package gives the engines
that are not ours: `vtac.load(path, engines={{"trig": TrigonometryEngine()}})`. Reading a package
runs no code of it, so `load` must not trust what it gets.

A complete one ([own_codegen.py](own_codegen.py)):

```python
{example}```

It is used by `vtac.compile(model, "pynq", samples, codegens=["vta", TrigonometryCodegen()])`.
"""

EXPLAIN_INTRO = """\
The nodes, most costly first (`--explain-order network`: in the model's order): on the accelerator
the cycles that its schedules expect, on the host those of the host model. Then the regions with
both numbers, the share of the network that they are, and each node on the host with its reason and
the way out. What conversion left of a node as several operations is one row, and operations that
only move the data of a node on the accelerator have none. Here a network with a `Sin` in its
middle, whose last pooling the user keeps on the host, on a board where launches are dear:
`vta-compile model.onnx --calibrate x.npz --explain --keep-float pool --host-model
cycles_a_launch=13000`. The first convolution is worth one, the second, over a quarter of the
pixels, is not."""


def network() -> onnx.ModelProto:
    """The network of the example."""
    numbers = np.random.default_rng(1)
    w = numpy_helper.from_array(numbers.uniform(-1, 1, (16, 16, 3, 3)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Sin", ["b"], ["c"], "sin"),
        helper.make_node("MaxPool", ["c"], ["d"], "first", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["d", "w"], ["e"], "last", pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["e"], ["y"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 16, 8, 8]), ("y", [1, 16, 2, 2]))
    ]
    graph = helper.make_graph(nodes, "example", ends[:1], ends[1:], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def explained() -> str:
    """What ``--explain`` says of its regions and of its ops on the host."""
    samples = np.random.default_rng(2).uniform(-1, 1, (4, 16, 8, 8)).astype(np.float32)
    criteria = vtac.Criteria(host={"cycles_a_launch": 13000.0})
    module = vtac.compile(network(), "pynq", {"x": samples}, criteria=criteria, keep_float=["pool"])
    report = module.report
    stream = io.StringIO()
    console = Console(file=stream, width=100)
    console.print(regions_table(report.partition))
    console.print(hosted_table(report))
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    return "\n".join([*lines, *share_lines(report.partition)])


def hooks() -> str:
    """The hooks of a codegen with the first sentence of what they say, as a list."""
    own = [
        (name, member)
        for name, member in vars(Codegen).items()
        if inspect.isfunction(member) and name not in ("table", "free_patterns")
    ]
    lines = []
    for name, member in own:
        sentence = " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split())
        lines.append(f"- `{name}`: {sentence[0].lower()}{sentence[1:]}")
    return "\n".join(lines)


def host_model() -> str:
    """The defaults, as a table."""
    rows = [f"| `{f.name}` | {f.default:g} |" for f in dataclasses.fields(HostModel)]
    return "\n".join(["| | default |", "| --- | --- |", *rows])


def page() -> str:
    """The text of partitioning.md."""
    return TEXT.format(
        host_model=host_model(),
        explain_intro=EXPLAIN_INTRO,
        explain=explained(),
        kinds=", ".join(f'"{kind.value}"' for kind in ReasonKind),
        hooks=hooks(),
        example=EXAMPLE.read_text(),
    )


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
