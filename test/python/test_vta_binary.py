"""Words to operations and back, on golden streams and on a program with names."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from vta_runner import context, finish_program
from xdsl.parser import Parser
from xdsl.printer import Printer

from vtac.dialects.target import Target
from vtac.dialects.vta import ProgramOp
from vtac.dialects.vta.encoding import EncodingError
from vtac.dialects.vta.program import BinaryProgram
from vtac.lowering.vta_to_binary import decode_program, encode_program

PROGRAM = """
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  vta.buffer @w constant bytes 1024 align 256 value #vtac.resource<"w", "0123456789abcdef">
  vta.buffer @c constant bytes 64 align 256 value dense<3> : tensor<1x16xi32>
  vta.buffer @y output index 0 bytes 1024 align 256
  %b = vta.alloc site 0 slots 1 size 64 : !vta.sram<inp>
  %w = vta.alloc site 1 slots 1 size 4 : !vta.sram<wgt>
  %a = vta.alloc site 2 slots 1 size 64 : !vta.sram<acc>
  %c = vta.alloc site 3 slots 1 size 1 : !vta.sram<acc>
  vta.load inp %b sram 0 from @x dram 0 size [1, 64] stride 64 loc("conv")
  vta.load wgt %w sram 0 from @w dram 0 size [1, 4] stride 4 loc("conv")
  vta.load acc %c sram 0 from @c dram 0 size [1, 1] stride 1 loc("bias")
  vta.gemm reset %a micro_ops <[0, 0, 0]> loops [1, 64] dst [0, 1] loc("conv")
  vta.gemm %a, %b, %w micro_ops <[0, 0, 0] times 3 by [0, 0, 1]> loops [1, 64] dst [0, 1] src [0, 1]
  vta.alu add %a, %c micro_ops <[0, 0, 0]> loops [1, 64] dst [0, 1]
  vta.alu shr %a imm 3 micro_ops <[0, 0, 0]> loops [1, 64] dst [0, 1] src [0, 1]
  vta.store %a sram 0 to @y dram 0 size [1, 64] stride 64
  vta.finish
}
"""


def program() -> ProgramOp:
    module = Parser(context(), PROGRAM).parse_module()
    (found,) = module.body.block.ops
    assert isinstance(found, ProgramOp)
    return found


def text(op: ProgramOp) -> str:
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(op)
    return stream.getvalue()


def test_names_and_layers_survive() -> None:
    lowered = program()
    binary = finish_program(lowered)
    assert text(decode_program(binary)) == text(lowered)
    assert 'loc("conv")' in text(lowered)
    assert [buffer.name for buffer in binary.buffers] == ["x", "w", "c", "y", "uops"]


def test_relocation_adds_addresses() -> None:
    binary = finish_program(program())
    addresses = binary.place()
    bare = decode_program(replace(binary, relocations=(), insns=binary.relocate(addresses)))
    bases = [op.dram_base.value.data for op in bare.instructions() if hasattr(op, "dram_base")]
    sizes = {"uops": 4, "x": 16, "w": 256, "c": 64, "y": 16}
    assert bases == [addresses[name] // sizes[name] for _, name in binary.relocations]
    with pytest.raises(ValueError, match="cannot lie at 100"):
        binary.relocate({**addresses, "x": 100})


def test_reserved_bits_are_refused() -> None:
    binary = finish_program(program())
    broken = binary.insns.copy()
    broken[-1, 1] = 1
    with pytest.raises(EncodingError, match="reserved"):
        decode_program(replace(binary, insns=broken))


def test_golden_streams_survive(shared: Path) -> None:
    paths = sorted((shared / "golden").glob("*/*.npz"))
    assert paths
    for path in paths:
        with np.load(path) as golden:
            target = Target.from_vta_config(
                json.loads(str(golden["config"])), alu_mul=True, acc_load_int8=True
            )
            words = golden["insns"]
        binary = BinaryProgram("golden", target, words, (), ())
        decoded = decode_program(binary)
        decoded.verify()
        assert np.array_equal(encode_program(decoded).insns, words.reshape(-1, 2))
