"""docs/architecture.md is up to date: its functions exist, its rooms follow the contracts."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

from vtac.lowering.codegens.vta import VtaCodegen
from vtac.tools.driver.levels import calibration, pipeline_of

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
NAMES = re.findall(r"`(vtac\.[\w.]+)`", PAGE.read_text())


def found(name: str) -> object:
    """The object of a dotted name. Raises `AttributeError` or `ImportError`."""
    module, parts = name, []
    while True:
        try:
            value: object = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            parts.insert(0, last)
    for part in parts:
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", [name for name in NAMES if name.count(".") > 1])
def test_every_name_exists(name: str) -> None:
    assert found(name) is not None


def test_names_that_do_not_exist_are_found_out() -> None:
    with pytest.raises(AttributeError):
        found("vtac.tools.driver.compiler.compile_everything")


def test_passes_stand_in_the_order_of_the_pipeline() -> None:
    specs = pipeline_of([VtaCodegen()], calibrate=calibration()).passes
    order = [spec.name for spec in specs]
    named = [getattr(found(name), "name", None) for name in NAMES if name.count(".") > 1]
    places = [order.index(name) for name in named if isinstance(name, str) and name in order]
    assert len(places) > 15
    assert places == sorted(places)


def test_levels_of_the_page_are_those_of_the_pipeline() -> None:
    pipeline = pipeline_of([VtaCodegen()], calibrate=calibration())
    levels = [segment.level for segment in pipeline.segments if segment.level]
    assert re.findall(r"\| level `(\w+)`", PAGE.read_text()) == levels


def test_rooms_follow_the_contracts() -> None:
    project = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text())
    contracts = {
        contract["source_modules"][0]: set(contract["forbidden_modules"])
        for contract in project["tool"]["importlinter"]["contracts"]
    }
    rows = re.findall(r"^\| `([\w.]+)` \| .* \| ([^|]*) \|$", PAGE.read_text(), re.MULTILINE)
    stated = {
        f"vtac.{room}": {f"vtac.{name}" for name in re.findall(r"`([\w.]+)`", forbidden)}
        for room, forbidden in rows
        if forbidden.strip()
    }
    assert stated == contracts
