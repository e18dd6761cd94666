"""Knobs and points: sizes, directions, neighbours, and points as text."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_knobs import VALUES, WORDS, random_knobs

from vtac.dialects.te import Knob, KnobKind, Knobs, Point, parse_point, point_text


@given(st.dictionaries(WORDS, VALUES, max_size=5))
def test_points_are_read_back(point: Point) -> None:
    text = point_text(point)
    read = parse_point(text)
    assert read == point
    assert all(type(read[name]) is type(value) for name, value in point.items())
    assert point_text(dict(reversed(list(point.items())))) == text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a", "not of the form KNOB=VALUE"),
        ("a=", "not of the form KNOB=VALUE"),
        ("=1", "not of the form KNOB=VALUE"),
        ("a=1,,2", "not of the form KNOB=VALUE,VALUE"),
        ("a=1,2,", "not of the form KNOB=VALUE,VALUE"),
        ("a=1,x", "mixes numbers and words"),
        ("a=1,true", "mixes numbers and words"),
        ("a=1 a=2", "knob 'a' has two values"),
        ("true=1", "'true' is not the name of a knob"),
        ("a=1e5", "no value that a knob could have"),
        ("a=__import__('os')", "no value that a knob could have"),
        ('a="x', "not of the form"),
        (f"a={10**30}", "no value"),
    ],
)
def test_what_is_no_point_is_refused(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse_point(text)


@given(random_knobs(), st.randoms(use_true_random=False))
def test_every_point_is_in_the_space_once(space: Knobs, random: Random) -> None:
    points = list(space.points())
    assert len({repr(sorted(point.items())) for point in points}) == len(points) == space.size
    drawn = space.draw(random)
    assert drawn in points
    assert all(space.check(point) is None for point in points)


@given(random_knobs(), st.randoms(use_true_random=False))
def test_neighbours_differ_in_one_knob_or_in_a_pair(space: Knobs, random: Random) -> None:
    point = space.draw(random)
    found = list(space.neighbours(point))
    assert len(found) <= len(space.directions) == len(set(space.directions))
    for other in found:
        assert space.check(other) is None
        names = [n for n in space.knobs if space.value(point, n) != space.value(other, n)]
        assert len(names) == 1 or (len(names) == 2 and all(n.startswith("tile.") for n in names))
        # Neighbours of ordered knobs and of permutations are mutual, and so are choices.
        assert point in list(space.neighbours(other))


@given(random_knobs())
def test_every_point_can_be_reached(space: Knobs) -> None:
    seen, todo = [dict[str, object]()], [dict[str, object]()]
    while todo:
        for other in space.neighbours(todo.pop()):  # type: ignore[arg-type]
            if other not in seen:
                seen.append(dict(other))
                todo.append(dict(other))
    assert len(seen) == space.size


def test_pairs_of_tiles_move_against_each_other() -> None:
    tiles = [Knob(f"tile.{axis}", KnobKind.ORDERED, (8, 4, 2, 1), 8) for axis in "ij"]
    space = Knobs([*tiles, Knob("slots.inp", KnobKind.ORDERED, (1, 2, 3), 2)])
    found = [point_text(point) for point in space.neighbours({"tile.i": 4, "tile.j": 2})]
    assert "tile.i=2 tile.j=4" in found
    assert "tile.j=1" in found
    assert len(space.directions) == 2 * 3 + 2
    assert len(found) == 8
    # At the end of a knob some directions lead nowhere.
    assert len(list(space.neighbours({"tile.j": 1}))) == 5


def test_a_knob_refuses_values_of_another_type() -> None:
    space = Knobs(
        [
            Knob("a", KnobKind.ORDERED, (1, 2), 1),
            Knob("b", KnobKind.CHOICE, (False, True), False),
            Knob("order", KnobKind.PERMUTATION, (), ("i", "j")),
        ]
    )
    assert space.check({"a": True}) == "knob 'a' has no value true"
    assert space.check({"b": 1}) == "knob 'b' has no value 1"
    assert space.check({"order": ("i", "i")}) == "knob 'order' has no value i,i"
    assert space.check({"order": "ij"}) is not None
    assert space.check({"c": 1}) == "there is no knob 'c'"
