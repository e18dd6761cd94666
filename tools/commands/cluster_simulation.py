"""``vta-sim`` on a cluster's program: the clock, its trace and pictures, hazards."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import ClusterTarget, Machine, TimingPreset
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.runtime.cluster_streams import read_streams
from vtac.runtime.engines.vta import layers_of
from vtac.runtime.hazards import image_of
from vtac.sim.cluster import ClusterError, check_cluster, estimate_cluster
from vtac.sim.cluster.render import as_cluster_csv, as_cluster_json, as_cluster_table
from vtac.tools.commands.progress import shown_steps
from vtac.tools.commands.timing_output import changes_of, write_report_files


@dataclass(frozen=True)
class ClusterStreams:
    """A cluster's program in its places: one stream per unit, uint64 [n, 2].

    image: memory before the launch, as far as known. labels: the layers of each core's
    instructions.
    """

    name: str
    cluster: ClusterTarget
    streams: Sequence[NDArray[np.uint64]]
    image: NDArray[np.uint8] | None
    labels: Sequence[Sequence[str] | None] | None = None


def streams_of_folder(path: str, given: Machine | None) -> ClusterStreams:
    """The program of a folder, see `cluster_streams`. Raises `CompileError`."""
    cluster = None if given is None else ClusterTarget.of(given)
    return ClusterStreams("program", *read_streams(path, cluster))


def streams_of_program(
    program: BinaryCluster, resources: Mapping[str, NDArray[Any]]
) -> ClusterStreams:
    """An encoded program, its buffers one after the other. Raises `CompileError`."""
    addresses = program.place()
    image = image_of(program, addresses, resources)
    labels = [layers_of(core) for core in program.cores]
    streams = program.relocate(addresses)
    return ClusterStreams(program.name, program.target, streams, image, labels)


def simulate_cluster(args: argparse.Namespace, program: ClusterStreams) -> None:
    """Time a program and print the report. Raises `CompileError`."""
    cluster = program.cluster
    if args.preset:
        cluster = cluster.replace(timing=TimingPreset.of(args.preset))
    cluster = cluster.replace_text(changes_of(args.set))
    with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
        step("time the program")
        try:
            report = estimate_cluster(cluster, program.streams, program.labels)
        except ClusterError as error:
            raise CompileError(Problem(args.program, str(error))) from None
        write_report_files(args, [(program.name, report)])
    if args.json:
        sys.stdout.write(as_cluster_json(report))
    elif args.csv:
        sys.stdout.write(as_cluster_csv(report))
    elif not args.quiet:
        Console(highlight=False).print(as_cluster_table(report))
    if not args.check:
        return
    with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
        step("look for hazards")
        found = check_cluster(cluster, program.streams, program.image)
    if not found.ok:
        raise CompileError([Problem(args.program, str(hazard)) for hazard in found.hazards])
    for warning in found.warnings:
        print(f"vta-sim: warning: {warning}", file=sys.stderr)
    if not (args.quiet or args.json or args.csv):
        print("no hazards" + ("" if found.exact else " (micro-ops unknown, taken for all)"))
