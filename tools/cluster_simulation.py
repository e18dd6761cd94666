"""``vta-sim`` on a folder of streams: the clock of a cluster, its trace, its hazards."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import ClusterTarget, TimingPreset
from vtac.runtime.atomic import is_file, write_whole
from vtac.sim.cluster import ClusterError, ClusterReport, check_cluster, estimate_cluster
from vtac.sim.cluster.pictures import cluster_roofline_picture, cluster_timeline_picture
from vtac.sim.cluster.render import as_cluster_csv, as_cluster_json, as_cluster_table
from vtac.sim.cluster.trace import as_cluster_trace
from vtac.tools.cluster_streams import read_streams
from vtac.tools.timing_output import changes_of, drawn, verify_picture_names

_PICTURES: Mapping[str, Callable[[ClusterReport, str], bytes]] = {
    "trace": lambda report, _: as_cluster_trace(report).encode(),
    "timeline": cluster_timeline_picture,
    "roofline": cluster_roofline_picture,
}


def simulate_cluster(args: argparse.Namespace) -> None:
    """Time the streams of a folder and print the report. Raises `CompileError`."""
    if args.function:
        raise CompileError(Problem(args.program, "a folder has one program, without --function"))
    verify_picture_names(args)
    given = ClusterTarget.of(args.target) if args.target else None
    cluster, streams, image = read_streams(args.program, given)
    if args.preset:
        cluster = cluster.replace(timing=TimingPreset.of(args.preset))
    cluster = cluster.replace_text(changes_of(args.set))
    try:
        report = estimate_cluster(cluster, streams)
    except ClusterError as error:
        raise CompileError(Problem(args.program, str(error))) from None
    for option, draw in _PICTURES.items():
        if path := getattr(args, option):
            is_file(path)
            write_whole(Path(path), drawn(draw, report, Path(path)))
    if args.json:
        sys.stdout.write(as_cluster_json(report))
    elif args.csv:
        sys.stdout.write(as_cluster_csv(report))
    else:
        Console(highlight=False).print(as_cluster_table(report))
    if args.check:
        _check(args, cluster, streams, image)


def _check(
    args: argparse.Namespace,
    cluster: ClusterTarget,
    streams: Sequence[NDArray[np.uint64]],
    image: NDArray[np.uint8] | None,
) -> None:
    report = check_cluster(cluster, streams, image)
    if not report.ok:
        raise CompileError([Problem(args.program, str(hazard)) for hazard in report.hazards])
    for warning in report.warnings:
        print(f"vta-sim: warning: {warning}", file=sys.stderr)
    if not (args.json or args.csv):
        print("no hazards" + ("" if report.exact else " (micro-ops unknown, taken for all)"))
