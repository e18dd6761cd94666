"""Addends whose scale no shift leads to that of the sum: they become linear forms.

Where the network brings its scales along, those of a residual addition stand in any ratio. An
addend that a shift cannot bring to the accumulators' step is multiplied on the diagonal, by
integers of as many bits as it takes (``planes``); the mean of a pooling has its divisor and the
change of scale as its weights.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from xdsl.ir import SSAValue

from vtac.passes.graph.quantize.forms import diagonal
from vtac.passes.graph.quantize.groups import Sum
from vtac.passes.graph.quantize.rules.pooling import Pooling
from vtac.passes.graph.quantize.scales import Scale


def shiftable(group: Sum, scales: Mapping[SSAValue, Scale]) -> Sum:
    """The sum with forms for all addends and poolings that no shift brings to its scale."""
    scale = scales[group.root.results[0]]
    untied = [skip for skip in group.skips if not scale.is_tied(scales[skip])]
    pooling = group.pooling
    if pooling is not None and scale.is_tied(scales[pooling.x].divided(pooling.divisor)):
        pooling = None
    return with_forms(group, untied, pooling)


def with_forms(group: Sum, skips: list[SSAValue], pooling: Pooling | None) -> Sum:
    """The sum with forms instead of some of its addends, and of its pooling if one is named."""
    if not skips and pooling is None:
        return group
    result = group.root.results[0]
    forms = [*group.forms, *(diagonal(group.root, skip, result, np.ones(1)) for skip in skips)]
    if pooling is not None:
        forms.append(pooling.form(result))
    kept = [skip for skip in group.skips if skip not in skips]
    core = group.core if pooling is None else None
    return replace(group, forms=forms, skips=kept, core=core)
