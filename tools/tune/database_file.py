"""The file of a tuning database: its tables, their versions, and what may be wrong with it."""

import os
import sqlite3
import time
from collections.abc import Sequence

from vtac.dialects.errors import CompileError, Problem

SCHEMA = 1
"""The version of the tables below."""

TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE kernel(id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, text TEXT NOT NULL);
CREATE TABLE target(id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, text TEXT NOT NULL);
CREATE TABLE run(id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, kernel INTEGER NOT NULL,
  target INTEGER NOT NULL, oracle TEXT NOT NULL, template TEXT NOT NULL, version INTEGER NOT NULL,
  method TEXT NOT NULL, options TEXT NOT NULL, seed INTEGER NOT NULL, compiler TEXT NOT NULL,
  started TEXT NOT NULL, ended TEXT NOT NULL, owner TEXT NOT NULL);
CREATE INDEX run_by_key ON run(kernel, target, method, seed);
CREATE TABLE trial(run INTEGER NOT NULL, number INTEGER NOT NULL, point TEXT NOT NULL,
  cycles INTEGER, why TEXT NOT NULL, millis INTEGER NOT NULL,
  PRIMARY KEY(run, number)) WITHOUT ROWID;
CREATE TABLE best(kernel INTEGER NOT NULL, target INTEGER NOT NULL, oracle TEXT NOT NULL,
  template TEXT NOT NULL, version INTEGER NOT NULL, point TEXT NOT NULL, cycles INTEGER NOT NULL,
  default_cycles INTEGER, bound INTEGER, proved INTEGER NOT NULL, compiler TEXT NOT NULL,
  PRIMARY KEY(kernel, target, oracle, template, version)) WITHOUT ROWID;
"""

MIGRATIONS: dict[int, Sequence[str]] = {}
"""For each older version of the tables, the statements that lead to the next one."""

WAIT = 30.0
"""Seconds to wait for other writers."""

HINT = "Name a file that vta-tune --database wrote, or a new one."


def make_tables(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables in a new file, or bring older ones to this version.

    To be called inside a transaction. Raises `CompileError` if the tables are not ours.
    """
    if not has_tables(connection):
        for statement in filter(str.strip, TABLES.split(";")):
            connection.execute(statement)
    else:
        version = verify_schema(connection, path)
        while version < SCHEMA:
            for statement in MIGRATIONS[version]:
                connection.execute(statement)
            version += 1
    set_schema = "INSERT OR REPLACE INTO meta VALUES ('schema', ?)"
    connection.execute(set_schema, (str(SCHEMA),))


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether a file has tables at all.

    A database has none until its first writer has made them, although it has a header by then.
    """
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def verify_schema(connection: sqlite3.Connection, path: str) -> int:
    """The version of the tables. Raises `CompileError` if it cannot be used."""
    select = "SELECT name FROM sqlite_master WHERE type = 'table'"
    tables = {name for (name,) in connection.execute(select)}
    if not {"meta", "trial", "best"} <= tables:
        what = "is a SQLite database, but not one of vta-tune" if tables else "has no tables yet"
        raise CompileError(Problem(path, what, HINT))
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    text = "" if row is None else str(row[0])
    version = int(text) if text.isascii() and text.isdigit() else -1
    if version > SCHEMA:
        what = f"has tables of version {version}; this vtac knows versions up to {SCHEMA}"
        hint = "Use the vtac that wrote it, or export its records there."
        raise CompileError(Problem(path, what, hint))
    if version < SCHEMA and version not in MIGRATIONS:
        raise CompileError(Problem(path, f"has tables of an unknown version {text!r}", HINT))
    return version


def use_log(connection: sqlite3.Connection, wait: float) -> bool:
    """Switch to a write-ahead log; whether the file system can have one."""
    until = time.monotonic() + wait
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:  # SQLite does not wait here by itself
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.05)
    connection.execute("PRAGMA synchronous = NORMAL")
    return bool(mode == "wal")


def verify_file(path: str, *, new: bool) -> None:
    """Raise `CompileError` on a path that is no database. new: whether there may be no file."""
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        folder = os.path.dirname(path) or "."
        if not new:
            raise CompileError(Problem(path, "there is no such file", HINT)) from None
        if not os.path.isdir(folder):
            raise CompileError(Problem(path, f"there is no folder {folder}")) from None
        if not os.access(folder, os.W_OK):
            raise CompileError(Problem(path, f"cannot be made: {folder} is read-only")) from None
        return
    except OSError as error:
        raise CompileError(Problem(path, f"cannot read it: {error.strerror}")) from None
    if not os.path.isfile(path):
        raise CompileError(Problem(path, "is no file", HINT))
    if new and not os.access(path, os.W_OK):
        raise CompileError(Problem(path, "is read-only", "Copy it, and tune with the copy."))
    if not size and new:
        return
    _verify_header(path)


def _verify_header(path: str) -> None:
    """Raise `CompileError` unless a file begins as SQLite's do and has all of its pages."""
    try:
        with open(path, "rb") as stream:
            header = stream.read(100)
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise CompileError(Problem(path, f"cannot read it: {error.strerror}")) from None
    if not header.startswith(b"SQLite format 3\0"):
        raise CompileError(Problem(path, "is not a SQLite database", HINT))
    page, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    if any(os.path.exists(path + log) for log in ("-wal", "-journal")):
        return  # Another process may be about to write these pages, or SQLite restores them.
    if len(header) < 100 or size < pages * (65536 if page == 1 else page):
        raise CompileError(
            Problem(path, f"is truncated: it has {size:,} bytes and says that it has more", _COPY)
        )


_COPY = "Restore a copy of it, or move it away and begin a new one."


def connect(path: str, mode: str, wait: float = WAIT) -> sqlite3.Connection:
    """A connection to a file. mode: ``rwc`` or ``ro``. wait: seconds to wait for other writers."""
    try:
        return sqlite3.connect(_uri(path, mode), timeout=wait, isolation_level=None, uri=True)
    except sqlite3.Error as error:
        raise explained(path, error) from None


def explained(path: str, error: sqlite3.Error) -> CompileError:
    """What an error of SQLite means for a user."""
    text, hint = str(error), ""
    if "malformed" in text or "corrupt" in text:
        text, hint = f"is damaged ({text})", _COPY
    elif "not a database" in text:
        text, hint = "is not a SQLite database", HINT
    elif "locked" in text:
        text, hint = "is locked by another process", "Wait for it to end, or end it."
    elif "readonly" in text:
        text, hint = "is read-only", "Copy it, and tune with the copy."
    else:
        text = f"cannot be used: {text}"
    return CompileError(Problem(path, text, hint))


def _uri(path: str, mode: str) -> str:
    """A path as the URI of a connection. mode: ``rwc`` or ``ro``, and further parameters."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{quoted}?mode={mode}"
