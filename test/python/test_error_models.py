"""Errors that grow through very many layers stay numbers."""

import numpy as np
import pytest

from vtac.passes.approximation.error_models import LARGEST, ErrorModel, Expected, WorstCase


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("model", [WorstCase(), Expected()])
@pytest.mark.parametrize(("groups", "channels"), [(1, 4), (3, 6)])
def test_errors_do_not_overflow(model: ErrorModel, groups: int, channels: int) -> None:
    weights = np.random.default_rng(0).normal(0, 10, (channels, channels // groups, 3, 3))
    folded = model.folded(weights, groups)
    errors = [np.full(channels, 0.5)]
    for _ in range(1000):
        errors.append(model.through(folded, errors[-1]))
    assert (errors[1] > errors[0]).all()
    assert (model.total(errors[-2:]) >= LARGEST).all()
    assert np.isfinite(errors[-1]).all()
