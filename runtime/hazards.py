"""What the hazard checker finds in an encoded program, as problems for a user.

The program is placed in memory as for a launch, with its constants, and `vtac.sim.check` follows
its tokens (of a cluster `vtac.sim.cluster.check_cluster`, its semaphores too).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.context import not_loaded
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import windows
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.dialects.vta.program import BinaryProgram
from vtac.sim import check
from vtac.sim.cluster import check_cluster

Array = np.ndarray[Any, np.dtype[Any]]


def hazards_of(
    program: BinaryProgram | BinaryCluster, resources: Mapping[str, Array]
) -> list[Problem]:
    """What may go wrong with a program, instruction by instruction."""
    addresses = program.place()
    image = image_of(program, addresses, resources)
    if isinstance(program, BinaryCluster):
        report = check_cluster(program.target, program.relocate(addresses), image)
    else:
        report = check(program.target, program.relocate(addresses), image)
    where = f"program @{program.name}"
    return [Problem(where, str(hazard)) for hazard in report.hazards]


def image_of(
    program: BinaryProgram | BinaryCluster,
    addresses: Mapping[str, int],
    resources: Mapping[str, Array],
) -> NDArray[np.uint8]:
    """Memory before a launch with only constants in it, uint8; of a cluster with its windows.

    Raises `CompileError` where a constant is not among the resources.
    """
    end = max((addresses[b.name] + b.size for b in program.buffers), default=0)
    if isinstance(program, BinaryCluster) and program.target.has_windows:
        end = max(end, windows.semaphores_end(program.target.cores))
    image = np.zeros(end, np.uint8)
    for buffer in program.buffers:
        data = buffer.data
        if buffer.resource is not None:
            if (array := resources.get(buffer.resource[0])) is None:
                raise CompileError(not_loaded(buffer.resource[0]))
            data = np.ascontiguousarray(array).tobytes()
        if data is not None:
            start = addresses[buffer.name]
            image[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return image
