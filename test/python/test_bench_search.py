"""The bench of schedule search: cases as in the paper, figures computed once, true tables."""

import argparse
import sys
from pathlib import Path
from typing import Any

import bench_search
import flextensor_kernels as flextensor
import numpy as np
import pytest
import search_tables

from vtac import te
from vtac.dialects.target import Target
from vtac.tools.tune.tasks import tasks_of


def test_every_kind_has_as_many_cases_as_in_the_paper() -> None:
    assert tuple(len(shapes) for _, shapes in flextensor.KINDS.values()) == flextensor.COUNTS
    for kind, (_, shapes) in flextensor.KINDS.items():
        assert len(set(shapes)) == len(shapes), kind
    assert len(list(flextensor.cases("conv 2D"))) == len(flextensor.YOLO) == 15


@pytest.mark.parametrize("kind", flextensor.KINDS)
def test_every_kind_has_kernels_to_tune(kind: str) -> None:
    case = min(flextensor.cases(kind), key=lambda case: float(np.prod(case.shape)))
    module = te.lowered((case.make(),), Target.named("chisel-pynq"), "te")
    for task in tasks_of(module):
        assert 0 < task.bound <= task.default_cycles


@pytest.mark.parametrize("target", ["chisel-pynq", "ultra96"])
@pytest.mark.parametrize(("blocks", "columns", "size", "rows"), [(1, 1, 4, 3), (3, 2, 16, 20)])
def test_block_circulant_products_are_exact(
    target: str, blocks: int, columns: int, size: int, rows: int
) -> None:
    x = np.random.default_rng(size).integers(-128, 128, (columns, size, rows), np.int8)
    run = te.build(flextensor.block_circulant(blocks, columns, size, rows), target)
    found = run(np.concatenate([x, x], axis=1)).reshape(blocks * size, rows)
    weights = flextensor.circulant_weights(blocks, columns, size)
    wanted = flextensor.block_circulant_by_numpy(weights, x.reshape(columns * size, rows))
    assert np.array_equal(found, wanted) and np.ptp(wanted) > 0


@pytest.mark.parametrize("target", ["chisel-pynq", "ultra96"])
@pytest.mark.parametrize(("channels", "outputs", "size"), [(3, 5, 6), (16, 32, 9)])
def test_shift_convolutions_are_exact(target: str, channels: int, outputs: int, size: int) -> None:
    shape = (1, 3, 3, channels, size, size)
    x = np.random.default_rng(size).integers(-128, 128, shape, np.int8)
    found = te.build(flextensor.shift_convolution(channels, outputs, size), target)(x)
    weights = flextensor.shift_weights(channels, outputs)
    wanted = flextensor.shift_convolution_by_numpy(weights, x)
    assert np.array_equal(found, wanted) and np.ptp(wanted) > 0


def figures(best: int, **more: Any) -> dict[str, Any]:
    return {"default": 110, "best": best, "bound": 100, "at": 3, "proved": True, **more}


def test_overheads_are_summed_as_often_as_layers_run() -> None:
    found = {
        "C2": {"times": 3, "cycles": 107, "bound": 100, "instructions": 5, "fetch": 2},
        "C4": {"times": 1, "cycles": 1010, "bound": 1000, "fetch": 10},
    }
    header, _, *_, total = search_tables.overheads(found).splitlines()
    sums = dict(zip(header.strip("| ").split(" | "), total.strip("| ").split(" | "), strict=False))
    assert sums["layer"] == "sum" and sums["cycles"] == "1,331" and sums["bound"] == "1,300"
    assert sums["instructions"] == "15" and sums["fetch"] == "16" and sums["biases"] == "0"


def test_figures_are_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    computed: list[str] = []

    def part(given: argparse.Namespace) -> Any:
        for name in ("C2", "C4"):
            yield f"{name}/{given.trials}/0", lambda n=name: (computed.append(n), figures(100))[1]

    monkeypatch.setattr(bench_search, "PARTS", {"layers": part})
    file = tmp_path / "results.jsonl"
    command = ["bench_search", "--only", "layers", "--results", str(file)]
    for names, expected in ((["C2"], ["C2"]), ([], ["C2", "C4"]), ([], ["C2", "C4"])):
        monkeypatch.setattr(sys, "argv", [*command, *(["--names", *names] if names else [])])
        bench_search.main()
        assert computed == expected
    assert "| C4 | 110 | 100 | 1.1000 | 1.100 | 3 | yes |" in capsys.readouterr().out


def test_tables_say_what_the_figures_say(tmp_path: Path) -> None:
    found = {
        "conv 2D 1/80": figures(100, shape=[3, 64]),
        "conv 2D 2/80": figures(110, shape=[4, 64], proved=False),
        "GEMM 1/80": figures(88, shape=[8]),
    }
    kinds = search_tables.kinds(found)
    assert "| GEMM | 1 of 7 | 1.2500 | 1.2500 | 1.2500 | 1.100 | 0.880 | yes |" in kinds
    assert "| conv 2D | 2 of 15 | 1.0488 | 1.1000 | 1.0000 | 1.100 | 1.049 | 1 of 2 |" in kinds
    assert "| 2 | 4 64 | 110 | 110 | 1.0000 | 1.100 |" in kinds
    curves = {"p": [9, 8, 7, 5, 5], "q": [9, 6, 6, 6, 6], "random": [9, 9, 9, 9, 8]}
    ladder = {
        f"C4/{method}/5/0": {"curve": curve, "default": 6} for method, curve in curves.items()
    }
    row = "| C4 | 0 | 0.750 |  | 1.200 | 1.000 | 4 | 2 | 0.50 |"
    assert row in search_tables.ladder(ladder)
    page = tmp_path / "search.md"
    page.write_text("a\n<!-- bench_search ladder -->\nold\n<!-- end of ladder -->\nb\n")
    search_tables.write(page, {"ladder": "new", "kinds": kinds})
    assert page.read_text() == ("a\n<!-- bench_search ladder -->\nnew\n<!-- end of ladder -->\nb\n")


def test_the_page_has_a_place_for_every_table() -> None:
    text = (bench_search.ROOT / "docs" / "search.md").read_text()
    for part in bench_search.PARTS:
        assert f"<!-- bench_search {part} -->" in text and f"<!-- end of {part} -->" in text


def test_enumerated_spaces_are_small_enough() -> None:
    for name in ("product", "conv 1x1"):
        for task in bench_search.tasks_of_tensor(bench_search.SMALL[name]()):
            free, size = bench_search.free_knobs(task)
            assert 1 < size <= bench_search.MOST_POINTS and free


def curve(*values: int) -> dict[str, Any]:
    return {"curve": list(values), "default": 100}


def test_the_verdict_on_q_and_p_is_by_kernel_and_by_a_sign_test() -> None:
    runs = {}
    for name in ("a", "b", "c"):
        for seed in range(2):
            runs[f"{name}/p/9/{seed}"] = curve(9, 9, 9, 5)
            runs[f"{name}/q/9/{seed}"] = curve(9, 5)
    text = search_tables.ladder(runs)
    assert "| a | 0 |" in text and "0.50 |" in text
    assert "on 3 kernels and more on 0, at the median 0.50" in text
    assert "p = 0.250" in text and "cannot be told apart" in text
    assert search_tables.sign_test(8, 0) == pytest.approx(2 / 256)
    assert search_tables.sign_test(3, 3) == 1.0


def test_a_method_that_never_reaches_the_default_has_a_row() -> None:
    run = {"default": 100, "best": 200, "reached": None, "seconds": 1.0}
    assert "| q | 1 | 0.500 |" in search_tables.methods({"C4/q/80/0": run})
