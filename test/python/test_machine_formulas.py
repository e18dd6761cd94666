"""Formulas over the figures of a machine: what they mean, and that they can do nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtac.dialects.errors import CompileError
from vtac.dialects.target import PRESETS, Target
from vtac.tools.explore_machines.figures import DERIVED, MULTIPLIER_BYTES, figures_of
from vtac.tools.explore_machines.formulas import LONGEST, Formula

NAMES = {"a": 3.0, "b": -2.0, "c": 0.5}
NUMBERS = st.integers(0, 99).map(str)


def expressions() -> st.SearchStrategy[str]:
    """Texts of formulas that Python itself evaluates."""

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        operators = st.sampled_from(["+", "-", "*", "<", "<=", "==", "!=", ">", ">=", "and", "or"])
        pairs = st.tuples(inner, operators, inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
        calls = st.tuples(st.sampled_from(["min", "max"]), inner, inner)
        return (
            pairs
            | inner.map(lambda x: f"(-{x})")
            | inner.map(lambda x: f"(not {x})")
            | inner.map(lambda x: f"abs({x})")
            | calls.map(lambda c: f"{c[0]}({c[1]}, {c[2]})")
        )

    return st.recursive(NUMBERS | st.sampled_from(sorted(NAMES)), larger, max_leaves=8)


@given(expressions().filter(lambda text: len(text) <= LONGEST))
def test_formulas_mean_what_python_means(text: str) -> None:
    formula = Formula.parse(text, NAMES, "cost")
    expected = eval(text, {}, dict(NAMES))
    if any(word in text for word in ("and", "or")):  # Python gives an operand, a formula 0 or 1.
        assert math.isfinite(formula.value(NAMES))
    else:
        assert formula.value(NAMES) == pytest.approx(float(expected))
    assert formula.names <= set(NAMES)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7 // 2 + 7 % 4 + 1 / 4", 6.25),
        ("ceil(log2(9)) + sqrt(16)", 8),
        ("1 < a <= 3", 1),
        ("1 < a < 3", 0),
        ("a and b", 1),
        ("0 or not c", 0),
        ("max(a, b, c) - min(a, b, c)", 5),
        ("1e3 * 2", 2000),
    ],
)
def test_values(text: str, value: float) -> None:
    assert Formula.parse(text, NAMES, "cost").value(NAMES) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os').system('true')", "there is no function"),
        ("a.real", "'a.real' is not allowed in a formula"),
        ("a[0]", "is not allowed"),
        ("(lambda: 1)()", "there is no function 'lambda: 1'"),
        ("[a for a in b]", "is not allowed"),
        ("a if b else c", "is not allowed"),
        ("(x := 3)", "is not allowed"),
        ("f'{a}'", "is not allowed"),
        ("2 ** 99999999", "no arithmetic of + - * / // %"),
        ("a << 99", "no arithmetic"),
        ("~a", "no arithmetic"),
        ("'a'", "'a' is no number"),
        ("True", "True is no number"),
        ("1j", "1j is no number"),
        ("a is b", "no comparison of"),
        ("max()", "max takes numbers"),
        ("max(*a)", "max takes numbers"),
        ("log2(a, b)", "log2 takes one number"),
        ("sqrt(a, x=1)", "sqrt takes one number"),
        ("aa + 1", "there is no 'aa'"),
        ("a +", "is no formula: invalid syntax"),
        ("a; b", "is no formula"),
        ("", "is no formula"),
        ("a" * (LONGEST + 1), f"more than {LONGEST} characters"),
        ("\x00", "is no formula"),
    ],
)
def test_texts_that_are_no_formulas(text: str, message: str) -> None:
    with pytest.raises(CompileError) as refused:
        Formula.parse(text, NAMES, "cost")
    assert message in str(refused.value)
    assert all(problem.where == "cost" for problem in refused.value.problems)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(CompileError) as refused:
        Formula.parse("aa + bb * f(c) + 'x'", NAMES, "cost")
    assert len(refused.value.problems) == 4


@given(st.text(alphabet="()-+*/ abcmaxnot,.<=0123456789'[]", max_size=LONGEST))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        formula = Formula.parse(text, NAMES, "cost")
    except CompileError:
        return
    try:
        assert math.isfinite(formula.value(NAMES))
    except (ArithmeticError, ValueError):
        return


@pytest.mark.parametrize("text", ["(" * 150 + "a" + ")" * 149, "-" * (LONGEST - 1) + "a", "1/0"])
def test_deep_texts_and_divisions_by_zero(text: str) -> None:
    try:
        formula = Formula.parse(text, NAMES, "cost")
    except CompileError:
        return
    if text == "1/0":
        with pytest.raises(ArithmeticError):
            formula.value(NAMES)
    else:
        assert abs(formula.value(NAMES)) == NAMES["a"]


@pytest.mark.parametrize("name", PRESETS)
def test_the_figures_of_a_machine(name: str) -> None:
    machine = Target.named(name)
    figures = figures_of(machine)
    assert set(DERIVED) <= set(figures)
    parts = ("uop_bytes", "inp_bytes", "wgt_bytes", "acc_bytes", "out_bytes")
    assert figures["sram_bytes"] == sum(figures[part] for part in parts)
    assert figures["inp_bytes"] == 2 ** figures["log_inp_buff_size"]
    assert figures["out_bytes"] == figures["acc_bytes"] / 4
    assert figures["multipliers"] == machine.batch * machine.block**2
    assert figures["area"] == figures["sram_bytes"] + MULTIPLIER_BYTES * figures["multipliers"]


def test_a_field_without_a_number_gives_no_value() -> None:
    figures = figures_of(Target.named("pynq"))  # its inp_beat_limit is none
    names = [*figures, "inp_beat_limit"]
    with pytest.raises(ValueError, match="no number inp_beat_limit"):
        Formula.parse("inp_beat_limit + 1", names, "cost").value(figures)
