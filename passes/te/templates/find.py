"""Finds templates by name: those of this package, and those that other packages offer.

A class that derives from `Template` and lies in a module of this package is found by its place;
other packages offer theirs by the entry points `TEMPLATES`, as they do codegens.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points

from vtac.dialects.errors import CompileError, Problem
from vtac.passes.te import templates
from vtac.passes.te.templates.template import Template

TEMPLATES = "vtac.templates"
"""The group of entry points by which other packages offer templates."""

DEFAULT = "tiles"
"""The template that schedules are chosen from unless another is named."""


@cache
def all_templates() -> Mapping[str, Template]:
    """Every template by its name. Raises `CompileError` where one cannot be imported."""
    found: dict[str, Template] = {}
    for info in pkgutil.iter_modules(templates.__path__, f"{templates.__name__}."):
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Template)
                and value.__module__ == module.__name__
                and not inspect.isabstract(value)
            ):
                found[value.name] = value()
    for entry in entry_points(group=TEMPLATES):
        try:
            found.setdefault(entry.name, entry.load()())
        except (ImportError, AttributeError) as error:
            what = f"the template of {entry.value} cannot be imported: {error}"
            raise CompileError(Problem(f"template '{entry.name}'", what)) from error
    return dict(sorted(found.items()))


def template_named(name: str = DEFAULT) -> Template:
    """The template of a name. Raises `CompileError` if there is none."""
    found = all_templates().get(name)
    if found is None:
        known = f"There are {', '.join(all_templates())}."
        raise CompileError(Problem("", f"there is no template '{name}'", known))
    return found
