"""The verifier of `test/support` finds what an ordinary one finds, though it looks at less."""

import pytest
from verifier import Verifier
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    Builtin,
    FunctionType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    i32,
    i64,
)
from xdsl.dialects.func import Func, FuncOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

TEXT = """
func.func @caller(%x : i32) {
  func.call @callee(%x) : (i32) -> ()
  func.return
}
func.func private @callee(i32)
func.func @other() {
  func.return
}
"""


def verified() -> tuple[ModuleOp, Verifier, dict[str, FuncOp]]:
    ctx = Context()
    for dialect in (Builtin, Func):
        ctx.load_dialect(dialect)
    module, verifier = Parser(ctx, TEXT).parse_module(), Verifier()
    verifier.verify(module)
    return module, verifier, {op.sym_name.data: op for op in module.ops}


def test_only_what_has_changed_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    module, verifier, functions = verified()
    looked_at: list[Operation] = []
    monkeypatch.setattr(FuncOp, "verify", lambda op: looked_at.append(op))
    verifier.verify(module)
    assert looked_at == []
    functions["other"].body.block.last_op.attributes["a"] = i32
    verifier.verify(module)
    assert looked_at == [functions["other"]]
    functions["callee"].attributes["a"] = i32
    verifier.verify(module)
    assert looked_at[1:] == [functions["caller"], functions["callee"]]


def test_users_of_a_symbol_are_looked_at() -> None:
    module, verifier, functions = verified()
    functions["callee"].properties["function_type"] = FunctionType.from_lists([i64], [])
    with pytest.raises(VerifyException, match=r"func\.call"):
        verifier.verify(module)


def test_a_symbol_that_is_gone_is_missed() -> None:
    module, verifier, functions = verified()
    functions["callee"].detach()
    functions["callee"].erase()
    with pytest.raises(VerifyException, match=r"func\.call"):
        verifier.verify(module)
    with pytest.raises(VerifyException, match=r"func\.call"):
        verifier.verify(module)


def test_a_symbol_that_has_another_name_is_missed() -> None:
    module, verifier, functions = verified()
    functions["callee"].properties["sym_name"] = StringAttr("renamed")
    with pytest.raises(VerifyException, match=r"func\.call"):
        verifier.verify(module)


def test_symbols_are_found_in_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    module, verifier, functions = verified()
    functions["other"].attributes["uses"] = ArrayAttr([SymbolRefAttr("callee")])
    verifier.verify(module)
    looked_at: list[Operation] = []
    monkeypatch.setattr(FuncOp, "verify", lambda op: looked_at.append(op))
    functions["callee"].attributes["a"] = i32
    verifier.verify(module)
    assert looked_at == list(functions.values())


def test_all_is_looked_at_when_the_module_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its target is one of its attributes."""
    module, verifier, functions = verified()
    looked_at: list[Operation] = []
    monkeypatch.setattr(FuncOp, "verify", lambda op: looked_at.append(op))
    module.attributes["a"] = i32
    verifier.verify(module)
    assert looked_at == list(functions.values())


def test_changes_deep_inside_are_seen() -> None:
    module, verifier, functions = verified()
    call, _ = functions["caller"].body.block.ops
    call.operands = []
    with pytest.raises(VerifyException):
        verifier.verify(module)
