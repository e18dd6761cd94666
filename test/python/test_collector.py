"""The garbage collector is left as it was found, whatever happens in between."""

import gc

import pytest

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import Point
from vtac.tools.driver.collector import collector_paused, collector_seldom
from vtac.tools.tune import measure as measuring
from vtac.tools.tune.measure import measure


@pytest.fixture(params=[(700, 10, 10), (20_000, 20, 20), (500_000, 200, 5)])
def thresholds(request: pytest.FixtureRequest) -> "tuple[int, int, int]":
    """Thresholds that the user may have set; the test's own come back."""
    before = gc.get_threshold()
    gc.set_threshold(*request.param)
    request.addfinalizer(lambda: gc.set_threshold(*before))
    found: tuple[int, int, int] = request.param
    return found


def test_seldom_never_lowers_a_threshold(thresholds: tuple[int, int, int]) -> None:
    with pytest.raises(ZeroDivisionError), collector_seldom():
        within = gc.get_threshold()
        assert all(now >= before for now, before in zip(within, thresholds, strict=True))
        assert within[0] > 50_000 and gc.isenabled()
        with collector_seldom():
            assert gc.get_threshold() == within
        assert gc.get_threshold() == within
        raise ZeroDivisionError
    assert gc.get_threshold() == thresholds


def test_a_measurement_collects_seldom(
    thresholds: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is refused leaves the thresholds as they were."""
    seen: list[int] = []

    class Kernel:
        def cycles(self, point: Point) -> int:
            seen.append(gc.get_threshold()[0])
            if len(seen) > 1:
                raise CompileError(Problem("", "it does not fit"))
            return 7

    monkeypatch.setattr(measuring, "prepared", lambda module, template: Kernel())
    assert measure("", "tiles", {}).cycles == 7
    assert measure("", "tiles", {}).why == "it does not fit"
    assert min(seen) > 50_000 and gc.get_threshold() == thresholds


def test_paused_comes_back_only_if_it_ran() -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
