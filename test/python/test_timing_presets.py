"""Timing presets: their names, files, changes and refusals."""

from pathlib import Path

import pytest
from clock_programs import alu, gemm, load, store

from vtac.dialects.target import TIMING_PRESETS, Memory, Target, TargetError
from vtac.dialects.vta.encoding import Finish, encode
from vtac.sim import estimate
from vtac.sim.timing import PresetError, TimingPreset, preset_for

SIM = Target.named("sim")


def cycles(preset: TimingPreset | str) -> int:
    """Of a program that has a bit of everything, in order."""
    program = [
        load(Memory.UOP, 4096, 1, 300),
        load(Memory.INP, 8192, 10, 10, 20, push_next=True),
        load(Memory.ACC, 65536, 10, 10),
        gemm(10, 10, 10, pop_prev=True),
        alu(100),
        alu(100, immediate=False, push_next=True),
        store(32768, 10, 10, 12, pop_prev=True, push_prev=True),
        Finish(pop_next=True),
    ]
    return estimate(SIM, encode(SIM, program), preset).cycles


def test_each_target_has_its_own() -> None:
    named = {name: preset_for(Target.named(name)).name for name in ("sim", "pynq", "chisel-de10")}
    assert named == {"sim": "hls-pynq", "pynq": "hls-pynq", "chisel-de10": "chisel-de10"}
    assert preset_for(Target.named("ultra96")).port_bytes == 16
    assert preset_for(Target.named("ultra96")).clock_mhz == 333
    assert preset_for(Target.named("de10nano")).burst_beats == 16
    assert preset_for(Target.named("ultra96"), "hls-pynq").port_bytes == 8


def test_the_targets_depths_are_those_of_its_own_preset() -> None:
    target = Target.named("chisel-pynq").replace(queue_depth=64)
    assert preset_for(target).queue_depth == 64
    assert not preset_for(target).verified
    assert preset_for(target, "chisel-pynq").queue_depth == 512


def test_only_the_chisel_presets_are_verified() -> None:
    assert {name for name, preset in TIMING_PRESETS.items() if preset.verified} == {
        "chisel-pynq",
        "chisel-de10",
    }
    assert not TimingPreset.named("chisel-pynq").replace(latency=17).verified
    assert not TimingPreset.named("chisel-pynq-ideal").verified
    assert TimingPreset.named("chisel-pynq").replace(clock_mhz=125).verified


@pytest.mark.parametrize(
    "change",
    [
        {"port_bytes": 16},
        {"latency": 4},
        {"request_interval": 1},
        {"read_channels": 2},
        {"alu_register_cycles": 1},
        {"store_idle_cycles": 0},
        {"store_request_cycles": 1},
        {"compute_overhead": 2},
        {"fetch_ahead": True, "fetch_batch": 4},
        {"ideal_memory": True},
    ],
    ids=str,
)
def test_a_better_machine_is_not_slower(change: dict[str, int]) -> None:
    base = TimingPreset.named("chisel-de10")
    better = cycles(base.replace(**change))
    assert better <= cycles(base)
    if not {"request_interval", "read_channels", "fetch_ahead"} & change.keys():
        assert better < cycles(base)


def test_rates_of_the_hls_design() -> None:
    chisel, hls = TimingPreset.named("chisel-pynq"), TimingPreset.named("hls-pynq")
    immediate = [alu(1000), Finish()]
    words = encode(SIM, immediate)
    durations = []
    for preset in (chisel, hls):
        start, end = estimate(SIM, words, preset).events[0, 2:].tolist()
        durations.append(end - start)
    assert durations == [1006, 2006]


def test_files(tmp_path: Path) -> None:
    toml, json = tmp_path / "mine.toml", tmp_path / "yours.json"
    toml.write_text('base = "chisel-de10"\nlatency = 32\n')
    json.write_text('{"read_channels": 2, "name": "two channels", "fetch_batch": null}')
    mine, yours = TimingPreset.of(toml), TimingPreset.of(json)
    assert (mine.name, mine.latency, mine.burst_beats) == ("mine", 32, 16)
    assert (yours.name, yours.read_channels, yours.burst_beats) == ("two channels", 2, 256)
    assert cycles(str(toml)) == cycles(mine) > cycles("chisel-de10")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latency = ", "is not TOML"),
        ("speed = 3", "has no 'speed'"),
        ("latency = true", "latency must be int"),
        ('base = "nobody"', "the presets are"),
        ("base = 1", "base must be the name"),
        ("verified = true", "has no 'verified'"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(PresetError, match=message):
        TimingPreset.of(path)
    with pytest.raises(TargetError, match="cannot read"):
        TimingPreset.of(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"port_bytes": "12"}, "power of two"),
        ({"outstanding": "0"}, "must be 1 to"),
        ({"latency": "soon"}, "must be int"),
        ({"fetch_ahead": "maybe"}, "true or false"),
        ({"read_channels": "4"}, "at most 3"),
        ({"clock_mhz": "0"}, "above 0"),
        ({"clock_mhz": "nan"}, "above 0"),
        ({"colour": "red"}, "has no 'colour'"),
    ],
    ids=str,
)
def test_bad_changes(change: dict[str, str], message: str) -> None:
    with pytest.raises(PresetError, match=message):
        TimingPreset.named("hls-pynq").replace_text(change)


def test_changes_as_text() -> None:
    changes = {"latency": "3", "fetch_ahead": "True", "fetch_batch": "none", "clock_mhz": "150"}
    preset = TimingPreset.named("chisel-pynq").replace_text(changes)
    assert (preset.latency, preset.fetch_ahead, preset.clock_mhz) == (3, True, 150.0)
    assert preset.fetch_batch is None
