"""Finds passes, dialects and codegens, so that no list of them is written by hand.

A pass lies in a file named after it, and a dialect in a package named after it. A name that is
looked up imports only its own file, so ``vta-opt`` starts quickly. Everything is imported only for
``--help``, and to find what a misspelt name may have meant.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect
from xdsl.passes import ModulePass

import vtac.dialects
from vtac.dialects.errors import CompileError, Problem

if TYPE_CHECKING:
    from vtac.passes.graph.codegen import Codegen

PassFactory = Callable[[], type[ModulePass]]
"""Returns the class of a pass when it is needed, as in xDSL's registry."""

CODEGENS = "vtac.codegens"
"""The group of entry points by which other packages offer codegens."""

ROOT = Path(__file__).parents[2]
TOOL_PASSES = (
    "vtac.tools.driver.calibrate",
    "vtac.tools.tensor_expressions.te_estimate",
    "vtac.tools.driver.verify_hazards",
)
"""Modules of passes that need several rooms, so that they lie in tools."""

PASS_ROOMS = ("passes", "lowering", "tools")


@cache
def _modules(name: str) -> tuple[ModuleType, ...]:
    """Every module in a package."""
    walk = pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}.")
    return tuple(importlib.import_module(info.name) for info in walk)


def _classes(module: ModuleType) -> Iterator[type]:
    """The classes that a module defines itself."""
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield value


def our_passes() -> dict[str, type[ModulePass]]:
    """Every pass of ``vtac.passes`` and ``vtac.lowering``, and those of `TOOL_PASSES`, by name."""
    tools = [importlib.import_module(name) for name in TOOL_PASSES]
    found: dict[str, type[ModulePass]] = {}
    for module in (*_modules("vtac.passes"), *_modules("vtac.lowering"), *tools):
        for value in _classes(module):
            if issubclass(value, ModulePass) and isinstance(vars(value).get("name"), str):
                found[value.name] = value
    return dict(sorted(found.items()))


class OurPasses(Mapping[str, PassFactory]):
    """Factories of the passes of `our_passes`, by name. A look-up imports only its pass's file."""

    def __getitem__(self, name: str) -> PassFactory:
        """The pass of that name. Raises KeyError if there is none."""
        found = _pass_in_its_file(name) or our_passes()[name]
        return partial(_the_class, found)

    def __iter__(self) -> Iterator[str]:
        return iter(our_passes())

    def __len__(self) -> int:
        return len(our_passes())


def _the_class(found: type[ModulePass]) -> type[ModulePass]:
    return found


@cache
def _pass_in_its_file(name: str) -> type[ModulePass] | None:
    """Look a pass up by file name: ``te-a-b`` lies in ``te_a_b.py`` or in ``te/a_b.py``."""
    stem = name.replace("-", "_")
    for parts in _files():
        if stem in (parts[-1], "_".join(parts[-2:])):
            module = importlib.import_module(".".join(("vtac", *parts)))
            for value in vars(module).values():
                if not isinstance(value, type) or not issubclass(value, ModulePass):
                    continue
                if vars(value).get("name") == name:
                    return value
    return None


@cache
def _files() -> tuple[tuple[str, ...], ...]:
    """The modules that may hold passes, as the parts of their names below ``vtac``."""
    paths = (path for room in PASS_ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    names = (path.relative_to(ROOT).with_suffix("").parts for path in paths)
    return tuple(parts[:-1] if parts[-1] == "__init__" else parts for parts in names)


@cache
def our_codegens() -> "tuple[Codegen, ...]":
    """One of each codegen of ``vtac.lowering.codegens`` and of other packages.

    They come by falling priority. Other packages offer theirs by the entry points `CODEGENS`; one
    that cannot be imported raises `CompileError`.
    """
    from vtac.passes.graph.codegen import Codegen

    found: dict[str, Codegen] = {}
    for module in _modules("vtac.lowering.codegens"):
        for value in _classes(module):
            if issubclass(value, Codegen) and not inspect.isabstract(value):
                found[value.name] = value()
    for entry in entry_points(group=CODEGENS):
        try:
            found.setdefault(entry.name, entry.load()())
        except (ImportError, AttributeError) as error:
            what = f"the codegen of {entry.value} cannot be imported: {error}"
            raise CompileError(Problem(f"codegen '{entry.name}'", what)) from error
    return tuple(sorted(found.values(), key=lambda codegen: (-codegen.priority, codegen.name)))


def chosen_codegens(
    chosen: "Sequence[str | Codegen] | None" = None,
) -> "tuple[Codegen, ...]":
    """The codegens that a user chose, in the given order; for None the default ones.

    Raises `CompileError` on unknown names and on two codegens of the same name.
    """
    ours = {codegen.name: codegen for codegen in our_codegens()}
    if chosen is None:
        return tuple(codegen for codegen in ours.values() if codegen.default)
    found = [ours.get(choice) if isinstance(choice, str) else choice for choice in chosen]
    names = [choice if isinstance(choice, str) else choice.name for choice in chosen]
    known = f"There are {', '.join(sorted(ours))}."
    problems = [
        Problem("codegens", f"there is no codegen '{name}'", known)
        for name, codegen in zip(names, found, strict=True)
        if codegen is None
    ]
    if not problems and len(set(names)) < len(names):
        problems = [Problem("codegens", f"one is named twice: {', '.join(names)}")]
    if problems:
        raise CompileError(problems)
    return tuple(codegen for codegen in found if codegen is not None)


def our_dialects() -> dict[str, Callable[[], Dialect]]:
    """The dialects of the packages of ``vtac.dialects``, imported when they are needed."""
    packages = pkgutil.iter_modules(vtac.dialects.__path__, "vtac.dialects.")
    return {
        info.name.rpartition(".")[2]: partial(_dialect_of, info.name)
        for info in packages
        if info.ispkg
    }


def _dialect_of(package: str) -> Dialect:
    values = vars(importlib.import_module(package)).values()
    return next(value for value in values if isinstance(value, Dialect))


def load_dialects(ctx: Context) -> None:
    """Register xDSL's dialects and ours."""
    for name, factory in (get_all_dialects() | our_dialects()).items():
        ctx.register_dialect(name, factory)
