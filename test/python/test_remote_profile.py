"""The table of what a device behind a wire says about launches."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from vtac.tools.commands.remote_profile import remote_profile_table

ONE_CORE: Mapping[str, Any] = {
    "function": "vta_0",
    "cycles": 1_500,
    "seconds": 1.5e-5,
    "program": {"lower_bound": 1_000},
}
CLUSTER: Mapping[str, Any] = {
    "function": "vta_[1]",  # which is no markup
    "cycles": 3_000,
    "seconds": 3e-5,
    "bounds": {"ddr": 1_200, "gemm": 2_000},
}


def rows(*launches: Mapping[str, Any]) -> list[list[str]]:
    """The cells of the table, split at blanks; without lines and titles."""
    whole = {key: sum(launch[key] for launch in launches) for key in ("cycles", "seconds")}
    console = Console(width=100, force_terminal=False)
    with console.capture() as capture:
        console.print(remote_profile_table({**whole, "launches": launches}))
    return [line.split() for line in capture.get().splitlines() if "." in line]


def test_one_launch_is_one_row() -> None:
    assert rows(ONE_CORE) == [["vta_0", "1,500", "0.015", "1,000", "1.500"]]


def test_a_cluster_has_the_largest_of_its_bounds_and_launches_a_sum() -> None:
    assert rows(ONE_CORE, CLUSTER) == [
        ["vta_0", "1,500", "0.015", "1,000", "1.500"],
        ["vta_[1]", "3,000", "0.030", "2,000", "1.500"],
        ["2", "launches", "4,500", "0.045", "3,000", "1.500"],
    ]


def test_a_launch_without_work_has_no_ratio() -> None:
    assert rows({**CLUSTER, "bounds": {}}) == [["vta_[1]", "3,000", "0.030", "0"]]
