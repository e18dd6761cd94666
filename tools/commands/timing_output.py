"""Output files of the commands that time programs."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Machine, cores_of
from vtac.runtime.atomic import is_file, write_whole
from vtac.sim import TimingPreset, TimingReport
from vtac.sim.cluster import ClusterReport
from vtac.sim.cluster.pictures import cluster_roofline_picture, cluster_timeline_picture
from vtac.sim.cluster.trace import as_cluster_trace
from vtac.sim.timing import preset_for
from vtac.sim.timing.pictures import PlotsMissing, roofline_picture, timeline_picture
from vtac.sim.timing.trace import as_trace

_FILES: Mapping[str, Callable[[TimingReport, str], bytes]] = {
    "trace": lambda report, _: as_trace(report).encode(),
    "timeline": timeline_picture,
    "roofline": roofline_picture,
}
_CLUSTER_FILES: Mapping[str, Callable[[ClusterReport, str], bytes]] = {
    "trace": lambda report, _: as_cluster_trace(report).encode(),
    "timeline": cluster_timeline_picture,
    "roofline": cluster_roofline_picture,
}


def chosen_preset(args: argparse.Namespace, target: Machine) -> TimingPreset:
    """The preset that the arguments name, with their changes."""
    preset = preset_for(cores_of(target)[0], args.preset)
    return preset.replace_text(changes_of(args.set)) if args.set else preset


def changes_of(settings: Sequence[str]) -> dict[str, str]:
    """The mapping of ``KEY=VALUE`` texts. Raises `CompileError` with all malformed ones."""
    problems = [
        Problem(f"--set {text}", "is not KEY=VALUE") for text in settings if "=" not in text
    ]
    if problems:
        raise CompileError(problems)
    pairs = (text.partition("=") for text in settings)
    return {key.strip(): value.strip() for key, _, value in pairs}


def write_report_files(
    args: argparse.Namespace, reports: Sequence[tuple[str, TimingReport | ClusterReport]]
) -> None:
    """Write the trace and the pictures that the arguments ask for, for named reports.

    One report is written to the given file. Several are written to one file per report, with the
    report's number and name in the file's name: ``t.png`` becomes ``t.000_vta_0.png``.
    """
    for number, (name, report) in enumerate(reports):
        for option in _FILES:
            given = getattr(args, option)
            if given is None:
                continue
            is_file(given)  # a/ is a folder, which a Path no longer shows
            path = Path(given)
            if len(reports) > 1:
                path = path.with_name(f"{path.stem}.{number:03d}_{name}{path.suffix}")
            write_whole(path, _content(option, report, path))


def _content(option: str, report: TimingReport | ClusterReport, path: Path) -> bytes:
    suffix = path.suffix[1:]
    try:
        if isinstance(report, ClusterReport):
            return _CLUSTER_FILES[option](report, suffix)
        return _FILES[option](report, suffix)
    except PlotsMissing as error:
        raise CompileError(Problem(str(path), str(error))) from None
