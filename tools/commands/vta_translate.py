"""``vta-translate``: translates one representation to another without passes.

It translates ONNX to graph IR, vta IR to words, words to vta IR, and words to a listing; modelled
on mlir-translate. Each translation imports what only it needs, so that all start quickly.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from enum import Enum

from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.dialects.vta import ProgramOp
from vtac.dialects.vta.assembly import disassemble
from vtac.dialects.vta.encoding import EncodingError, Instruction, decode
from vtac.lowering.vta_to_binary import decode_program, encode_program
from vtac.runtime.atomic import read_whole, write_whole
from vtac.tools.commands.diagnostics import run_command
from vtac.tools.commands.parsers.shapes import parse_shapes
from vtac.tools.commands.parsers.vta_translate import argument_parser, verify
from vtac.tools.commands.positions import Positions, parse_module, verify_module
from vtac.tools.driver.discovery import load_dialects
from vtac.tools.files.ir_files import load_resources_beside, module_text, print_ir, write_ir


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _translate(argument_parser().parse_args(args)), "vta-translate")


def _translate(args: argparse.Namespace) -> None:
    verify(args)
    actions = {"import": _import, "encode": _encode, "decode": _decode, "disassemble": _disassemble}
    actions[args.action](args)
    if args.verbose:
        print(f"vta-translate: {args.input} -> {args.output or 'stdout'}", file=sys.stderr)


def _context() -> VtacContext:
    ctx = VtacContext()
    load_dialects(ctx)
    return ctx


def _import(args: argparse.Namespace) -> None:
    from vtac.lowering.onnx_to_graph import import_model

    ctx = _context()
    module = import_model(args.input, ctx, shapes=parse_shapes(args.shape))
    _write_ir(args.output, module, ctx)


def _encode(args: argparse.Namespace) -> None:
    from vtac.tools.files.program_files import write_program

    if args.output is None:
        raise CompileError(Problem("", "words are not text: say where to write them, with -o"))
    ctx = _context()
    positions = Positions(args.input)
    load_resources_beside(ctx, args.input)
    try:
        text = read_whole(args.input).decode()
    except UnicodeDecodeError:
        raise CompileError(Problem(args.input, "is not text in UTF-8")) from None
    module = parse_module(ctx, text, positions)
    verify_module(module, positions)
    programs = {op.sym_name.data: op for op in module.walk() if isinstance(op, ProgramOp)}
    name = args.function or next(iter(programs), "")
    if name not in programs or (args.function is None and len(programs) > 1):
        known = ", ".join(programs) or "none"
        raise CompileError(
            Problem(args.input, f"its programs are: {known}", "Choose with --function.")
        )
    write_program(args.output, encode_program(programs[name]), ctx.resources)


def _decode(args: argparse.Namespace) -> None:
    from vtac.tools.files.program_files import read_program

    ctx = _context()
    program, resources = read_program(args.input, _target(args), args.function)
    for name, array in resources.items():
        ctx.resources.add(array, name)
    try:
        op = decode_program(program)
    except EncodingError as error:
        raise CompileError(Problem(args.input, str(error))) from None
    _write_ir(args.output, ModuleOp([op]), ctx)


def _disassemble(args: argparse.Namespace) -> None:
    from vtac.tools.files.program_files import read_program

    program, _ = read_program(args.input, _target(args), args.function)
    try:
        instructions = decode(program.target, program.insns)
    except EncodingError as error:
        raise CompileError(Problem(args.input, str(error))) from None
    buffers = dict(program.relocations)
    lister = _json_listing if args.json else _text_listing
    text = lister(instructions, buffers)
    if args.output:
        write_whole(args.output, text.encode())
    else:
        sys.stdout.write(text)


def _text_listing(instructions: Sequence[Instruction], buffers: Mapping[int, str]) -> str:
    """One line per instruction; buffers: the names of those that the transfers name."""
    width = len(str(len(instructions)))
    lines = [
        f"{index:{width}}  {disassemble(instruction)}"
        + (f"  ; @{buffers[index]}" if index in buffers else "")
        for index, instruction in enumerate(instructions)
    ]
    return "".join(f"{line}\n" for line in lines)


def _json_listing(instructions: Sequence[Instruction], buffers: Mapping[int, str]) -> str:
    """One object per instruction, with its fields by name."""
    listed = [
        {
            "index": index,
            "text": disassemble(instruction),
            "opcode": type(instruction).__name__.lower(),
            "buffer": buffers.get(index),
            "fields": {
                field.name: _plain(getattr(instruction, field.name))
                for field in dataclasses.fields(instruction)
            },
        }
        for index, instruction in enumerate(instructions)
    ]
    return json.dumps(listed, indent=2) + "\n"


def _plain(value: object) -> object:
    return value.name.lower() if isinstance(value, Enum) else value


def _target(args: argparse.Namespace) -> Target | None:
    return Target.of(args.target) if args.target else None


def _write_ir(output: str | None, module: ModuleOp, ctx: VtacContext) -> None:
    if output:
        write_ir(output, module_text(module), module, ctx)
    else:
        print_ir(module_text(module), module, ctx, "vta-translate")
