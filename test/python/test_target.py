"""The target attribute: presets, configurations, text, and what it refuses."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from vtac.dialects.errors import CompileError
from vtac.dialects.target import (
    PRESETS,
    TIMING_FIELDS,
    Memory,
    Target,
    TargetDialect,
    TargetError,
)

CONFIG = {
    "TARGET": "sim",
    "HW_VER": "0.0.2",
    "LOG_INP_WIDTH": 3,
    "LOG_WGT_WIDTH": 3,
    "LOG_ACC_WIDTH": 5,
    "LOG_BATCH": 2,
    "LOG_BLOCK": 3,
    "LOG_UOP_BUFF_SIZE": 15,
    "LOG_INP_BUFF_SIZE": 15,
    "LOG_WGT_BUFF_SIZE": 18,
    "LOG_ACC_BUFF_SIZE": 17,
}


def parse(text: str) -> Target:
    context = Context()
    context.load_dialect(TargetDialect)
    attribute = Parser(context, text).parse_attribute()
    assert isinstance(attribute, Target)
    return attribute


def small_config(**changes: object) -> dict[str, object]:
    return {**CONFIG, "LOG_BATCH": 0, "LOG_BLOCK": 4, **changes}


def test_the_default_machine() -> None:
    target = Target.named("sim")
    assert (target.batch, target.block) == (1, 16)
    assert [target.depth(m) for m in Memory] == [8192, 1024, 2048, 2048, 2048, 2048]
    assert [target.element_bytes(m) for m in Memory] == [4, 256, 16, 64, 16, 16]
    assert (target.queue_depth, target.token_depth, target.timing.name) == (512, 1024, "hls-pynq")
    assert target.alu_mul and target.acc_load_int8 and target.alu_bypass and not target.alu_imm_src


def test_chisel_presets_have_fewer_micro_ops_than_the_fields_name() -> None:
    target = Target.named("chisel-de10")
    assert (target.uop_depth, target.uop_entries, target.depth(Memory.UOP)) == (8192, 2048, 2048)
    assert target.token_depth == 255 and target.timing.name == "chisel-de10"
    assert target.alu_imm_src and not (target.alu_mul or target.alu_bypass or target.acc_load_int8)


def test_a_configuration_starts_with_every_feature_off() -> None:
    target = Target.from_vta_config(CONFIG)
    assert not (target.alu_mul or target.acc_load_int8 or target.alu_imm_src or target.alu_bypass)
    assert (target.batch, target.block, target.wgt_depth) == (4, 8, 4096)
    assert Target.from_vta_config(CONFIG, alu_mul=True).alu_mul
    assert {"TARGET": "sim", "HW_VER": "0.0.2", **target.to_vta_config()} == CONFIG


def test_of_takes_what_users_write(tmp_path) -> None:
    path = tmp_path / "vta_config.json"
    path.write_text(json.dumps(CONFIG))
    target = Target.of(path)
    assert target == Target.of(str(path)) == Target.of(target)
    assert hash(target) == hash(Target.of(path))
    assert Target.of("pynq") == Target.named("pynq")
    with pytest.raises(TargetError, match=r"neither a target preset \(sim, pynq, .*chisel-de10\)"):
        Target.of("zynq")
    with pytest.raises(TargetError, match="cannot read"):
        Target.of(tmp_path / "missing.json")
    path.write_text("{")
    with pytest.raises(TargetError, match="is not JSON"):
        Target.of(path)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_print_as_their_name(name: str) -> None:
    target = Target.named(name)
    assert str(target) == f'#target.vta<"{name}">'
    assert parse(str(target)) == target


def test_changes_print_and_parse() -> None:
    changes = {"log_batch": 2, "log_block": 3, "alu_mul": True, "timing": "hls-pynq-ideal"}
    target = Target.named("chisel-pynq").replace(**changes, uop_entries=1024)
    text = str(target)
    assert text == (
        '#target.vta<"chisel-pynq", log_batch = 2, log_block = 3, alu_mul = true,'
        ' uop_entries = 1024, timing = "hls-pynq-ideal">'
    )
    assert parse(text) == target


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"zynq"', "no target preset 'zynq'"),
        ('"sim", colour = 3', "a target has no 'colour'"),
        ('"sim", log_block = true', "log_block must be int"),
        ('"sim", log_acc_width = 4', "must be 3, 3, 5"),
    ],
)
def test_text_that_names_no_machine(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(f"#target.vta<{text}>")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (small_config(TARGET="vcu118"), "TARGET is 'vcu118', but must be one of sim, tsim, pynq"),
        (small_config(HW_VER="9"), "HW_VER is '9', but must be one of 0.0.1, 0.0.2"),
        (small_config(latency=3), "unknown keys latency"),
        (small_config(FEATURES=["mul"]), "FEATURES of vta_config must be a list of alu_mul"),
        ({"base": "zynq"}, "no target preset 'zynq'"),
        ({"base": "pynq", "colour": 3}, "a target has no 'colour'"),
        ({"base": "pynq", "latency": "3"}, "latency must be int"),
        ({"base": "pynq", "port_bytes": 12}, "port_bytes must be a power of two"),
        (small_config(LOG_OUT_WIDTH=3), "unknown keys LOG_OUT_WIDTH"),
        ({"LOG_BLOCK": 4}, "lacks LOG_INP_WIDTH"),
        (small_config(LOG_WGT_WIDTH=2), "must be 3, 3, 5"),
        (small_config(LOG_BLOCK="4"), "LOG_BLOCK must be int"),
        (small_config(LOG_BATCH=-1), "must not be negative"),
        (small_config(LOG_WGT_BUFF_SIZE=19), "a micro-op would need 33 bits of 32"),
        (small_config(LOG_UOP_BUFF_SIZE=16), "word 0 of GEMM and ALU would need 65 bits of 64"),
        (small_config(LOG_WGT_BUFF_SIZE=7), r"less than one element of 2\^8 bytes"),
        (small_config(LOG_ACC_BUFF_SIZE=18, LOG_WGT_BUFF_SIZE=16), "word 1 of ALU would need 68"),
        (small_config(LOG_INP_BUFF_SIZE=21, LOG_WGT_BUFF_SIZE=8), "16-bit sram_base"),
    ],
)
def test_machines_that_nobody_could_build(config: dict[str, object], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target.from_vta_config(config)


def test_micro_op_entries_must_be_nameable() -> None:
    with pytest.raises(TargetError, match="uop_entries is 16384"):
        Target.named("sim").replace(uop_entries=16384)


RATES = {
    "latency": 64,
    "clock_mhz": 333.5,
    "inp_beat_limit": None,
    "fetch_ahead": True,
    "fetch_batch": 4,
    "name": 'my "own"',
}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("key", RATES)
def test_rates_print_and_parse(name: str, key: str) -> None:
    target = Target.named(name).replace(**{key: RATES[key]})
    assert getattr(target.timing, key) == RATES[key]
    assert parse(str(target)) == target
    assert Target.from_fields(json.loads(json.dumps(target.fields()))) == target


def test_rates_follow_the_timing_preset_that_they_change() -> None:
    text = '#target.vta<"chisel-pynq", timing = "hls-ultra96-ideal", latency = 64>'
    target = parse(text)
    assert (target.timing.port_bytes, target.timing.latency) == (16, 64)
    assert target.timing.ideal_memory and str(target) == text
    assert str(Target.named("chisel-pynq").replace(latency=64)) == (
        '#target.vta<"chisel-pynq", latency = 64>'
    )


def test_a_feature_that_fetch_must_decode_is_decoded() -> None:
    target = parse('#target.vta<"chisel-pynq", alu_mul = true>')
    assert target.timing.extensions
    assert str(target) == '#target.vta<"chisel-pynq", alu_mul = true>'
    deaf = target.replace(extensions=False)
    assert parse(str(deaf)) == deaf


@pytest.mark.parametrize("preset", PRESETS)
def test_packages_of_former_versions_have_no_rates(preset: str) -> None:
    target = Target.named(preset)
    timing = "hls-pynq" if target.timing.name.startswith("hls") else target.timing.name
    rates = TIMING_FIELDS.keys() - {"queue_depth", "token_depth"}
    old = {key: value for key, value in target.fields().items() if key not in rates}
    del old["shr_sign_of_imm"]
    assert Target.from_fields({**old, "timing": timing}) == target


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_a_machine_in_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"wide.{suffix}"
    changes = {"base": "chisel-pynq", "LOG_BLOCK": 5, "log_acc_buff_size": 16, "port_bytes": 32}
    lines = [f"{key} = {json.dumps(value)}" for key, value in changes.items()]
    path.write_text(json.dumps(changes) if suffix == "json" else "\n".join(lines))
    target = Target.of(path)
    assert (target.block, target.acc_depth, target.timing.port_bytes) == (32, 512, 32)
    assert target.shr_sign_of_imm and target.alu_imm_src and not target.alu_bypass
    assert target.timing.name == "wide" and not target.timing.verified
    assert parse(str(target)) == target
    path.write_text('{"base": "pynq", "latency": -1}' if suffix == "json" else "latency = 3")
    with pytest.raises(TargetError, match=rf"wide\.{suffix}: .*(latency must|LOG_INP_WIDTH)"):
        Target.of(path)


@pytest.mark.parametrize(
    ("name", "preset"),
    [("tsim", "chisel-pynq"), ("chisel-de10", "chisel-de10"), ("zcu104", "ultra96")],
)
def test_a_configuration_of_a_known_machine_keeps_its_rules(name: str, preset: str) -> None:
    config = small_config(TARGET=name)
    target, base = Target.from_vta_config(config), Target.named(preset)
    assert target == base
    assert Target.from_vta_config({**config, "FEATURES": ["alu_mul"]}) == base.replace(
        alu_mul=True, alu_imm_src=False, alu_bypass=False
    )
    again = Target.from_vta_config(target.to_replay_config())
    assert again.shr_sign_of_imm == base.shr_sign_of_imm
    assert again.alu_imm_src == base.alu_imm_src


@pytest.mark.parametrize(
    ("changes", "largest"),
    [
        ({}, 2047),
        ({"log_inp_buff_size": 14}, 1024),
        ({"log_inp_buff_size": 16, "log_acc_buff_size": 16}, 2047),
        ({"log_batch": 1}, 1023),
        ({"port_bytes": 16}, 2048),
        ({"inp_beat_limit": None}, 2048),
    ],
)
def test_loads_stay_below_what_the_machine_may_lose(
    changes: dict[str, object], largest: int
) -> None:
    target = Target.named("chisel-pynq").replace(**changes)
    assert target.largest_load(Memory.INP) == largest
    assert target.largest_load(Memory.ACC) == target.acc_depth


def test_errors_about_machines_are_compile_errors() -> None:
    with pytest.raises(CompileError) as error:
        Target.of("zynq")
    assert isinstance(error.value, TargetError) and len(error.value.problems) == 1


BARE = dict(CONFIG, LOG_BATCH=0, LOG_BLOCK=4)
FAULTS: dict[str, tuple[object, str]] = {
    "LOG_BLOCK": ("4", "must be int, not '4'"),
    "LOG_BATCH": (1.0, "must be int, not 1.0"),
    "LOG_INP_BUFF_SIZE": (None, "must be int, not None"),
    "LOG_WGT_BUFF_SIZE": (True, "must be int, not True"),
    "TARGET": (["sim"], "must be one of sim"),
    "HW_VER": (2, "must be one of 0.0.1"),
    "FEATURES": ("alu_mul", "must be a list"),
}


@settings(deadline=None)
@given(
    faulty=st.sets(st.sampled_from([*FAULTS]), min_size=1),
    small=st.sets(st.sampled_from([*FAULTS])),
    based=st.booleans(),
    suffix=st.sampled_from(["json", "toml"]),
)
def test_all_faults_of_a_file_are_named_with_the_file_and_its_own_keys(
    tmp_path_factory: pytest.TempPathFactory,
    faulty: set[str],
    small: set[str],
    based: bool,
    suffix: str,
) -> None:
    values = {**BARE, **{key: FAULTS[key][0] for key in faulty}}
    if based:
        values = {"base": "pynq", **values}
    if suffix == "toml":
        values = {key: value for key, value in values.items() if value is not None}
        faulty = faulty - {"LOG_INP_BUFF_SIZE"} if based else faulty
    spelled = {
        key.lower() if key in small and key.startswith("LOG") else key: value
        for key, value in values.items()
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in spelled.items()]
    path = tmp_path_factory.mktemp("machine") / f"my.{suffix}"
    path.write_text(json.dumps(spelled) if suffix == "json" else "\n".join(lines))
    if not faulty:
        Target.of(path)
        return
    with pytest.raises(TargetError) as caught:
        Target.of(path)
    found = [str(problem) for problem in caught.value.problems]
    assert all(text.startswith(f"{path}: ") for text in found)
    for key in faulty:
        name = key.lower() if key in small and key.startswith("LOG") else key
        lacks = key == "LOG_INP_BUFF_SIZE" and suffix == "toml"
        wanted = ("vta_config lacks", key) if lacks else (name, FAULTS[key][1])
        assert any(all(part in text for part in wanted) for text in found), (key, found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps(BARE)[:-1] + ', "LOG_BLOCK": 5}', "LOG_BLOCK is given twice"),
        (json.dumps({**BARE, "log_block": 4}), "twice, in capitals and not"),
        (json.dumps({**BARE, "LOG_BLOCK": 40}), r"LOG_BATCH 0, LOG_BLOCK 40"),
        (json.dumps({"base": "pynq", "log_block": -3}), "log_block must not be negative"),
        ('{"base": "pynq", "latency": NaN}', "latency must be int"),
        ('{"base": "pynq", "clock_mhz": Infinity}', "clock_mhz must be a number above 0"),
    ],
)
def test_files_that_contradict_themselves(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "my.json").write_text(text)
    with pytest.raises(TargetError, match=rf"my\.json.*{message}"):
        Target.of(tmp_path / "my.json")


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_pickled_target_is_found_in_another_process(seed: str) -> None:
    """Strings hash differently there, so a hash that was kept must not travel along."""
    target = Target.named("chisel-pynq")
    known = {target: "here"}
    assert known[Target.named("chisel-pynq")] == "here"
    code = (
        "import pickle, sys\n"
        "from vtac.dialects.target import Target\n"
        "target = pickle.load(sys.stdin.buffer)\n"
        "assert {Target.named('chisel-pynq'): 1}.get(target) == 1\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(target),
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
    )
    assert run.returncode == 0, run.stderr.decode()
