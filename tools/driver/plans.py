"""The clock chooses between plans of a cluster's program, where no estimate knows the fastest.

How many cores a small layer is worth depends on what waits for what, and what it saves to split
layers into instances, too. So all passes from partitioning on run once for each plan (and the last
ones for each way to lower it, `trials`); what takes the fewest cycles is kept. Plans are tried in
the order of `PLANS`, the usual one first, within the budget of `trials`. Besides, a program of one
core is tried unless the cluster is faster than one core can be: so no partitioned network is slower
on a cluster. (What comes before partitioning knows the number of cores, too: `fold-first-layer` may
fold otherwise than for one core.) And where tensors do not fit the global buffer, instances are
tried. Options that the pipeline itself gives are not tried otherwise.
"""

from collections.abc import Callable, Iterator, Mapping

from vtac.dialects.errors import CompileError
from vtac.dialects.target import ClusterTarget, Machine
from vtac.passes.pipeline import Pipeline
from vtac.tools.driver.packing import Lowered
from vtac.tools.driver.trials import FIRST, LAST, MOST_OPS, Options, changed
from vtac.tools.reports.clock_choice import ClockChoice

ONE_CORE = "on one core"

PLANS: Mapping[str, Options] = {
    ONE_CORE: {
        "graph-bind-cores": {"cores": 1},
        "graph-place-tensors": {"buffer": False},
        FIRST: {"most": 0},
        LAST: {"ahead": 0},
    },
    "on two cores": {"graph-bind-cores": {"cores": 2}},
    "on four cores": {"graph-bind-cores": {"cores": 4}},
    "bound as in the paper": {"graph-bind-cores": {"mode": "paper"}},
}
"""Plans besides the usual one, each with the options that it sets. That for one core gives the
program of a single core: nothing lies in the global buffer, and loads start as early as they can.
"""

INSTANCES = "in instances"

PLANNED = "graph-plan-instances,graph-instantiate,graph-order-instances"
"""The passes that split groups of layers into instances."""

WHOLE = 4
"""How often the passes of a way fit into those of a plan, in time."""


def best_plan(
    usual: Lowered, machine: Machine, attempt: Callable[[Pipeline], Lowered]
) -> tuple[Lowered, ClockChoice | None]:
    """What came of the fastest plan, and what was tried; None if nothing else was.

    usual: what came of the usual plan. attempt: runs another pipeline, on a copy of the network; a
    plan for which it raises `CompileError` is none.
    """
    best, cycles = usual, {"as estimated": usual.trials.cycles}
    for name, plan in _plans(usual, machine):
        try:
            found = attempt(plan)
        except CompileError:
            continue
        if found.trials.cycles < best.trials.cycles:
            best = found
        cycles[name] = found.trials.cycles
    return best, ClockChoice("plan", cycles) if len(cycles) > 1 else None


def _plans(usual: Lowered, machine: Machine) -> Iterator[tuple[str, Pipeline]]:
    """The plans that are tried besides the usual one.

    One core, unless the usual plan takes fewer cycles than any program of one core can; instances,
    if tensors do not fit the global buffer; the others as far as the budget goes.
    """
    if not isinstance(machine, ClusterTarget) or not usual.trials.are_timed:
        return
    left = MOST_OPS // (WHOLE * usual.trials.ops)
    for name, options in PLANS.items():
        cores = int(options["graph-bind-cores"].get("cores", 0))
        plan = changed(usual.pipeline, options)
        is_open = usual.trials.cycles > usual.least if name == ONE_CORE else left > 0
        if plan is not None and is_open and cores < machine.cores:
            left -= 1
            yield name, plan
    plan = with_instances(usual.pipeline) if usual.spilled else None
    if plan is not None:
        yield INSTANCES, plan


def with_instances(pipeline: Pipeline) -> Pipeline | None:
    """A pipeline with the passes that split groups of layers into instances; None if it has them,
    or nothing is bound to cores."""
    names = {spec.name for spec in pipeline.passes}
    if "graph-instantiate" in names or not names >= {"graph-bind-cores", "graph-to-te"}:
        return None
    planned = pipeline.before("graph-bind-cores", PLANNED)
    return planned.before("graph-to-te", "graph-inline-instances")
