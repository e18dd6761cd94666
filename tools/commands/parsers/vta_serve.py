"""The arguments of ``vta-serve``, and what is wrong with them."""

import argparse
import ipaddress
import os

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.remote.limits import MEGABYTE, Limits
from vtac.tools.commands.arguments import verify_paths
from vtac.tools.commands.parsers.argument_parser import (
    ArgumentParser,
    add_quiet_argument,
    add_verbose_argument,
)
from vtac.tools.commands.parsers.types import at_least

TOKEN = "VTAC_TOKEN"
"""The environment variable with the token, for servers and clients."""

_EPILOG = f"""\
example:
  export {TOKEN}=$(openssl rand -hex 16)
  vta-serve --listen 127.0.0.1:9190 &
  vta-run model.vtapkg --remote 127.0.0.1:9190 --input samples.npz

Without {TOKEN} everybody who reaches the address may use the server; it then listens on loopback
addresses only. /health says whether it runs, /metrics has counters for Prometheus. Ctrl-C ends it.
"""


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    limits = Limits()
    parser = ArgumentParser(
        prog="vta-serve",
        description="Offer simulated accelerators to other processes and machines.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--listen",
        default="127.0.0.1:9190",
        metavar="HOST:PORT",
        help="where to listen (default: %(default)s); port 0 takes one that is free",
    )
    add("--tls-certificate", metavar="FILE.pem", help="encrypt, with this certificate")
    add("--tls-key", metavar="FILE.pem", help="the key of the certificate")
    add(
        "--allow-native",
        action="store_true",
        help="run code in packages that is for this machine (codegen c); only for clients that you"
        " trust",
    )
    add(
        "--json",
        action="store_true",
        help="print the address, and a line for each request that is told, as JSON",
    )
    add_quiet_argument(parser)
    add_verbose_argument(parser, "tell every request, not only those that are refused")
    group = parser.add_argument_group("limits")
    numbers = {
        "workers": (limits.workers, "processes that run packages"),
        "waiting": (limits.waiting, "requests that may wait for one"),
        "connections": (limits.connections, "connections at one time"),
        "seconds": (int(limits.seconds), "seconds that a run may take"),
        "idle-seconds": (int(limits.idle_seconds), "seconds for a client to send its request"),
        "request-mb": (limits.request_bytes // MEGABYTE, "megabytes of a request"),
        "store-mb": (limits.store_bytes // MEGABYTE, "megabytes of all packages"),
        "worker-mb": (limits.worker_bytes // MEGABYTE, "megabytes of a process"),
    }
    for name, (default, text) in numbers.items():
        group.add_argument(
            f"--{name}",
            type=at_least(0 if name == "waiting" else 1),
            default=default,
            metavar="N",
            help=f"{text} (default: %(default)s)",
        )
    return parser


def verify(args: argparse.Namespace) -> None:
    """Raise `CompileError` on an address that cannot be listened at, and on incomplete TLS."""
    host, _ = address_of(args.listen)
    if not os.environ.get(TOKEN) and not _is_loopback(host):
        hint = f"Put a token into {TOKEN}, or listen on 127.0.0.1."
        raise CompileError(Problem(args.listen, "others could reach it without a token", hint))
    if (args.tls_certificate is None) != (args.tls_key is None):
        raise CompileError(Problem("--tls-certificate, --tls-key", "belong together"))
    verify_paths([args.tls_certificate, args.tls_key], [])


def address_of(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``. Raises `CompileError`."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise CompileError(Problem(text, "is not HOST:PORT", "Such as 127.0.0.1:9190."))
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
