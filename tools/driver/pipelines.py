"""Makes passes from the text or the specifications of a pipeline, and describes passes.

The syntax is xDSL's (``fold-constants,quantize{shift=auto}``). Errors name the pass, and its
options or similar names of passes.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import UnionType

from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, Problem
from vtac.passes.pipeline import PassSpec, Pipeline
from vtac.tools.commands.diagnostics import close_matches

Factories = Mapping[str, Callable[[], type[ModulePass]]]


def parse_passes(text: str, *tables: Factories) -> tuple[ModulePass, ...]:
    """The passes of a pipeline in text form. Raises `CompileError` as `built_passes` does."""
    return built_passes(Pipeline.of(text).passes, *tables)


def built_passes(specs: Iterable[PassSpec], *tables: Factories) -> tuple[ModulePass, ...]:
    """The passes of specifications, each from the first table that has it.

    Raises `CompileError` with all that is wrong.
    """
    passes: list[ModulePass] = []
    problems: list[Problem] = []
    for spec in specs:
        table = next((table for table in tables if spec.name in table), None)
        if table is None:
            matches = close_matches(spec.name, [name for table in tables for name in table])
            problems.append(
                Problem(
                    "", f"there is no pass '{spec.name}'{matches}", "See vta-opt --list-passes."
                )
            )
            continue
        found = table[spec.name]()
        try:
            passes.append(found.from_pass_spec(spec))
        except (ValueError, TypeError, CompileError) as error:
            problems.append(_bad_options(found, spec, error))
    if problems:
        raise CompileError(problems)
    return tuple(passes)


def _bad_options(found: type[ModulePass], spec: PassSpec, error: Exception) -> Problem:
    options = dict(pass_options(found))
    known = f"Its options: {', '.join(options.values())}." if options else "It has no options."
    unknown = sorted(key for key in spec.parameters if key.replace("_", "-") not in options)
    what = f"unknown options {', '.join(unknown)}" if unknown else str(error)
    return Problem(f"pass '{spec.name}'", what, known)


def pass_options(found: type[ModulePass]) -> Iterator[tuple[str, str]]:
    """Name and description of each option of a pass: ``shift=block|channel|auto (auto)``."""
    hints = typing.get_type_hints(found)
    for field in dataclasses.fields(found):
        if field.name == "name" or not field.init:
            continue
        name = field.name.replace("_", "-")
        yield name, f"{name}={_type_text(hints[field.name])}{_default_text(field)}"


def _default_text(field: "dataclasses.Field[object]") -> str:
    if field.default is dataclasses.MISSING or field.default is None:
        return ""
    default = field.default
    return f" ({str(default).lower() if isinstance(default, bool) else default})"


def _type_text(hint: object) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "|".join(map(str, arguments))
    if origin in (typing.Union, UnionType):
        return "|".join(_type_text(a) for a in arguments if a is not type(None))
    if origin is tuple:
        return f"{_type_text(arguments[0])},..."
    return getattr(hint, "__name__", str(hint))


def pass_summary(found: type[ModulePass]) -> str:
    """The first sentence of a pass's docstring, or of its module's."""
    text = found.__doc__ or ""
    if text.startswith(f"{found.__name__}("):  # what dataclass writes where there is none
        text = inspect.getmodule(found).__doc__ or ""
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


def describe_passes(passes: Mapping[str, type[ModulePass]]) -> str:
    """One line per pass, and another for its options."""
    width = max((len(name) for name in passes), default=0)
    lines = []
    for name, found in passes.items():
        lines.append(f"  {name:{width}}  {pass_summary(found)}")
        options = ", ".join(text for _, text in pass_options(found))
        if options:
            lines.append(f"  {'':{width}}    {{{options}}}")
    return "\n".join(lines)


def listed_passes(passes: Mapping[str, type[ModulePass]]) -> list[dict[str, object]]:
    """Name, summary and options (name and description) of each pass, for programs."""
    return [
        {"name": name, "summary": pass_summary(found), "options": dict(pass_options(found))}
        for name, found in passes.items()
    ]
