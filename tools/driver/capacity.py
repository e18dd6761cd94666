"""Layers for which the machine has no room stay on the host.

Whether a layer fits is known only when it is scheduled and its buffers are placed: that depends on
the shapes of its tiles and on what is fused with it. So the compiler lowers what it has
partitioned. If passes report layers that do not fit (`DoesNotFit`), it marks these layers in the
network as it was before patterns were matched, and partitions that again. Each round marks at least
one more layer, which bounds the number of rounds.
"""

from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.errors import CompileError, DoesNotFit
from vtac.dialects.graph import ConstantOp
from vtac.dialects.locations import layer_of
from vtac.passes.graph.reasons import Reason, ReasonKind, is_settled, keep_on_host
from vtac.tools.driver.planner import main_function


def keep_what_does_not_fit(module: ModuleOp, error: CompileError) -> bool:
    """Mark the layers of an error as kept on the host, with the reason.

    module: the network before its patterns were matched. Returns whether another partition can
    succeed: False if the error has other problems too, or if nothing more could be marked for one
    of its problems.
    """
    reasons: dict[str, Reason] = {}
    for problem in error.problems:
        if not isinstance(problem, DoesNotFit):
            return False
        for layer in problem.layers:
            reasons.setdefault(layer, Reason(problem.what, ReasonKind.CAPACITY, problem.hint))
    marked = set[str]()
    for op in main_function(module).body.block.ops:
        layer = layer_of(op)
        if layer in reasons and not isinstance(op, ConstantOp) and not is_settled(op):
            keep_on_host(op, reasons[layer])
            marked.add(layer)
    return all(
        not marked.isdisjoint(problem.layers)
        for problem in error.problems
        if isinstance(problem, DoesNotFit)
    )
