"""The target attribute: presets, configurations, text, and what it refuses."""

import json

import pytest
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from vtac.dialects.target import PRESETS, Memory, Target, TargetDialect, TargetError

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
    assert (target.queue_depth, target.token_depth, target.timing) == (512, 1024, "hls-pynq")
    assert target.alu_mul and target.acc_load_int8 and target.alu_bypass and not target.alu_imm_src


def test_chisel_presets_have_fewer_micro_ops_than_the_fields_name() -> None:
    target = Target.named("chisel-de10")
    assert (target.uop_depth, target.uop_entries, target.depth(Memory.UOP)) == (8192, 2048, 2048)
    assert target.token_depth == 255 and target.timing == "chisel-de10"
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
        (small_config(LOG_OUT_WIDTH=3), "unknown keys LOG_OUT_WIDTH"),
        ({"LOG_BLOCK": 4}, "lacks LOG_INP_WIDTH"),
        (small_config(LOG_WGT_WIDTH=2), "must be 3, 3, 5"),
        (small_config(LOG_BLOCK="4"), "log_block must be int"),
        (small_config(LOG_BATCH=-1), "must not be negative"),
        (small_config(LOG_WGT_BUFF_SIZE=19), "a micro-op would need 33 bits of 32"),
        (small_config(LOG_UOP_BUFF_SIZE=16), "word 0 of GEMM and ALU would need 65 bits of 64"),
        (small_config(LOG_WGT_BUFF_SIZE=7), "less than one element of 256 bytes"),
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
