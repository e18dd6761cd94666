"""``vta-serve``: offers simulators to other processes and machines (docs/serving.md)."""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.remote.limits import MEGABYTE, Limits
from vtac.tools.commands.diagnostics import run_command
from vtac.tools.commands.parsers.vta_serve import TOKEN, address_of, argument_parser, verify

if TYPE_CHECKING:
    from vtac.runtime.remote.server import Admission, AnsweredRequest, Tell


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _serve(argument_parser().parse_args(args)), "vta-serve")


def _serve(args: argparse.Namespace) -> None:
    verify(args)
    try:
        from vtac.runtime.remote.server import Admission, tls_context
    except ImportError as error:
        hint = "Install it: pip install 'vtac[remote]'."
        raise CompileError(Problem("", f"needs the package {error.name}", hint)) from None
    token = os.environ.get(TOKEN) or None
    host, port = address_of(args.listen)
    tls = tls_context(args.tls_certificate, args.tls_key) if args.tls_certificate else None
    limits = Limits(
        args.workers,
        args.waiting,
        args.request_mb * MEGABYTE,
        args.store_mb * MEGABYTE,
        args.worker_mb * MEGABYTE,
        args.seconds,
        args.idle_seconds,
        args.connections,
    )
    access = Admission(token, tls, args.allow_native)
    asyncio.run(_until_stopped(limits, access, host, port, args))


async def _until_stopped(
    limits: Limits, access: "Admission", host: str, port: int, args: argparse.Namespace
) -> None:
    """Serve until SIGINT or SIGTERM."""
    from vtac.runtime.remote.server import serving
    from vtac.tools.tune.remote_work import services

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        running = serving(limits, access, host, port, _teller(args), services())
        async with running as (at, bound):
            address = json.dumps({"host": at, "port": bound})
            print(address if args.json else f"vta-serve: listening on {at}:{bound}", flush=True)
            await stopped.wait()
    except OSError as error:
        what = f"cannot listen: {error.strerror or error}"
        raise CompileError(Problem(f"{host}:{port}", what)) from None


def _teller(args: argparse.Namespace) -> "Tell":
    """Who tells about requests on standard error: about those refused, about all, or about none."""

    def tell(event: "AnsweredRequest") -> None:
        if args.quiet or not (event.is_refusal or args.verbose):
            return
        line = json.dumps(asdict(event)) if args.json else f"vta-serve: {event}"
        print(line, file=sys.stderr, flush=True)

    return tell
