"""Where a compilation looks for recorded schedules: files that the user names, then shipped ones.

A file is a database of ``vta-tune`` or a file of JSON lines. `Tuning` is what the driver puts into
`VtacContext.schedules`.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from vtac.dialects.context import RecordedPoint
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.dialects.te import KernelOp
from vtac.tools.tune.database import Database
from vtac.tools.tune.keys import (
    Key,
    constants_in,
    kernel_digest,
    kernel_text,
    oracle_digest,
    target_digest,
    target_name,
    target_text,
)
from vtac.tools.tune.records import Record, better, line_of, read_lines

Place: TypeAlias = str | os.PathLike[str]

SHIPPED = Path(__file__).parent / "records"
"""The folder of the records that come with vtac, a file of JSON lines for each preset."""


class Source(Protocol):
    """Something that holds records."""

    path: str

    def best(self, kernel: str, target: str, oracle: str) -> Sequence[Record]:
        """The best record of each template for a kernel on a machine, by digests; best first."""
        ...


class RecordFile:
    """The records of a file of JSON lines.

    Raises `CompileError` with every line that is no record. A last line that is not finished is
    left out; lines of trials are passed over.
    """

    def __init__(self, path: Place):
        self.path = os.fspath(path)
        self._found: dict[tuple[str, str, str], dict[Key, Record]] = {}
        for _, line in read_lines(path):
            if isinstance(line, Record):
                key = line.key
                place = self._found.setdefault((key.kernel, key.target, key.oracle), {})
                place[key] = better(place.get(key), line)

    def best(self, kernel: str, target: str, oracle: str) -> list[Record]:
        """See `Source`."""
        found = self._found.get((kernel, target, oracle), {})
        return sorted(found.values(), key=lambda record: record.rank)

    def records(self) -> list[Record]:
        """The best record of each key."""
        return [record for place in self._found.values() for record in place.values()]


def opened(path: Place) -> Database | RecordFile:
    """The records of a file, whichever of the two kinds it is. Raises `CompileError`."""
    return Database.read(path) if is_database(path) else RecordFile(path)


def is_database(path: Place) -> bool:
    """Whether a file of records is a database rather than JSON lines. Raises `CompileError`."""
    text = os.fspath(path)
    try:
        with open(text, "rb") as stream:
            return stream.read(1) not in (b"", b"{")
    except FileNotFoundError:
        hint = "vta-tune writes such files."
        raise CompileError(Problem(text, "there is no such file of records", hint)) from None
    except OSError as error:
        raise CompileError(Problem(text, f"cannot read it: {error.strerror}")) from None


class Tuning:
    """Finds recorded points for kernels: in the first source that has any.

    paths: files of records, the first of which counts most. shipped: whether to look into the
    records that come with vtac at last.
    """

    def __init__(self, paths: Iterable[Place] = (), *, shipped: bool = True):
        self.notes: list[str] = []
        self._shipped = shipped
        self._files: list[Source] = []
        problems: list[Problem] = []
        for path in paths:
            try:
                self._files.append(opened(path))
            except CompileError as error:
                problems += error.problems
        if problems:
            raise CompileError(problems)
        self._of_target: dict[str, list[Source]] = {}

    def __call__(self, kernel: KernelOp, target: Target) -> list[RecordedPoint]:
        """The recorded points for a kernel of tensors on a machine, the best first."""
        sources = self.sources(target)
        if not sources:
            return []
        constants = constants_in(kernel)
        digest, text = kernel_digest(kernel, constants), ""
        for source in sources:
            found = source.best(digest, target_digest(target), oracle_digest(target.timing))
            good: list[RecordedPoint] = []
            for record in found:
                text = text or kernel_text(kernel, constants)
                if (fault := _fault(record, text, target)) is None:
                    good.append(_recorded(record, source.path))
                else:
                    self.notes.append(f"{source.path}: record {record.name} is not used: {fault}")
            if good:
                return good
        return []

    def sources(self, target: Target) -> list[Source]:
        """Where records for a machine are looked up, in order."""
        text = target_text(target)
        if text not in self._of_target:
            shipped = SHIPPED / f"{target_name(text)}.jsonl"
            own = [RecordFile(shipped)] if self._shipped and shipped.is_file() else []
            self._of_target[text] = [*self._files, *own]
        return self._of_target[text]

    def digest_parts(self, target: Target) -> list[str]:
        """All records that a compilation for a machine may use, in order: what caches depend on."""
        wanted = target_digest(target)
        return [
            record.line
            for source in self.sources(target)
            if isinstance(source, Database | RecordFile)
            for record in source.records()
            if record.key.target == wanted
        ]

    def close(self) -> None:
        """Let go of the files."""
        for source in self._files:
            if isinstance(source, Database):
                source.close()


def _fault(record: Record, text: str, target: Target) -> str | None:
    """What is wrong with a record that was found by its digests; None if nothing is."""
    if record.text != text:
        return "the kernel's text is not that of its digest"
    if record.target_text != target_text(target):
        return "the machine's text is not that of its digest"
    try:
        line_of(record.line)
    except ValueError as error:
        return str(error)
    return None


def _recorded(record: Record, source: str) -> RecordedPoint:
    key = record.key
    name = os.path.basename(source)
    return RecordedPoint(
        key.template, key.version, record.point, record.cycles, record.default, record.name, name
    )


def recorded_schedules(tuning: Sequence[Place] | Place | bool | None) -> Tuning | None:
    """What a compilation looks records up in, by its option ``tuning``; None for nothing at all.

    Raises `CompileError` with everything that is wrong with the files.
    """
    if tuning is False:
        return None
    if tuning is None or tuning is True:
        return Tuning()
    return Tuning((tuning,) if isinstance(tuning, str | os.PathLike) else tuning)
