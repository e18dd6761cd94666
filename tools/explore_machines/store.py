"""What became of machines, kept in an SQLite file, so that nothing is evaluated twice.

A study is a network with everything that decides its cycles besides the machine: samples, options,
and the compiler itself. The results of a study serve every exploration of it, whatever its space,
cost and seed. Each result is a transaction of its own, so that a process that is killed loses
nothing that it has finished. Failures that another try might not repeat are not kept.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.tools.explore_machines.outcome import Outcome
from vtac.tools.explore_machines.space import machine_digest

WAIT = 30.0
"""Seconds to wait for other writers."""

_FIGURES = tuple(field.name for field in fields(Outcome) if field.name != "is_lasting")

_TABLES = (
    "CREATE TABLE IF NOT EXISTS study(id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE,"
    " model TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS machine(study INTEGER NOT NULL, digest TEXT NOT NULL,"
    " fields TEXT NOT NULL, cycles INTEGER, why TEXT NOT NULL, macs INTEGER NOT NULL,"
    " host_nodes INTEGER NOT NULL, host_macs INTEGER NOT NULL, millis INTEGER NOT NULL,"
    " PRIMARY KEY(study, digest)) WITHOUT ROWID",
)


class StudyStore:
    """The results of one study. Raises `CompileError` where the file cannot be used."""

    def __init__(self, path: str | os.PathLike[str] | None, study: str, model: str) -> None:
        """path: the file, made if there is none; None keeps results for this process alone."""
        self.path = ":memory:" if path is None else os.fspath(path)
        with self._errors():
            self._connection = sqlite3.connect(self.path, WAIT, isolation_level=None)
            try:
                if path is not None:
                    self._connection.execute("PRAGMA journal_mode = WAL")
                for table in _TABLES:
                    self._connection.execute(table)
                insert = "INSERT OR IGNORE INTO study(digest, model) VALUES (?, ?)"
                self._connection.execute(insert, (study, model))
                select = "SELECT id FROM study WHERE digest = ?"
                (self._study,) = self._connection.execute(select, (study,)).fetchone()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def outcome(self, machine: Target) -> Outcome | None:
        """What became of a machine; None if that is not known."""
        select = f"SELECT {', '.join(_FIGURES)} FROM machine WHERE study = ? AND digest = ?"
        with self._errors():
            key = (self._study, machine_digest(machine))
            row = self._connection.execute(select, key).fetchone()
        return None if row is None else Outcome(**dict(zip(_FIGURES, row, strict=True)))

    def keep(self, machine: Target, outcome: Outcome) -> None:
        """Keep what became of a machine, unless another try might end otherwise."""
        if not outcome.is_lasting:
            return
        columns = ("study", "digest", "fields", *_FIGURES)
        places = ", ".join("?" * len(columns))
        insert = f"INSERT OR IGNORE INTO machine({', '.join(columns)}) VALUES ({places})"
        text = json.dumps(machine.fields())
        figures = (getattr(outcome, name) for name in _FIGURES)
        with self._errors():
            row = (self._study, machine_digest(machine), text, *figures)
            self._connection.execute(insert, row)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            hint = "Name a file that --database made, or a new one."
            raise CompileError(Problem(self.path, f"cannot use it: {error}", hint)) from None
