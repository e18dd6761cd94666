"""The benchmark of clusters on its smallest network: records, going on, and the page."""

import sys
from pathlib import Path

import onnx
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import bench_cluster
import cluster_networks
import cluster_tables
from cluster_steps import COPIES, DEFAULT, ONE_CORE, Record, machine_named
from cluster_tables import Tables

from vtac.dialects.target import ClusterTarget


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *steps: str) -> None:
    args = ["bench", "--network", "small", "--cores", "2", "--batch", "1", "--step", *steps]
    args += ["--records", str(folder / "records.jsonl"), "--page", str(folder / "page.md")]
    monkeypatch.setattr(sys, "argv", args)
    bench_cluster.main()


def test_runs_go_on_where_they_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, tmp_path, DEFAULT, COPIES)
    assert capsys.readouterr().out.count("cycles") == 3
    run(monkeypatch, tmp_path, DEFAULT, COPIES, "layers")
    assert capsys.readouterr().out.count("cycles") == 1
    records = bench_cluster.read(tmp_path / "records.jsonl", bench_cluster.state_of_compiler())
    assert records == bench_cluster.read(tmp_path / "records.jsonl", None)
    assert not bench_cluster.read(tmp_path / "records.jsonl", "another state")
    found = {step: records["small", 1, "cluster-2", step] for step in (DEFAULT, COPIES, "layers")}
    one = records["small", 1, "chisel-pynq", ONE_CORE]
    assert not any(record.error for record in records.values())
    assert found[COPIES].cycles == one.cycles, "one image on one core of the cluster"
    assert found["layers"].launches > 3 and found["layers"].cycles > found[DEFAULT].cycles
    bound = Tables(records, "").bound("small", 1, "cluster-2")
    assert bound is not None and one.cycles / 4 < bound < found[DEFAULT].cycles
    assert found[DEFAULT].tensors[0] > 0 and set(found[DEFAULT].stages) >= {"stage1", "stage2"}
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("# What a cluster gains") and "## Failed" not in page


@pytest.mark.parametrize("name", ["small", "mobilenet_v2", "googlenet"])
def test_models_are_valid(name: str) -> None:
    model = cluster_networks.NETWORKS[name].build()
    onnx.checker.check_model(model)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    (result,) = inferred.graph.output
    assert [dim.dim_value for dim in result.type.tensor_type.shape.dim] in ([1, 1000], [1, 10])


def test_limits_are_of_changed_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = ("", "cores=3 gb_bytes=4096", "cores=4")
    monkeypatch.setattr(cluster_tables, "LIMITS", (("small", 1, "cluster-2", changes),))
    names = [f"cluster-2 {change}".strip() for change in changes]
    machine = machine_named(names[1])
    assert isinstance(machine, ClusterTarget)
    assert (machine.cores, machine.gb_bytes) == (3, 4096)
    found = [Record("small", 1, "chisel-pynq", ONE_CORE, cycles=7_000_000)]
    found[0].compute = {"layer": 6_000_000}
    found += [Record("small", 1, name, DEFAULT, cycles=3_500_000) for name in names[:2]]
    rows = list(Tables({record.key: record for record in found}, "").limits())[2:-1]
    title = cluster_networks.NETWORKS["small"].title
    assert rows == [
        f"| {title}, batch 1, {names[0]} | 3.00 | 3.50 | 2.00 | 2.33 |",
        f"| {title}, batch 1, {names[1]} | 2.00 | 3.50 | 2.00 | 3.50 |",
    ]
