"""The machine that an operation is for: the attribute ``vtac.target`` on it or around it."""

from xdsl.ir import Operation

from .attribute import Target
from .cluster import ClusterTarget, Machine, cores_of

TARGET_ATTRIBUTE = "vtac.target"
"""Name of the attribute that carries the target on modules, functions and programs."""


def machine_at(op: Operation | None) -> Machine | None:
    """The machine of an operation, or of the closest one around it that has one; None if none."""
    while op is not None:
        machine = op.attributes.get(TARGET_ATTRIBUTE)
        if isinstance(machine, Target | ClusterTarget):
            return machine
        op = op.parent_op()
    return None


def target_at(op: Operation | None) -> Target | None:
    """The machine that runs a single program there: of a cluster, the machine of each core."""
    machine = machine_at(op)
    return None if machine is None else cores_of(machine)[0]
