"""Arguments that choose codegens and the criteria of a partition."""

import argparse
import dataclasses

from vtac.passes.graph.host_model import HostModel
from vtac.tools.commands.parsers.types import at_least

HOST_FIELDS = tuple(field.name for field in dataclasses.fields(HostModel))
NO_HOST = "none"
"""The host model that offloads whatever can be."""


def add_partition_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--codegen`` and the criteria of a partition, in a group of their own."""
    add = parser.add_argument_group("partitioning").add_argument
    add(
        "--codegen",
        metavar="NAME,...",
        help="who may take parts of the network, by falling priority (default: vta); other packages"
        " offer codegens by entry points, such as examples/codegens",
    )
    add(
        "--keep-float",
        action="append",
        default=[],
        metavar="NODE",
        help="leave a node on the host, in floating point; may be given several times",
    )
    add("--max-ops", type=at_least(1), metavar="N", help="ops that a region may hold")
    add(
        "--min-macs",
        type=at_least(0),
        default=0,
        metavar="N",
        help="multiply-accumulates that a region must have (default: %(default)s)",
    )
    add(
        "--max-border-bytes",
        type=at_least(0),
        metavar="N",
        help="bytes that may cross a region's border",
    )
    defaults = HostModel()
    add(
        "--host-model",
        metavar="NAME=NUMBER,...",
        help="how fast the host is, in cycles of the accelerator: a region that it would finish"
        " sooner stays there; "
        + ", ".join(f"{name}={getattr(defaults, name):g}" for name in HOST_FIELDS)
        + f" unless given; '{NO_HOST}' offloads whatever can be",
    )
