"""Pipelines as values: how they are changed, divided at levels, and written as text."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline

from vtac.dialects.errors import CompileError
from vtac.passes.graph.quantise_options import QuantiseOptions
from vtac.passes.pipeline import Pipeline, Segment, spec_text
from vtac.tools.driver.discovery import OurPasses, chosen_codegens
from vtac.tools.driver.levels import CALIBRATED, Criteria, calibration, part_of, pipeline_of
from vtac.tools.driver.pipelines import built_passes

PIPELINE = Pipeline.of("a,b{n=1}", "first") + Pipeline.of("c") + Pipeline.of("b,d", "second")


def names(pipeline: Pipeline) -> str:
    return " ".join(spec.name for spec in pipeline.passes)


def test_passes_without_a_level_join_the_level_after_them() -> None:
    assert PIPELINE.levels == ("first", "second")
    assert [len(segment.passes) for segment in PIPELINE.segments] == [2, 3]
    assert str(PIPELINE) == "a,b{n=1},c,b,d"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (PIPELINE.replace("first", "x,y"), "x y c b d"),
        (PIPELINE.replace("b", "x,y"), "a x y c x y d"),
        (PIPELINE.replace("c", Pipeline.of("x", "a level that does not matter")), "a b x b d"),
        (PIPELINE.without("b"), "a c d"),
        (PIPELINE.without("second"), "a b"),
        (PIPELINE.before("c", "x"), "a b x c b d"),
        (PIPELINE.before("second", "x"), "a b x c b d"),
        (PIPELINE.after("second", "x"), "a b c b d x"),
        (PIPELINE.after("b", "x"), "a b x c b x d"),
    ],
)
def test_changes_keep_the_levels(changed: Pipeline, expected: str) -> None:
    assert names(changed) == expected
    assert changed.levels == ("first", "second")
    assert names(PIPELINE) == "a b c b d"


def test_options_are_set_on_every_pass_of_the_name() -> None:
    changed = PIPELINE.with_options("b", some_option="x", n=2)
    assert str(changed) == "a,b{n=2 some-option=x},c,b{some-option=x n=2},d"


@pytest.mark.parametrize("change", ["replace", "before", "after"])
def test_unknown_names_are_refused_with_those_that_there_are(change: str) -> None:
    with pytest.raises(CompileError, match=r"or level 'x'\n.*first, second.*a, b, c, d"):
        getattr(PIPELINE, change)("x", "y")


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "l"])), max_size=8))
def test_parts_at_any_level_make_the_whole(parts: Sequence[tuple[str, str]]) -> None:
    pipeline = Pipeline()
    for number, (name, level) in enumerate(parts):
        pipeline += Pipeline.of(name, level and f"{level}{number}")
    assert names(pipeline) == " ".join(name for name, _ in parts)
    for level in pipeline.levels:
        assert pipeline.until(level) + pipeline.since(level) == pipeline
        assert pipeline.until(level).levels[-1] == level
    with pytest.raises(CompileError, match="no level 'absent'"):
        pipeline.since("absent")


VALUES = (
    st.text(st.characters(codec="ascii", exclude_categories=["Cc"]))
    | st.integers()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
)


@given(st.dictionaries(st.from_regex(r"[a-z]{2}(-[a-z]{2})?", fullmatch=True), st.lists(VALUES)))
def test_text_is_read_as_the_same_pass(options: dict[str, list[str | int | bool | float]]) -> None:
    spec = ArgSpec("name", {name: tuple(values) for name, values in options.items()})
    (again,) = parse_pipeline(spec_text(spec))
    assert again == spec
    for name, values in spec.parameters.items():  # 1 == True == 1.0
        assert list(map(type, again.parameters[name])) == list(map(type, values))


@pytest.mark.parametrize("seed", range(10))
def test_any_options_lead_to_a_pipeline_whose_text_is_the_pipeline(seed: int) -> None:
    numbers = random.Random(seed)
    criteria = Criteria(
        max_ops=numbers.choice([None, 3]),
        min_macs=numbers.choice([0, 1000]),
        compare=numbers.choice([True, False]),
        host=numbers.choice([{}, {"cycles_a_launch": 1.5e-9}]),
    )
    options = QuantiseOptions(numbers.choice(["auto", "block"]), numbers.choice(["auto", "exact"]))
    calibrate = numbers.choice([None, calibration('a "b"/c.npz', method="percentile")])
    pipeline = pipeline_of(chosen_codegens(), criteria, options, calibrate)
    again = Pipeline.of(str(pipeline))
    assert again.passes == pipeline.passes
    assert built_passes(again.passes, OurPasses()) == built_passes(pipeline.passes, OurPasses())
    assert (CALIBRATED in pipeline.levels) == (calibrate is not None)


def test_a_part_begins_after_one_level_and_ends_with_another() -> None:
    pipeline = pipeline_of(chosen_codegens(), calibrate=calibration("x.npz"))
    assert part_of(pipeline, "imported", None) == pipeline
    assert part_of(pipeline, "te", "vta").levels == ("loops", "vta")
    with pytest.raises(CompileError, match="no level 'te'"):
        part_of(pipeline, "loops", "te")


def test_an_empty_pipeline_has_no_passes() -> None:
    assert not Pipeline() and not Pipeline().passes and str(Pipeline()) == ""
    assert Pipeline().reaching("here") == Pipeline((Segment((), "here"),))
