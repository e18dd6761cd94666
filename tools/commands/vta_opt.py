"""``vta-opt``: reads IR (or an ONNX model), runs passes, prints IR.

It works like xDSL's driver, with our context, dialects and passes. Large constants lie in an
``.npz`` beside the text, and errors name a place in the file instead of printing a traceback.
xDSL's own driver looks for plug-ins of other packages, which takes longer than most passes; here
everything is imported when it is needed.
"""

import argparse
import dataclasses
import io
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer
from xdsl.transforms import get_all_passes
from xdsl.utils.exceptions import DiagnosticException, ParseError

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TARGET_ATTRIBUTE, machine_of
from vtac.passes.pipeline import Pipeline
from vtac.runtime.atomic import read_whole
from vtac.tools.commands.diagnostics import USER_ERRORS, problems_of, run_command
from vtac.tools.commands.parsers.tuning import tuning_files
from vtac.tools.commands.parsers.vta_opt import MLIR, ONNX, SEPARATOR, argument_parser, verify
from vtac.tools.commands.positions import Positions, parse_module, verify_module
from vtac.tools.commands.progress import Step, shown_steps
from vtac.tools.commands.round_trip import verify_round_trip
from vtac.tools.driver.discovery import OurPasses, load_dialects, our_codegens
from vtac.tools.driver.pipelines import built_passes, describe_passes, listed_passes
from vtac.tools.files.ir_files import (
    load_observations_beside,
    load_resources_beside,
    module_text,
    note_lost_constants,
    observations_file,
    print_ir,
    write_ir,
)

if TYPE_CHECKING:
    from vtac.tools.tune.lookup import Tuning


class VtaOpt:
    """One call of the command."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self._seconds: list[dict[str, str | float]] = []
        verify(self.args)
        self.ctx = VtacContext(codegens=our_codegens)
        load_dialects(self.ctx)
        self.ctx.allow_unregistered = self.args.allow_unregistered_dialect
        self.file: str = self.args.input_file or "stdin"
        self.machine = machine_of(self.args.target) if self.args.target else None
        self.positions = Positions(self.file)
        self.passes = built_passes(self._pipeline().passes, get_all_passes(), OurPasses())
        self.recorded = self._recorded()
        self.ctx.schedules = self.recorded

    def _recorded(self) -> "Tuning | None":
        """Recorded schedules, those that vta-compile would use: a level ends in the same program.

        They are looked for only if a pass can ask for them.
        """
        if not any(found.name == "te-schedule" for found in self.passes):
            return None
        from vtac.tools.tune.lookup import recorded_schedules

        return recorded_schedules(tuning_files(self.args))

    def _pipeline(self) -> Pipeline:
        """The passes of ``-p``, or those between two levels of the default pipeline."""
        args = self.args
        if args.start is None and args.end is None:
            if args.calibrate:
                hint = "Say --from LEVEL, or -p calibrate{samples=...}."
                raise CompileError(Problem("--calibrate", "belongs to the default pipeline", hint))
            return Pipeline.of(args.passes or "")
        if args.passes:
            raise CompileError(Problem("--from, --to", "are instead of --passes, not beside it"))
        from vtac.tools.driver.discovery import chosen_codegens
        from vtac.tools.driver.levels import default_part

        return default_part(chosen_codegens(), args.start, args.end, args.calibrate)

    def run(self) -> None:
        """Read the input, run the passes, print; each part of a split input separately.

        Raises `CompileError` with everything that went wrong; then no file has been written.
        """
        kind = self.args.frontend or self._kind()
        failures: list[Problem] = []
        outputs: list[str] = []
        whole = ModuleOp([])  # all parts, for the constants that belong to the output
        with self._shown_steps() as step:
            for data, offset in self._parts(kind):
                self.positions = Positions(self.file, offset)
                try:
                    module = self._parse(data, kind)
                    self._prepare(module)
                    self._apply(module, step)
                    outputs.append(self._text(module))
                    whole.body.block.add_op(module)
                except USER_ERRORS as error:
                    outputs.append(self._refusal(error, failures))
        if self.args.time_passes and self.args.json:
            print(json.dumps(self._seconds, indent=2), file=sys.stderr)
        if failures:
            raise CompileError(failures)
        self._note_unused_records()
        self._write(f"{SEPARATOR}\n".join(outputs), whole)

    def _shown_steps(self) -> AbstractContextManager[Step]:
        """A callback that shows the pass that runs, on terminals where nothing else is printed."""
        args = self.args
        printed = args.verbose or args.print_between_passes or args.time_passes
        return shown_steps(quiet=args.quiet or printed or not args.input_file, verbose=False)

    def _kind(self) -> str:
        kind = Path(self.args.input_file or "stdin.mlir").suffix.removeprefix(".")
        if kind not in (MLIR, ONNX):
            known = f".{MLIR}, .{ONNX}"
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
            # Importing onnx takes longer than most passes run, so it waits until there is a model.
            from vtac.lowering.onnx_to_graph import import_model

            return import_model(self.args.input_file or data, self.ctx)
        if self.args.input_file:
            load_resources_beside(self.ctx, self.args.input_file)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise CompileError(Problem(self.file, "is not text in UTF-8")) from None
        try:
            module = parse_module(self.ctx, text, self.positions, not self.args.no_implicit_module)
        except ParseError as error:
            error.span = dataclasses.replace(error.span, line_offset=self.positions.offset)
            raise
        if self.args.input_file:
            load_observations_beside(self.ctx, self.args.input_file, module)
        self._note_lost_observations(module)
        return module

    def _note_lost_observations(self, module: ModuleOp) -> None:
        """Say that a calibrated network is about to be quantised without its observations."""
        quantises = any(found.name == "quantize" for found in self.passes)
        if self.args.quiet or not quantises or self.ctx.observations is not None:
            return
        from vtac.dialects.graph.value_names import VALUE_NAMES_ATTRIBUTE

        if any(VALUE_NAMES_ATTRIBUTE in op.attributes for op in module.walk()):
            print(
                f"vta-opt: note: the observations of this network are not beside it, in"
                f" {observations_file(self.file)}: they will not correct its biases",
                file=sys.stderr,
            )

    def _note_unused_records(self) -> None:
        """Say which records could not be used, and let go of the files."""
        if self.recorded is None:
            return
        for note in () if self.args.quiet else self.recorded.notes:
            print(f"vta-opt: note: {note}", file=sys.stderr)
        self.recorded.close()

    def _prepare(self, module: ModuleOp) -> None:
        if self.machine is not None:
            module.attributes[TARGET_ATTRIBUTE] = self.machine
        self._verify(module)
        if self.args.verify_roundtrip:
            verify_round_trip(module, self.ctx, self.file)

    def _verify(self, module: ModuleOp, after: str = "") -> None:
        if not self.args.disable_verify:
            verify_module(module, self.positions, after)

    def _apply(self, module: ModuleOp, step: Step) -> None:
        for number, found in enumerate(self.passes, 1):
            started = time.perf_counter()
            step(str(found))
            if self.args.verbose:
                print(f"vta-opt: {found}", file=sys.stderr)
            try:
                found.apply(self.ctx, module)
            except DiagnosticException as error:
                where = self.positions.file
                raise CompileError(
                    Problem(where, f"error: pass '{found.name}': {str(error).strip()}")
                ) from None
            seconds = time.perf_counter() - started
            if self.args.time_passes and not self.args.json:
                print(f"{seconds:9.4f} s  {found}", file=sys.stderr)
            self._seconds.append({"pass": str(found), "seconds": seconds})
            self._verify(module, f"pass '{found.name}'")
            if self.args.print_between_passes and number < len(self.passes):
                print(f"// IR after {found}:\n{module_text(module)}")

    def _refusal(self, error: BaseException, failures: list[Problem]) -> str:
        """The output for a part that failed: its errors if asked for, else they are failures."""
        syntax = isinstance(error, ParseError)
        wished = self.args.parsing_diagnostics if syntax else self.args.verify_diagnostics
        if not wished:
            failures.extend(problems_of(error))
            return ""
        return "".join(f"{problem}\n" for problem in problems_of(error))

    def _text(self, module: ModuleOp) -> str:
        """The module as text, in the form that the options ask for."""
        kind: type[Printer] = Printer
        if self.args.syntax_highlight:
            from xdsl.syntax_printer import SyntaxPrinter

            kind = SyntaxPrinter
        stream = io.StringIO()
        printer = kind(
            stream,
            print_generic_format=self.args.print_op_generic,
            print_properties_as_attributes=self.args.print_no_properties,
            print_debuginfo=self.args.print_debuginfo,
        )
        printer.print_op(module)
        printer.print_metadata(self.ctx.loaded_dialects)
        return f"{stream.getvalue()}\n"

    def _write(self, text: str, module: ModuleOp) -> None:
        if self.args.output_file is None:
            print_ir(text, module, self.ctx, "vta-opt")
        else:
            write_ir(self.args.output_file, text, module, self.ctx)
            note_lost_constants(module, self.ctx, "vta-opt")


def _list_passes(*, as_json: bool) -> None:
    from vtac.tools.driver.discovery import our_passes

    passes = our_passes()
    print(json.dumps(listed_passes(passes), indent=2) if as_json else describe_passes(passes))


def _run(args: argparse.Namespace) -> None:
    if args.json and not (args.list_passes or args.time_passes):
        raise CompileError(Problem("--json", "belongs to --list-passes or --time-passes"))
    if args.list_passes:
        _list_passes(as_json=args.json)
    else:
        VtaOpt(args).run()


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _run(argument_parser().parse_args(args)), "vta-opt")
