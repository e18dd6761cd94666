"""What samples are labelled with: classes, or numbers that a model is to predict."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.reports.agreement import Array

_SUM_OF_SHARES = 1e-3
"""How far the shares of classes in a row may be from a sum of one."""


@dataclass(frozen=True)
class Truths:
    """The labels of samples.

    classes: the class of each [S], where labels can be numbers or shares of classes. targets: the
    numbers given for each [S, ...], where labels are numbers.
    """

    classes: Array | None = None
    targets: Array | None = None

    @classmethod
    def of(cls, labels: Any, samples: int, where: str) -> "Truths":
        """What labels mean. Raises `CompileError` if there are not as many as samples."""
        if labels is None:
            return cls()
        given = np.atleast_1d(labels)
        if len(given) != samples:
            raise CompileError(
                Problem(where, f"there are {len(given)} labels for {samples} samples")
            )
        is_number = given.dtype.kind in "biuf"
        if is_number and (odd := int((~np.isfinite(given)).sum())):
            raise CompileError(Problem(where, f"{odd} of the labels are not finite numbers"))
        classes = _classes(given)
        targets = given.astype(np.float64) if is_number else None
        return cls(classes, targets)

    def __bool__(self) -> bool:
        """Whether there is something to judge by."""
        return self.classes is not None or self.targets is not None

    def rows(self, start: int, stop: int) -> "Truths":
        """The labels of some of the samples."""
        parts = (self.classes, self.targets)
        return Truths(*(None if part is None else part[start:stop] for part in parts))


def _classes(given: Array) -> Array | None:
    """The class of each sample; None if labels are no numbers of classes and no shares of them."""
    if given.ndim > 1 and given.size == len(given):
        given = given.reshape(-1)
    if given.ndim == 2 and given.dtype.kind in "biuf" and (given >= 0).all():
        sums = given.sum(axis=1, dtype=np.float64)
        if not np.allclose(sums, 1, atol=_SUM_OF_SHARES):
            return None
        given = given.argmax(axis=1)
    is_whole = given.dtype.kind in "biu" or (
        given.dtype.kind == "f" and bool((given == np.rint(given)).all())
    )
    if given.ndim != 1 or not is_whole or given.min(initial=0) < 0:
        return None
    return given.astype(np.int64)
