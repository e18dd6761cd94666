"""The subcommands of ``vta-tune``: they list, move, check and drop what searches left."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rich.table import Table

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.runtime.atomic import write_whole
from vtac.tools.commands.accuracy import print_json
from vtac.tools.commands.guard import FAILED
from vtac.tools.commands.progress import shown_steps
from vtac.tools.tune.database import Database, StoredRun
from vtac.tools.tune.keys import (
    DIGITS,
    Key,
    kernel_summary,
    parsed_kernel,
    target_digest,
    target_name,
)
from vtac.tools.tune.lookup import is_database, opened
from vtac.tools.tune.progress import gain_text, output
from vtac.tools.tune.recheck import Recheck, recheck, replayed
from vtac.tools.tune.records import Record, TrialRow, merged, read_lines, trial_line
from vtac.tools.tune.verification import verify_record


def run_subcommand(args: argparse.Namespace) -> None:
    """Run the subcommand ``args.command``."""
    _COMMANDS[args.command](args)


@dataclass(frozen=True)
class _Filter:
    """Selects keys of the database.

    target: the digest of the target, or None for all targets. kernel: the first characters of the
    digest of the kernel, or None for all kernels.
    """

    target: str | None
    kernel: str | None

    @classmethod
    def of(cls, args: argparse.Namespace) -> "_Filter":
        target = None if args.target is None else target_digest(Target.of(args.target))
        return cls(target, args.kernel)

    def takes(self, key: Key) -> bool:
        """Whether the filter selects a key."""
        return self.target in (None, key.target) and key.kernel.startswith(self.kernel or "")


def _show(args: argparse.Namespace) -> None:
    wanted = _Filter.of(args)
    with Database.read(args.files[0]) as database:
        runs = [run for run in database.runs() if wanted.takes(run.run.key)]
    if args.json:
        print_json({"runs": [_run_values(run) for run in runs]})
        return
    table = Table(title=f"searches in {args.files[0]}", title_justify="left")
    for name in ("kernel", "digest", "target", "method", "seed"):
        table.add_column(name, overflow="fold")
    for name in ("trials", "best"):
        table.add_column(name, justify="right")
    for name in ("started", "ended"):
        table.add_column(name)
    for stored in runs:
        run = stored.run
        table.add_row(
            _summary(run.text),
            run.key.kernel[:DIGITS],
            target_name(run.target_text),
            run.method,
            str(run.seed),
            f"{stored.trials:,}",
            "" if stored.best is None else f"{stored.best:,}",
            run.started,
            run.ended or "not yet",
        )
    output().print(table)


def _run_values(stored: StoredRun) -> dict[str, Any]:
    run = stored.run
    return {
        "uuid": run.uuid,
        "kernel": run.key.kernel,
        "summary": _summary(run.text),
        "target": target_name(run.target_text),
        "template": f"{run.key.template}/{run.key.version}",
        "method": run.method,
        "options": json.loads(run.options),
        "seed": run.seed,
        "compiler": run.compiler,
        "started": run.started,
        "ended": run.ended,
        "trials": stored.trials,
        "best": stored.best,
    }


def _best(args: argparse.Namespace) -> None:
    records = _records(args)
    if args.json:
        values = [
            {**json.loads(r.line), "name": r.name, "summary": _summary(r.text), "gain": r.gain}
            for r in records
        ]
        print_json({"records": values})
        return
    table = Table(title="best schedules", title_justify="left")
    for name in ("record", "kernel", "digest", "target", "template"):
        table.add_column(name, overflow="fold")
    for name in ("cycles", "default", "gain"):
        table.add_column(name, justify="right")
    table.add_column("proved")
    for record in records:
        table.add_row(
            record.name,
            _summary(record.text),
            record.key.kernel[:DIGITS],
            target_name(record.target_text),
            f"{record.key.template}/{record.key.version}",
            f"{record.cycles:,}",
            "" if record.default is None else f"{record.default:,}",
            "" if record.default is None else gain_text(record.default, record.cycles),
            "yes" if record.proved else "no",
        )
    output().print(table)


def _export(args: argparse.Namespace) -> None:
    if args.trials:
        wanted = _Filter.of(args)
        rows = (row for path in args.files for row in _trials_in(path))
        lines = sorted({trial_line(row) for row in rows if wanted.takes(row.run.key)})
    else:
        lines = sorted(record.line for record in _records(args))
    text = "".join(f"{line}\n" for line in lines)
    if args.output:
        write_whole(args.output, text.encode())
        if args.json:
            print_json({"output": args.output, "lines": len(lines)})
        elif not args.quiet:
            print(f"{args.output}: {len(lines)} lines", file=sys.stderr)
    else:
        sys.stdout.write(text)


def _import(args: argparse.Namespace) -> None:
    """Take records and trials over; what is wrong with any of them is told before anything is."""
    notes: list[str] = []
    records: list[Record] = []
    trials: list[TrialRow] = []
    problems: list[Problem] = []
    for path in args.files:
        try:
            for line in _verified(path, notes.append, args.skip_bad):
                if isinstance(line, Record):
                    records.append(line)
                else:
                    trials.append(line)
        except CompileError as error:
            problems += error.problems
    if problems:
        raise CompileError(problems)
    with (
        shown_steps(quiet=args.quiet, verbose=args.verbose) as step,
        Database.open(args.database, notes.append) as database,
    ):
        step(f"take over {len(records):,} records and {len(trials):,} trials")
        better, added = database.offer(merged(records).values()), database.add(trials)
    for note in notes:
        print(f"vta-tune: note: {note}", file=sys.stderr)
    if args.json:
        print_json({"records": len(records), "better": better, "trials": added, "notes": notes})
    elif not args.quiet:
        print(
            f"{args.database}: {better} of {len(records)} records are new or better,"
            f" {added} of {len(trials)} trials are new"
        )


def _verified(
    path: str, note: Callable[[str], None], skip_bad: bool
) -> Iterator[Record | TrialRow]:
    """What a file holds, every record and trial of it checked against its kernel's space."""
    if is_database(path):
        with Database.read(path) as database:
            yield from database.records()
            yield from _stored_trials(database)
        return
    for _, line in read_lines(path, note, skip_bad=skip_bad, verify=verify_record):
        yield line


def _check(args: argparse.Namespace) -> None:
    """Time every record with this compiler; fail if any has changed."""
    with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
        found = []
        for record in _records(args):
            step(f"time the schedule of {_named(record)}")
            found.append(recheck(record))
    changed = [each for each in found if each.changed]
    if args.json:
        print_json({"records": [_recheck_values(each) for each in found]})
    else:
        for each in changed:
            print(f"{_named(each.record)}: {each.told}")
        if not args.quiet:
            print(f"{len(found)} records, {len(changed)} changed")
    if changed:
        sys.stdout.flush()
        sys.exit(FAILED)


def _recheck_values(each: Recheck) -> dict[str, Any]:
    return {
        "name": each.record.name,
        "kernel": each.record.key.kernel,
        "recorded": each.record.cycles,
        "cycles": each.cycles,
        "problem": each.problem,
        "changed": each.changed,
    }


def _named(record: Record) -> str:
    target = target_name(record.target_text)
    return f"record {record.name} ({_summary(record.text)} on {target})"


def _replay(args: argparse.Namespace) -> None:
    """What each method would have found with the recorded trials alone."""
    wanted = _Filter.of(args)
    with Database.read(args.files[0]) as database:
        rows = [row for row in _stored_trials(database) if wanted.takes(row.run.key)]
    if not rows:
        raise CompileError(Problem(args.files[0], "there are no trials to replay"))
    with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
        step(f"replay {len(rows):,} trials")
        found = replayed(rows, args.method, args.trials, args.seed)
    if args.json:
        print_json({"replays": [each.values() for each in found]})
        return
    table = Table(title=f"replayed, {args.trials} trials at most", title_justify="left")
    for name in ("kernel", "method"):
        table.add_column(name, overflow="fold")
    for name in ("trials", "not recorded", "best", "at trial", "best recorded"):
        table.add_column(name, justify="right")
    for each in found:
        best = ("", "") if each.best is None else (f"{each.best:,}", f"{each.at}")
        counts = (f"{each.trials}", f"{each.unknown}")
        table.add_row(each.summary, each.method, *counts, *best, f"{each.recorded:,}")
    output().print(table)


def _forget(args: argparse.Namespace) -> None:
    if not (args.all or args.target or args.kernel):
        hint = "--target and --kernel say what; --all is everything."
        raise CompileError(Problem("forget", "say what to forget", hint))
    wanted = _Filter.of(args)
    path = args.files[0]
    Database.read(path).close()  # an absent file is not made
    with Database.open(path) as database:
        keys = {run.run.key for run in database.runs()} | {r.key for r in database.records()}
        pairs = {(key.kernel, key.target) for key in keys if wanted.takes(key)}
        counts = [database.forget([kernel], [target]) for kernel, target in sorted(pairs)]
    runs, records = sum(c[0] for c in counts), sum(c[1] for c in counts)
    if args.json:
        print_json({"searches": runs, "records": records})
    elif not args.quiet:
        print(f"{path}: {runs} searches and {records} records are gone")


def _records(args: argparse.Namespace) -> list[Record]:
    """The best records of all files, as far as the arguments want them, in the order of kernels."""
    wanted = _Filter.of(args)
    with ExitStack() as stack:
        found: list[Record] = []
        for path in args.files:
            source = opened(path)
            if isinstance(source, Database):
                stack.enter_context(source)
            found += source.records()
    chosen = merged(record for record in found if wanted.takes(record.key)).values()
    return sorted(chosen, key=lambda record: record.line)


def _trials_in(path: str) -> Iterator[TrialRow]:
    if is_database(path):
        with Database.read(path) as database:
            yield from _stored_trials(database)
    else:
        yield from (line for _, line in read_lines(path) if isinstance(line, TrialRow))


def _stored_trials(database: Database) -> Iterator[TrialRow]:
    for stored in database.runs():
        for number, trial in enumerate(database.trials(stored.id)):
            yield TrialRow(stored.run, number, trial)


@lru_cache(maxsize=1024)
def _summary(text: str) -> str:
    try:
        return kernel_summary(parsed_kernel(text))
    except ValueError as error:
        return str(error)


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "show": _show,
    "best": _best,
    "export": _export,
    "import": _import,
    "merge": _import,
    "check": _check,
    "replay": _replay,
    "forget": _forget,
}
