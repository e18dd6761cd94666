"""Finds what the rooms offer, so that no list of passes or dialects is written by hand."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect
from xdsl.passes import ModulePass

import vtac.dialects
import vtac.lowering.codegens
import vtac.passes
from vtac.passes.graph.codegen import Codegen
from vtac.tools import verify_hazards


@cache
def _modules(package: ModuleType) -> tuple[ModuleType, ...]:
    walk = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return tuple(importlib.import_module(info.name) for info in walk)


def _classes(module: ModuleType) -> Iterator[type]:
    """Those a module defines itself."""
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield value


def our_passes() -> dict[str, type[ModulePass]]:
    """Every pass of ``vtac.passes`` and ``vtac.lowering``, and ``verify-hazards``, by name."""
    found: dict[str, type[ModulePass]] = {}
    for module in (*_modules(vtac.passes), *_modules(vtac.lowering), verify_hazards):
        for value in _classes(module):
            if issubclass(value, ModulePass) and isinstance(vars(value).get("name"), str):
                found[value.name] = value
    return dict(sorted(found.items()))


def our_codegens() -> list[Codegen]:
    """One of each codegen of ``vtac.lowering.codegens``, by falling priority (``vta`` first)."""
    found: dict[str, Codegen] = {}
    for module in _modules(vtac.lowering.codegens):
        for value in _classes(module):
            if issubclass(value, Codegen) and not inspect.isabstract(value):
                found[value.name] = value()
    return sorted(found.values(), key=lambda codegen: (codegen.name != "vta", codegen.name))


def our_dialects() -> list[Dialect]:
    """The dialects defined by the packages of ``vtac.dialects``."""
    found: dict[str, Dialect] = {}
    for info in pkgutil.iter_modules(vtac.dialects.__path__, "vtac.dialects."):
        if info.ispkg:
            module = importlib.import_module(info.name)
            dialects = (value for value in vars(module).values() if isinstance(value, Dialect))
            found |= {dialect.name: dialect for dialect in dialects}
    return [dialect for _, dialect in sorted(found.items())]


def load_dialects(ctx: Context) -> None:
    """Register xDSL's dialects and load ours."""
    for name, factory in get_all_dialects().items():
        ctx.register_dialect(name, factory)
    for dialect in our_dialects():
        ctx.load_dialect(dialect)
