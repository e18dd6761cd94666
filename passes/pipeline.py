"""Pipelines as values: passes with their options in order, and the levels that they reach.

A compilation is a `Pipeline`. Experiments make another one of it (``pipeline.replace("te-schedule",
"te-schedule-conv2d{h=7}")``) instead of editing text; its text form is what ``vta-opt -p`` takes. A
*level* is a named state of the module between two passes, as the phases between which
``iree-compile --compile-from`` and ``--compile-to`` stop.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from xdsl.utils.arg_spec import ArgSpec, ParameterType, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from vtac.dialects.arguments import FLAG, TEXT, instance, several, takes, verify_arguments
from vtac.dialects.errors import CompileError, Problem

PassSpec = ArgSpec
"""The name of a pass and its options, as xDSL parses them."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Segment:
    """Passes that run one after the other, and the level that the module is at after them.

    level: the name of that level; empty where the passes belong to the level that comes next.
    is_checked_later: whether the verifier need not look at the module at that level, because what
    follows checks more. A segment with other passes than it was made with is always verified.
    """

    passes: tuple[PassSpec, ...]
    level: str = ""
    is_checked_later: bool = False

    def with_passes(self, passes: tuple[PassSpec, ...]) -> "Segment":
        """The segment with these passes; it is verified if they are others."""
        unchanged = passes == self.passes
        return Segment(passes, self.level, self.is_checked_later and unchanged)


@dataclass(frozen=True)
class Pipeline:
    """Segments of passes in order. Nothing changes a pipeline; every method returns a new one.

    Names of passes and of levels are both accepted where a method takes ``where``: the name of a
    pass means each pass of that name, the name of a level means all passes of its segment.
    Every such method raises `CompileError` where the pipeline has no such pass or level.
    """

    segments: tuple[Segment, ...] = ()

    def __post_init__(self) -> None:
        """Raise `ArgumentError` on anything but segments."""
        kind = several(instance("a Segment", Segment))
        verify_arguments("argument", {"segments": kind}, {"segments": self.segments})

    @classmethod
    @takes(level=TEXT, is_checked_later=FLAG)
    def of(cls, passes: "Passes", level: str = "", *, is_checked_later: bool = False) -> "Pipeline":
        """A pipeline of one segment, from text such as ``fold-constants,quantize{shift=block}``.

        Raises `CompileError` on text that is no pipeline.
        """
        return cls((Segment(_specs(passes), level, is_checked_later),))

    @property
    def passes(self) -> tuple[PassSpec, ...]:
        """All passes in order, whatever their level."""
        return tuple(spec for segment in self.segments for spec in segment.passes)

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels in order."""
        return tuple(segment.level for segment in self.segments if segment.level)

    def __bool__(self) -> bool:
        """Whether there is any pass or level."""
        return bool(self.segments)

    def __str__(self) -> str:
        """The text form without levels, which ``vta-opt -p`` takes."""
        return ",".join(map(spec_text, self.passes))

    def __add__(self, other: "Pipeline") -> "Pipeline":
        """This pipeline and then the other; passes without a level join the level after them."""
        if not self.segments or not other.segments or self.segments[-1].level:
            return Pipeline(self.segments + other.segments)
        (*before, last), (first, *behind) = self.segments, other.segments
        return Pipeline((*before, replace(first, passes=last.passes + first.passes), *behind))

    @takes(level=TEXT)
    def reaching(self, level: str) -> "Pipeline":
        """This pipeline, whose last passes have no level yet, with the level that they reach."""
        (*before, last) = self.segments or (Segment(()),)
        return Pipeline((*before, replace(last, level=level)))

    def replace(self, where: str, passes: "Passes") -> "Pipeline":
        """Other passes in place of those named ``where``; the levels stay as they are."""
        return self._edited(where, lambda old: _specs(passes))

    def without(self, where: str) -> "Pipeline":
        """The pipeline without the passes named ``where``."""
        return self._edited(where, lambda old: ())

    def before(self, where: str, passes: "Passes") -> "Pipeline":
        """More passes before each pass ``where``, or before the first pass of a level."""
        return self._edited(where, lambda old: (*_specs(passes), *old))

    def after(self, where: str, passes: "Passes") -> "Pipeline":
        """More passes after each pass ``where``, or after the last pass of a level."""
        return self._edited(where, lambda old: (*old, *_specs(passes)))

    @takes(name=TEXT)
    def with_options(self, name: str, **options: ParameterType) -> "Pipeline":
        """Pass ``name`` with further options, or other values of those that it has."""
        given = {option.replace("_", "-"): (value,) for option, value in options.items()}
        return self._edited(
            name, lambda old: tuple(PassSpec(o.name, {**o.parameters, **given}) for o in old)
        )

    def since(self, level: str) -> "Pipeline":
        """What follows a level: how a module that has reached it is taken up again."""
        return Pipeline(self.segments[self._number(level) + 1 :])

    def until(self, level: str) -> "Pipeline":
        """What leads to a level, that level included."""
        return Pipeline(self.segments[: self._number(level) + 1])

    @takes(name=TEXT)
    def split(self, name: str) -> tuple["Pipeline", "Pipeline"]:
        """What stands before the first pass of that name, and the rest, with that pass first.

        The first part ends without a level if the pass stands within a segment.
        """
        for number, segment in enumerate(self.segments):
            for place, spec in enumerate(segment.passes):
                if spec.name == name:
                    before = Segment(segment.passes[:place], is_checked_later=True)
                    behind = replace(segment, passes=segment.passes[place:])
                    first = (*self.segments[:number], *([before] if place else ()))
                    return Pipeline(first), Pipeline((behind, *self.segments[number + 1 :]))
        known = f"Its passes: {', '.join(spec.name for spec in self.passes) or 'none'}."
        raise CompileError(Problem("", f"the pipeline has no pass '{name}'", known))

    def _number(self, level: str) -> int:
        verify_arguments("argument", {"level": TEXT}, {"level": level})
        for number, segment in enumerate(self.segments):
            if level and segment.level == level:
                return number
        known = f"Its levels: {', '.join(self.levels) or 'none'}."
        raise CompileError(Problem("", f"the pipeline has no level '{level}'", known))

    def _edited(
        self, where: str, edit: Callable[[tuple[PassSpec, ...]], tuple[PassSpec, ...]]
    ) -> "Pipeline":
        verify_arguments("argument", {"where": TEXT}, {"where": where})
        if where in self.levels:
            number = self._number(where)
            changed = self.segments[number].with_passes(edit(self.segments[number].passes))
            return Pipeline((*self.segments[:number], changed, *self.segments[number + 1 :]))
        if where not in {spec.name for spec in self.passes}:
            names = ", ".join(dict.fromkeys(spec.name for spec in self.passes))
            known = f"Its levels: {', '.join(self.levels) or 'none'}. Its passes: {names}."
            raise CompileError(Problem("", f"the pipeline has no pass or level '{where}'", known))

        def edited(specs: Iterable[PassSpec]) -> Iterator[PassSpec]:
            for spec in specs:
                yield from edit((spec,)) if spec.name == where else (spec,)

        return Pipeline(
            tuple(segment.with_passes(tuple(edited(segment.passes))) for segment in self.segments)
        )


WRITTEN = "Passes are written NAME{OPTION=VALUE ...},NAME..."

Passes = str | Pipeline
"""Passes as text or as a pipeline, whose levels do not matter."""


def _specs(passes: Passes) -> tuple[PassSpec, ...]:
    kind = TEXT | instance("a Pipeline", Pipeline)
    verify_arguments("argument", {"passes": kind}, {"passes": passes})
    if isinstance(passes, Pipeline):
        return passes.passes
    try:
        return tuple(parse_pipeline(passes))
    except ArgSpecParseError as error:
        raise CompileError(Problem(f"passes {passes!r}", str(error), WRITTEN)) from None


def spec_text(spec: PassSpec) -> str:
    """A pass as text, ``quantize{shift=block}``; strings that are no words are quoted."""
    if not spec.parameters:
        return spec.name
    options = (
        f"{name}={','.join(map(_value_text, values))}" if values else name
        for name, values in spec.parameters.items()
    )
    return f"{spec.name}{{{' '.join(options)}}}"


def _value_text(value: ParameterType) -> str:
    if isinstance(value, str):
        if _WORD.fullmatch(value) and value not in ("true", "false"):
            return value
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    text = str(value)
    if isinstance(value, float) and "." not in text:  # xDSL reads 1.0e-9, not 1e-9
        text = text.replace("e", ".0e")
    return text.lower()
