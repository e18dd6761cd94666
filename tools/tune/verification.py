"""What a record from elsewhere must be like to be taken over."""

from functools import lru_cache

from vtac.dialects.errors import CompileError
from vtac.dialects.te import Knobs
from vtac.passes.te.schedule.structure import structure_of
from vtac.passes.te.templates.find import all_templates
from vtac.tools.tune.keys import Key, parsed_kernel, target_of
from vtac.tools.tune.records import Record, RunRow, TrialRow, verify_texts


def verify_record(line: Record | TrialRow) -> None:
    """Raise ValueError unless texts are those of the digests and the point is in its space.

    Points of unknown templates, and of other versions of known ones, are not looked at: they are
    kept for those who know them, and never used here.
    """
    if isinstance(line, Record):
        subject: Record | RunRow = line
        point = line.point
    else:
        subject, point = line.run, line.trial.point
    verify_texts(subject)
    knobs = _space(subject.key, subject.text, subject.target_text)
    if knobs is not None and (fault := knobs.check(point)) is not None:
        raise ValueError(fault)


@lru_cache(maxsize=256)
def _space(key: Key, text: str, target_text: str) -> Knobs | None:
    """The knobs of a kernel's template; None if this vtac does not have that version of it."""
    template = all_templates().get(key.template)
    if template is None or template.version != key.version:
        return None
    try:
        structure = structure_of(parsed_kernel(text), "the kernel")
        reason = template.refuses(structure)
    except CompileError as error:
        raise ValueError(f"the kernel cannot be scheduled: {error.problems[0].what}") from None
    if reason is not None:
        raise ValueError(f"template '{template.name}' does not apply: {reason}")
    return template.declare(structure, target_of(target_text))
