"""Pages that a command writes are what it would write today."""

from by_path import load

operators = load("docs/operators.py")
schedules = load("docs/schedules.py")


def test_the_page_on_schedules_is_up_to_date() -> None:
    assert schedules.PAGE.read_text() == schedules.page(), "make docs"
    assert schedules.KERNEL.read_text() == schedules.kernel_file(), "make docs"


def test_the_table_of_operators_is_up_to_date() -> None:
    assert operators.PAGE.read_text() == operators.page(), "make docs"


def test_reasons_of_operators_are_those_of_the_code() -> None:
    rows = {name: operators.row_of(name, made) for name, made in operators.CONVERTERS.items()}
    assert rows["Relu"].where == rows["Gemm"].where == "accelerator"
    assert rows["Identity"].where == "nowhere"
    # Of the converter, of what it calls, of the quantiser, of a predicate of the codegen.
    assert "the indices of the maxima are used" in rows["MaxPool"].reasons
    assert "its explicit pads are as wide as its kernel" in rows["MaxPool"].reasons
    assert "a window lies wholly in the padding" in rows["MaxPool"].reasons
    assert "a window lies wholly in the padding" not in rows["Conv"].reasons
    assert "its weights are not constant" in rows["Conv"].reasons
    assert any("moves channels" in reason for reason in rows["Reshape"].reasons)
