"""Which instructions must follow which, against all pairs of touches; also in another order."""

import random
from itertools import combinations

import pytest

from vtac.dialects.target import CORE, Memory, Module
from vtac.passes.vta.precedence import Span, predecessors
from vtac.passes.vta.program_precedence import joined_predecessors

SPACES = (Memory.ACC, Memory.INP, "buffer")


def program(seed: int) -> tuple[list[Module], list[list[Span]]]:
    """Instructions of random modules that touch random spans."""
    chosen = random.Random(seed)
    modules = [chosen.choice(CORE.modules) for _ in range(40)]
    spans = []
    for _ in modules:
        touched = []
        for _ in range(chosen.randint(0, 3)):
            start = chosen.randint(0, 20)
            end = start + chosen.randint(1, 8)
            touched.append(Span(chosen.choice(SPACES), start, end, chosen.random() < 0.4))
        spans.append(touched)
    return modules, spans


def must_follow(modules: list[Module], spans: list[list[Span]], one: int, other: int) -> bool:
    return any(
        a.space == b.space
        and a.start < b.end
        and b.start < a.end
        and (a.writes or b.writes or modules[one] is modules[other])
        for a in spans[one]
        for b in spans[other]
    )


def closed(before: list[set[int]]) -> list[set[int]]:
    """All that each instruction follows, directly or through others."""
    found: list[set[int]] = []
    for earlier in before:
        found.append(earlier.union(*(found[number] for number in earlier)))
    return found


@pytest.mark.parametrize("seed", range(25))
def test_predecessors_imply_exactly_the_pairs_that_must_keep_their_order(seed: int) -> None:
    modules, spans = program(seed)
    pairs: list[set[int]] = [set() for _ in modules]
    for one, other in combinations(range(len(modules)), 2):
        if must_follow(modules, spans, one, other):
            pairs[other].add(one)
    found = predecessors(modules, spans)
    assert closed(found) == closed(pairs)
    assert all(own <= every for own, every in zip(found, pairs, strict=True))


@pytest.mark.parametrize("seed", range(25))
def test_an_order_that_keeps_to_them_has_the_same_predecessors(seed: int) -> None:
    modules, spans = program(seed)
    before = predecessors(modules, spans)
    chosen, order, left = random.Random(seed), list[int](), set(range(len(modules)))
    while left:
        ready = sorted(number for number in left if not before[number] & left)
        order.append(chosen.choice(ready))
        left.discard(order[-1])
    assert order != sorted(order)
    places = {number: place for place, number in enumerate(order)}
    again = predecessors([modules[n] for n in order], [spans[n] for n in order])
    assert again == [{places[number] for number in before[n]} for n in order]


@pytest.mark.parametrize("seed", range(50))
def test_runs_that_become_one_instruction_have_the_predecessors_of_all(seed: int) -> None:
    """An instruction can stand where an earlier one of its module does if it need not follow what
    stands between them."""
    modules, spans = program(seed)
    chosen, follows = random.Random(seed), closed(predecessors(modules, spans))
    runs, taken = list[list[int]](), set[int]()
    for first in chosen.sample(range(len(modules)), len(modules)):
        for number in range(first + 1, len(modules)):
            between = set(range(first + 1, number))
            is_free = not {first, number} & taken and not follows[number] & between
            if is_free and modules[first] is modules[number] and chosen.random() < 0.5:
                runs.append([first, number])
                taken |= {first, number}
    assert runs
    run_of = {run[0]: run for run in runs}
    gone = {number for _, *rest in runs for number in rest}
    left = [number for number in range(len(modules)) if number not in gone]
    joined = [[span for n in run_of.get(number, [number]) for span in spans[n]] for number in left]
    expected = predecessors([modules[number] for number in left], joined)
    found = joined_predecessors(predecessors(modules, spans), runs)
    assert closed(found) == closed(expected)
