"""What the hazard checker finds in an encoded program, as problems for a user.

The program is placed in memory as for a launch, with its constants, and `vtac.sim.check` follows
its tokens.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vtac.dialects.errors import Problem
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.dialects.vta.program import BinaryProgram
from vtac.sim import check

Array = np.ndarray[Any, np.dtype[Any]]


def hazards_of(
    program: BinaryProgram | BinaryCluster, resources: Mapping[str, Array]
) -> list[Problem]:
    """What may go wrong with a program, instruction by instruction."""
    if isinstance(program, BinaryCluster):
        return []
    addresses = program.place()
    end = max((addresses[b.name] + b.size for b in program.buffers), default=0)
    image = np.zeros(end, np.uint8)
    for buffer in program.buffers:
        data = buffer.data
        if buffer.resource is not None:
            data = resources[buffer.resource[0]].tobytes()
        if data is not None:
            start = addresses[buffer.name]
            image[start : start + buffer.size] = np.frombuffer(data, np.uint8)
    report = check(program.target, program.relocate(addresses), image)
    where = f"program @{program.name}"
    return [Problem(where, str(hazard)) for hazard in report.hazards]
