"""Random knobs, for tests: all kinds, with values of every type."""

from hypothesis import strategies as st

from vtac.dialects.te import Knob, KnobKind, Knobs

WORDS = st.from_regex(r"[a-z_][a-z0-9_./-]{0,4}", fullmatch=True) | st.sampled_from(
    ["true", "false", "none", "1", "-3", "a b", "1,2", "x=y", "", "j/2"]
)
NUMBERS = st.integers(-(10**17), 10**17)
VALUES = st.one_of(
    NUMBERS,
    st.booleans(),
    st.none(),
    WORDS,
    st.lists(NUMBERS, max_size=3).map(tuple),
    st.lists(WORDS, max_size=3).map(tuple),
)


@st.composite
def random_knobs(draw: st.DrawFn) -> Knobs:
    """One to four knobs."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(KnobKind))
        name = draw(st.sampled_from(["tile.", "slots.", "an odd one "])) + str(number)
        if kind is KnobKind.PERMUTATION:
            words = draw(st.lists(WORDS, max_size=3, unique=True))
            found.append(Knob(name, kind, (), tuple(words)))
            continue
        values = tuple(draw(st.lists(VALUES, min_size=1, max_size=4, unique=True)))
        found.append(Knob(name, kind, values, draw(st.sampled_from(values))))
    return Knobs(found)
