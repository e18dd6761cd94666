"""Systems of modules and memories as data: what follows from them, and passes on other ones."""

import random
from itertools import combinations

import numpy as np
import pytest
from other_systems import SYSTEMS

from vtac.dialects.target import COMPUTE, CORE, LOAD, STORE, Memory, Module, System
from vtac.passes.vta.accesses import Access
from vtac.passes.vta.insert_dependences import Tokens, derive_tokens

POP_PREV, POP_NEXT, PUSH_PREV, PUSH_NEXT = range(4)


def test_core_is_that_of_the_technical_report() -> None:
    assert list(map(str, CORE.queues)) == [
        "load to compute",
        "compute to load",
        "compute to store",
        "store to compute",
    ]
    assert CORE.shared == {Memory.INP, Memory.WGT, Memory.OUT}
    assert CORE.written_by(Memory.INP) == (LOAD,) and CORE.read_by(Memory.INP) == (COMPUTE,)
    assert CORE.written_by(Memory.OUT) == (COMPUTE,) and CORE.read_by(Memory.OUT) == (STORE,)
    assert CORE.ways(Memory.ACC_8BIT) == CORE.ways(Memory.ACC)
    assert CORE.dram_ways == ((STORE, True), (LOAD, False), (COMPUTE, False))
    assert CORE.loaders == {LOAD} and CORE.carrier(COMPUTE) is Memory.UOP


def test_another_system_has_other_shared_memories_and_queues() -> None:
    assert Memory.ACC in SYSTEMS["loads accumulators"].shared
    vectors = SYSTEMS["vectors"]
    assert len(vectors.queues) == 6
    assert vectors.shared == {Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC, Memory.OUT}
    load, compute, _, store = vectors.modules
    assert vectors.towards(load, store) is compute


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
@pytest.mark.parametrize("seed", range(12))
def test_tokens_order_what_touches_the_same_elements_on_any_row_of_modules(
    system: System, seed: int
) -> None:
    chosen = random.Random(seed)
    modules = [chosen.choice(system.modules) for _ in range(60)]
    accesses = [
        [
            Access(space, slice(start, start + chosen.randint(1, 4)), chosen.random() < 0.4)
            for space in chosen.sample(sorted(system.shared), chosen.randint(1, 2))
            for start in [chosen.randint(0, 12)]
        ]
        for _ in modules
    ]
    finish = system.runs["FINISH"]
    tokens = derive_tokens(system, [*modules, finish], [*accesses, None], lambda _: 16, 64)
    assert tokens is not None
    follows = followed(system, [*modules, finish], tokens)
    for one, other in combinations(range(len(modules)), 2):
        if modules[one] != modules[other] and conflict(accesses[one], accesses[other]):
            assert follows[other, one], (one, other)
    assert follows[len(modules), : len(modules)].all()


def conflict(one: list[Access], other: list[Access]) -> bool:
    """Whether two instructions touch an element and one of them writes it."""
    return any(
        a.space == b.space
        and (a.writes or b.writes)
        and a.elements.start < b.elements.stop
        and b.elements.start < a.elements.stop
        for a in one
        for b in other
    )


def followed(system: System, modules: list[Module], tokens: Tokens) -> np.ndarray:
    """[later, earlier]: which instructions each one follows in every order, carriers left out.

    The k-th pop of a queue matches its k-th push; each module runs in order.
    """
    stream = [(module, flags, place) for place, (module, flags) in
              enumerate(zip(modules, tokens.flags, strict=True))]  # fmt: skip
    for place, module, flags in reversed(tokens.carriers):
        stream.insert(place, (module, flags, -1))
    after = np.zeros((len(stream), len(stream)), bool)
    last: dict[Module, int] = {}
    pushed: dict[tuple[int, int], list[int]] = {}
    for number, (module, flags, _) in enumerate(stream):
        for flag, step in ((PUSH_PREV, -1), (PUSH_NEXT, 1)):
            if flags[flag]:
                pushed.setdefault((module, module + step), []).append(number)
        if module in last:
            after[number, last[module]] = True
        last[module] = number
    for step, flag in ((-1, POP_PREV), (1, POP_NEXT)):
        for module in system.modules:
            pops = [n for n, (m, flags, _) in enumerate(stream) if m == module and flags[flag]]
            pushes = pushed.get((module + step, module), [])
            assert len(pushes) == len(pops)
            after[pops, pushes] = True
    for number in range(len(stream)):  # what is followed stands before in the program
        for earlier in np.flatnonzero(after[number, :number]):
            after[number] |= after[earlier]
    kept = [number for number, (*_, place) in enumerate(stream) if place >= 0]
    return after[np.ix_(kept, kept)]
