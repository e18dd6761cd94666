"""``vta-opt --verify-roundtrip`` refuses a module that its own text does not bring back."""

from pathlib import Path

import pytest
from xdsl.printer import Printer

from vtac.dialects import te
from vtac.dialects.errors import CompileError
from vtac.tools.commands.parsers.vta_opt import argument_parser
from vtac.tools.commands.vta_opt import VtaOpt

SPAN = "%0, %1 = te.span [4 : 2]"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "span.mlir"
    path.write_text(SPAN)
    return str(path)


def refusal(file: str) -> str:
    with pytest.raises(CompileError) as caught:
        VtaOpt(argument_parser().parse_args([file, "--verify-roundtrip"])).run()
    (problem,) = caught.value.problems
    return str(problem)


def test_what_comes_back_is_printed(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    VtaOpt(argument_parser().parse_args([file, "--verify-roundtrip"])).run()
    assert SPAN in capsys.readouterr().out


def test_a_form_that_loses_something(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def print_less(self: te.SpanOp, printer: Printer) -> None:
        printer.print_string(" [4 : 1]")

    monkeypatch.setattr(te.SpanOp, "print", print_less)
    message = refusal(file)
    assert f"{file} (its custom form): error: it is another module when parsed again" in message
    assert "-  " in message and "extra = 2" in message.partition("\n+")[0]
    assert "extra = 1" in message.partition("\n  +")[2]


def test_a_form_that_is_no_text_of_the_dialect(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def print_wrong(self: te.SpanOp, printer: Printer) -> None:
        printer.print_string(" 4 to 2")

    monkeypatch.setattr(te.SpanOp, "print", print_wrong)
    message = refusal(file)
    assert message.startswith(f"{file} (its custom form):")
    assert "4 to 2" in message
