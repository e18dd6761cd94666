"""``--keep-float``: nodes that the user wants to stay on the host in floating point.

The user names nodes of the model. By the time that the network is in its normal form, some nodes
have become part of others (a batch norm of its convolution); then the other node is kept. The
reason that is written on a kept op is a settled one: the quantiser leaves the op as it is, and no
codegen takes it.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import ConstantOp
from vtac.dialects.locations import layer_of
from vtac.passes.graph.reasons import Reason, ReasonKind, keep_on_host
from vtac.tools.commands.diagnostics import close_matches
from vtac.tools.driver.placements import Nodes, nearest
from vtac.tools.driver.planner import main_function

KEPT = Reason("kept by the user", ReasonKind.USER, "Leave --keep-float away.")


def keep_float(module: ModuleOp, nodes: Nodes, names: Sequence[str]) -> list[str]:
    """Mark ops of a float network as kept on the host; return notes for the user.

    nodes: the nodes of the imported model. Raises `CompileError` with every name that is not one of
    them.
    """
    _verify(names, nodes)
    layers: dict[str, list[Operation]] = {}
    for op in main_function(module).body.block.ops:
        if not isinstance(op, ConstantOp):
            layers.setdefault(layer_of(op), []).append(op)
    where = nearest(nodes, set(layers) - {""})
    notes = []
    for name in names:
        if name not in where:
            notes.append(f"node '{name}' is computed at compile time: there is nothing to keep")
        elif where[name] != name:
            notes.append(f"node '{name}' is part of '{where[name]}', which is kept with it")
        for op in layers.get(where.get(name, ""), ()):
            keep_on_host(op, KEPT)
    return notes


def _verify(names: Sequence[str], nodes: Nodes) -> None:
    problems = [
        Problem(
            f"--keep-float {name}",
            f"the model has no node of that name{close_matches(name, list(nodes.kinds))}",
            "vta-compile --explain lists the names of all nodes.",
        )
        for name in names
        if name not in nodes.kinds
    ]
    if problems:
        raise CompileError(problems)
