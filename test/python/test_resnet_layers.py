"""The layers that are benchmarked: their limits, and small ones by TVM's schedule and by ours."""

from dataclasses import replace
from typing import Any

import pytest
from by_path import load
from hypothesis import given, settings
from hypothesis import strategies as st

from vtac.dialects.target import Target
from vtac.sim import TimingPreset

layers = load("test/benchmarks/resnet_layers.py")
tvm_tiles = load("test/benchmarks/tvm_tiles.py")

# layer: dense and valid GEMM micro-ops, output elements, compute limit
LIMITS = {
    "C1": (2_458_624, 501_760, 50_176, 702_464),
    "C2": (451_584, 440_896, 12_544, 503_616),
    "C3": (225_792, 220_448, 6_272, 251_808),
    "C4": (25_088, 25_088, 6_272, 56_448),
    "C5": (451_584, 430_336, 6_272, 461_696),
    "C6": (225_792, 215_168, 3_136, 230_848),
    "C7": (25_088, 25_088, 3_136, 40_768),
    "C8": (451_584, 409_600, 3_136, 425_280),
    "C9": (225_792, 204_800, 1_568, 212_640),
    "C10": (25_088, 25_088, 1_568, 32_928),
    "C11": (451_584, 369_664, 1_568, 377_504),
}
SMALL = layers.Layer("small", 12, 32, 64, 3, 1, 1)


def test_limits_are_those_of_the_machine() -> None:
    target, preset = Target.named("chisel-pynq"), TimingPreset.named("chisel-pynq")
    found = {
        layer.name: (
            layer.products(target, padded=True),
            layer.products(target),
            layer.elements(target),
            layer.compute_limit(target, preset),
        )
        for layer in layers.LAYERS
    }
    assert found == LIMITS
    weighted = sum(layer.times * LIMITS[layer.name][3] for layer in layers.LAYERS[1:])
    assert weighted == 6_633_344
    assert sum(layer.additions for layer in layers.LAYERS) == 8


def test_a_layer_is_exact() -> None:
    compiled = layers.compile_layer(SMALL, "chisel-pynq", residual=True)
    assert compiled.is_exact()
    assert compiled.report().total.gemm_micro_ops >= SMALL.products(compiled.module.target)


def cycles_with(layer: Any, tiles: Any) -> int:
    """Of TVM's schedule, which multiplies the padding; asserts that it is exact and does so."""
    compiled = layers.compile_layer(
        layer, "chisel-pynq", pipeline=lambda p: tvm_tiles.with_tvm_schedule(p, tiles)
    )
    report = compiled.report()
    products = layer.products(compiled.module.target, padded=True)
    assert compiled.is_exact()
    assert report.total.gemm_micro_ops == products
    return int(report.cycles)


def test_tvms_schedule_is_exact_and_hides_latency() -> None:
    tiles = tvm_tiles.Tiles(3, 6, 1, 2, 2, 1)
    assert cycles_with(SMALL, tiles) < cycles_with(SMALL, tiles.alone)


def test_tvms_schedule_in_threads_over_rows() -> None:
    assert cycles_with(replace(SMALL, stride=2), tvm_tiles.Tiles(2, 3, 1, 4, 1, 2)) > 0


@settings(max_examples=20, deadline=None)
@given(
    size=st.integers(3, 9),
    inputs=st.sampled_from([3, 16, 40, 64]),
    outputs=st.sampled_from([16, 24, 96]),
    kernel=st.sampled_from([1, 3]),
    stride=st.integers(1, 2),
    rates=st.fixed_dictionaries(
        {
            "latency": st.integers(0, 120),
            "port_bytes": st.sampled_from([1, 2, 4, 8, 16, 32]),
            "burst_beats": st.sampled_from([4, 16, 256]),
        }
    ),
    log_batch=st.integers(0, 1),
)
def test_no_program_reads_or_writes_faster_than_the_limit(
    size: int,
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int,
    rates: dict[str, int],
    log_batch: int,
) -> None:
    target = Target.named("chisel-pynq").replace(log_batch=log_batch, **rates)
    layer = layers.Layer("drawn", size, inputs, outputs, kernel, stride, 1)
    compiled = layers.compile_layer(layer, target, images=target.batch)
    limits = layer.limits(target, images=target.batch)
    report = compiled.report()
    assert max(limits["reads"], limits["writes"]) <= report.cycles
    # Nor does any program take less than its own micro-ops with a start and an end.
    assert report.total.bounds["compute"] + layers.start_and_end(target) <= report.cycles


@pytest.mark.parametrize("latency", [0, 16, 100])
def test_limits_count_the_latency_of_the_first_instruction_and_the_first_load(latency: int) -> None:
    near = Target.named("chisel-pynq").replace(latency=0)
    far = near.replace(latency=latency)
    for name, limit in SMALL.limits(near).items():
        assert SMALL.limits(far)[name] == limit + 2 * latency
