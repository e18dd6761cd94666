"""``vta-opt``: reads IR (or an ONNX model), runs passes, prints IR.

xDSL's driver with our context, dialects and passes; large constants in an ``.npz`` beside the text;
and diagnostics with a place instead of tracebacks.
"""

import argparse
import dataclasses
import io
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.tools.command_line_tool import CommandLineTool
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.runtime.atomic import read_whole
from vtac.tools.diagnostics import USER_ERRORS, ArgumentParser, problems_of, run_command
from vtac.tools.discovery import OurPasses, load_dialects, our_codegens, our_passes
from vtac.tools.ir_files import load_resources_beside, module_text, write_ir
from vtac.tools.pipelines import describe_passes, parse_passes
from vtac.tools.positions import Positions, parse_module, verify_module

SEPARATOR = "// -----"
ONNX = "onnx"


class _ListPasses(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print("\n".join(sorted(self.const)))
        parser.exit()


class _Parser(ArgumentParser):
    """Our passes stand below the options."""

    def format_help(self) -> str:
        self.epilog = f"passes of vtac:\n{describe_passes(our_passes())}"
        return super().format_help()


class VtaOptMain(xDSLOptMain):
    """xDSL's driver with our context, dialects and passes."""

    ctx: VtacContext

    def __init__(self, args: Sequence[str] | None = None) -> None:
        self.available_frontends = {}
        self.available_passes = {}
        self.available_targets = {}
        self.ctx = VtacContext(codegens=our_codegens())
        load_dialects(self.ctx)
        self.register_all_frontends()  # type: ignore[no-untyped-call]
        self.available_frontends[ONNX] = self._import_stream
        self.register_all_passes()  # type: ignore[no-untyped-call]
        self.register_all_targets()  # type: ignore[no-untyped-call]
        parser = _Parser(
            prog="vta-opt",
            description="Run passes over IR, or over an ONNX model, and print the IR.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.register_all_arguments(parser)
        self.args = parser.parse_args(args)
        self.file: str = self.args.input_file or "stdin"
        self.args.target = "mlir"  # the name xDSL has for the format it prints
        self.ctx.allow_unregistered = self.args.allow_unregistered_dialect
        self.machine = Target.of(self.args.machine) if self.args.machine else None
        self.positions = Positions(self.file)
        self.passes = parse_passes(self.args.passes, self.available_passes, OurPasses())

    def _import_stream(self, stream: IO[bytes]) -> ModuleOp:
        return self._import(stream.read())

    def _import(self, source: str | bytes) -> ModuleOp:
        # Importing onnx takes longer than most runs of a pass: only where there is a model.
        from vtac.lowering.onnx_to_graph import import_model

        return import_model(source, self.ctx)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        """xDSL's options for input and printing, our --target, and what to show of the passes."""
        CommandLineTool.register_all_arguments(self, arg_parser)
        add = arg_parser.add_argument
        add("-p", "--passes", default="", help="passes in order: NAME,NAME{option=value},...")
        add("-o", "--output-file", help="where to write; large constants go to FILE.npz")
        add(
            "--target",
            dest="machine",
            metavar="TARGET",
            help="set vtac.target: the name of a preset, or a vta_config.json",
        )
        add("--print-between-passes", action="store_true", help="print the IR after each pass")
        add("--time-passes", action="store_true", help="print the seconds of each pass (to stderr)")
        add(
            "--split-input-file",
            action="store_true",
            help=f"take the parts between lines of '{SEPARATOR}' one by one",
        )
        add(
            "--verify-diagnostics",
            action="store_true",
            help="print refusals of verifiers and passes, and exit with 0",
        )
        add(
            "--parsing-diagnostics",
            action="store_true",
            help="print errors of the parser, and exit with 0",
        )
        add("--print-op-generic", action="store_true", help="print ops in their generic form")
        add("--print-no-properties", action="store_true", help="print properties as attributes")
        add("--print-debuginfo", action="store_true", help="print locations")
        add("--syntax-highlight", action="store_true", help="print in colours")
        add(
            "--list-xdsl-passes",
            action=_ListPasses,
            nargs=0,
            const=sorted(self.available_passes),
            help="print the names of xDSL's own passes, which can be used as well",
        )

    def run(self) -> None:
        """Read, run the passes, print; each part of a split input by itself.

        Raises `CompileError` with all that went wrong, after nothing has been written to a file.
        """
        kind = self.args.frontend or self._kind()
        failures: list[Problem] = []
        outputs: list[str] = []
        module = ModuleOp([])
        for data, offset in self._parts(kind):
            self.positions = Positions(self.file, offset)
            try:
                module = self._parse(data, kind)
                self._prepare(module)
                self._apply(module)
                text = self.output_resulting_program(module)
                outputs.append(text.rstrip("\n") + "\n")
            except USER_ERRORS as error:
                outputs.append(self._refusal(error, failures))
        if failures:
            raise CompileError(failures)
        self._write(f"{SEPARATOR}\n".join(outputs), module)

    def _kind(self) -> str:
        kind = Path(self.args.input_file or "stdin.mlir").suffix.removeprefix(".")
        if kind not in self.available_frontends:
            known = ", ".join(f".{name}" for name in sorted(self.available_frontends))
            raise CompileError(Problem(self.file, f"is of an unknown kind, not one of {known}"))
        return kind

    def _parts(self, kind: str) -> list[tuple[bytes, int]]:
        """The input, or its parts, each with the number of lines before it."""
        file = self.args.input_file
        data = read_whole(file) if file else sys.stdin.buffer.read()
        if not self.args.split_input_file or kind == ONNX:
            return [(data, 0)]
        parts, offset = [], 0
        for part in data.split(SEPARATOR.encode()):
            parts.append((part, offset))
            offset += part.count(b"\n")
        return parts

    def _parse(self, data: bytes, kind: str) -> ModuleOp:
        if kind == ONNX:
            return self._import(self.args.input_file or data)
        if kind != "mlir":
            parsed = self.parse_chunk(io.BytesIO(data), kind)
            return cast(ModuleOp, parsed)
        if self.args.input_file:
            load_resources_beside(self.ctx, self.args.input_file)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise CompileError(Problem(self.file, "is not text in UTF-8")) from None
        try:
            return parse_module(self.ctx, text, self.positions, not self.args.no_implicit_module)
        except ParseError as error:
            error.span = dataclasses.replace(error.span, line_offset=self.positions.offset)
            raise

    def _prepare(self, module: ModuleOp) -> None:
        if self.machine is not None:
            module.attributes[TARGET_ATTRIBUTE] = self.machine
        self._verify(module)

    def _verify(self, module: ModuleOp, after: str = "") -> None:
        if not self.args.disable_verify:
            verify_module(module, self.positions, after)

    def _apply(self, module: ModuleOp) -> None:
        for number, found in enumerate(self.passes, 1):
            started = time.perf_counter()
            try:
                found.apply(self.ctx, module)
            except DiagnosticException as error:
                where = self.positions.file
                raise CompileError(
                    Problem(where, f"error: pass '{found.name}': {str(error).strip()}")
                ) from None
            if self.args.time_passes:
                print(f"{time.perf_counter() - started:9.4f} s  {found}", file=sys.stderr)
            self._verify(module, f"pass '{found.name}'")
            if self.args.print_between_passes and number < len(self.passes):
                print(f"// IR after {found}:\n{module_text(module)}")

    def _refusal(self, error: BaseException, failures: list[Problem]) -> str:
        """What is printed for a part that failed; unless that was wished for, it is a failure."""
        syntax = isinstance(error, ParseError)
        wished = self.args.parsing_diagnostics if syntax else self.args.verify_diagnostics
        if not wished:
            failures.extend(problems_of(error))
            return ""
        return "".join(f"{problem}\n" for problem in problems_of(error))

    def _write(self, text: str, module: ModuleOp) -> None:
        if self.args.output_file is None:
            sys.stdout.write(text)
        else:
            write_ir(self.args.output_file, text, module, self.ctx)


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: VtaOptMain(args).run(), "vta-opt")
