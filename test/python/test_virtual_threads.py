"""Virtual threads: when tokens of several threads may share the machine's queues.

Each thread is a pipeline of its own (Chen et al., OSDI 2018, figure 17): it loads into a slot of
its own, computes from it, and gives the slot back, with a token each way. Lowered, all loads stand
in one stream, all computations in another, and tokens carry no names: the k-th pop takes the k-th
push. Theorem 3.1 says when every pop still gets the token that its own thread pushed for it: if and
only if senders stand in the same order as their receivers. Here that is tried on random
interleavings, on words that the simulator runs.
"""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from reachability import COMPUTE, LOAD, tokens_of
from vta_runner import context, finish_program, parse, run_binary

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta import ProgramOp
from vtac.dialects.vta.encoding import (
    Finish,
    Gemm,
    Instruction,
    Load,
    Store,
    decode,
    encode,
    encode_micro_ops,
)
from vtac.sim import check, execute

TARGET = Target.named("sim")
X, W, UOPS, OUT, IMAGE = 8192, 12288, 16384, 20480, 24576

Work = tuple[int, int]
"""A thread, and the number of its iteration."""


def merged(random: Random, threads: int, iterations: int) -> list[Work]:
    """A random interleaving that keeps the order of each thread."""
    order = [thread for thread in range(threads) for _ in range(iterations)]
    random.shuffle(order)
    return [(thread, order[:place].count(thread)) for place, thread in enumerate(order)]


def program(loads: list[Work], computes: list[Work], iterations: int) -> list[Instruction]:
    """The threads lowered onto one stream per module, each with the tokens of its own pipeline."""
    threads = len(loads) // iterations
    one = {"y_size": 1, "x_size": 1, "x_stride": 1}
    wide = {"y_size": 1, "x_size": threads, "x_stride": threads}
    load = [Load(memory=Memory.WGT, sram_base=0, dram_base=W // 256, **one)]
    for thread, number in loads:
        base = X // 16 + thread * iterations + number
        slot = {"memory": Memory.INP, "sram_base": thread, "dram_base": base}
        load.append(Load(**slot, **one, pop_next=number > 0, push_next=True))
    loops = {"iter_out": 1, "iter_in": 1}
    compute: list[Instruction] = [
        Load(memory=Memory.UOP, sram_base=0, dram_base=UOPS // 4, **wide),
        Gemm(uop_bgn=0, uop_end=threads, **loops, reset=True),
    ]
    for place, (thread, number) in enumerate(computes):
        compute.append(
            Gemm(
                uop_bgn=thread,
                uop_end=thread + 1,
                **loops,
                pop_prev=True,
                push_prev=number + 1 < iterations,
                push_next=place + 1 == len(computes),
            )
        )
    store = Store(
        memory=Memory.OUT, sram_base=0, dram_base=OUT // 16, **wide, pop_prev=True, push_prev=True
    )
    return [*load, *compute, store, Finish(pop_next=True)]


def image(threads: int, iterations: int) -> np.ndarray:
    memory = np.random.default_rng(5).integers(0, 256, IMAGE).astype(np.uint8)
    numbers = np.arange(threads)
    words = encode_micro_ops(TARGET, numbers, numbers, np.zeros_like(numbers))
    memory[UOPS : UOPS + 4 * threads] = words.view(np.uint8)
    return memory


def expected(memory: np.ndarray, threads: int, iterations: int) -> np.ndarray:
    x = memory[X : X + 16 * threads * iterations].view(np.int8).reshape(threads, iterations, 16)
    w = memory[W : W + 256].view(np.int8).reshape(16, 16).astype(np.int64)
    return (x.astype(np.int64).sum(1) @ w.T).astype(np.int8)


def same_order(pairs: list[tuple[int, int]]) -> bool:
    """The condition of theorem 3.1 for the pairs (push, pop) of a queue, by their places."""
    return all(
        (x < other) == (y < its) for x, y in pairs for other, its in pairs if (x, y) != (other, its)
    )


@settings(max_examples=60)
@given(st.integers(0, 10**9))
def test_tokens_reach_their_receivers_if_and_only_if_the_order_is_the_same(seed: int) -> None:
    random = Random(seed)
    threads, iterations = random.randint(2, 3), random.randint(2, 3)
    loads = merged(random, threads, iterations)
    same = random.random() < 0.4
    computes = list(loads) if same else merged(random, threads, iterations)
    stream = program(loads, computes, iterations)
    words = encode(TARGET, stream)
    stream = decode(TARGET, words)
    load_at = {work: 1 + place for place, work in enumerate(loads)}
    compute_at = {work: len(loads) + 3 + place for place, work in enumerate(computes)}
    full = [(load_at[work], compute_at[work]) for work in loads]
    free = [
        (compute_at[thread, number], load_at[thread, number + 1])
        for thread, number in computes
        if number + 1 < iterations
    ]
    received = [
        sorted(zip(*tokens_of(stream, queue), strict=True)) == sorted(pairs)
        for queue, pairs in (((LOAD, COMPUTE), full), ((COMPUTE, LOAD), free))
    ]
    assert received == [same_order(full), same_order(free)]

    memory = image(threads, iterations)
    if not all(received):
        return  # a race, a deadlock, or the wrong order each time
    assert check(TARGET, words, memory).ok
    for order in (None, 1):
        after = execute(TARGET, words, memory, strict=True, order_seed=order)
        found = after[OUT : OUT + 16 * threads].view(np.int8).reshape(threads, 16)
        np.testing.assert_array_equal(found, expected(memory, threads, iterations))


def test_a_token_of_another_thread_is_an_error() -> None:
    """Thread 1 computes first on the token that thread 0's load pushed."""
    loads, computes = [(0, 0), (1, 0), (0, 1), (1, 1)], [(1, 0), (0, 0), (1, 1), (0, 1)]
    words = encode(TARGET, program(loads, computes, 2))
    assert not check(TARGET, words, image(2, 2)).ok
    round_robin = encode(TARGET, program(loads, loads, 2))
    assert check(TARGET, round_robin, image(2, 2)).ok


@settings(max_examples=12)
@given(st.integers(0, 10**9))
def test_derived_tokens_fit_any_interleaving(seed: int) -> None:
    """The threads' instructions stand in a random order; vta-insert-dependences sets the tokens."""
    random = Random(seed)
    threads, iterations = random.randint(2, 3), random.randint(2, 3)
    turns = [[("load", n), ("compute", n)] for n in range(iterations)]
    left = [[step for turn in turns for step in turn] for _ in range(threads)]
    lines = []
    while any(left):
        thread = random.choice([t for t in range(threads) if left[t]])
        step, number = left[thread].pop(0)
        if step == "load":
            base = thread * iterations + number
            lines.append(f"vta.load inp %i{thread} sram 0 from @x dram {base} size [1, 1] stride 1")
        else:
            lines.append(
                f"vta.gemm %a{thread}, %i{thread}, %w micro_ops <[0, 0, 0]> loops [1, 1]"
                " dst [0, 0] src [0, 0] wgt [0, 0]"
            )
    allocs, ends = [], []
    for thread in range(threads):
        allocs += [
            f"%i{thread} = vta.alloc site {2 * thread + 1} slots 1 size 1 : !vta.sram<inp>",
            f"%a{thread} = vta.alloc site {2 * thread + 2} slots 1 size 1 : !vta.sram<acc>",
            f"vta.gemm reset %a{thread} micro_ops <[0, 0, 0]> loops [1, 1] dst [0, 0]",
        ]
        ends.append(f"vta.store %a{thread} sram 0 to @y dram {thread} size [1, 1] stride 1")
    body = "\n".join(
        [
            f"vta.buffer @x input index 0 bytes {16 * threads * iterations} align 256",
            "vta.buffer @w input index 1 bytes 256 align 256",
            f"vta.buffer @y output index 0 bytes {16 * threads} align 256",
            "%w = vta.alloc site 0 slots 1 size 1 : !vta.sram<wgt>",
            "vta.load wgt %w sram 0 from @w dram 0 size [1, 1] stride 1",
            *allocs,
            *lines,
            *ends,
            "vta.finish",
        ]
    )
    attribute = '{vtac.target = #target.vta<"sim">}'
    module = parse(context(), f"vta.program @p attributes {attribute} {{\n{body}\n}}")
    [op] = [op for op in module.walk() if isinstance(op, ProgramOp)]
    memory = image(threads, iterations)
    inputs = {
        "x": memory[X : X + 16 * threads * iterations],
        "w": memory[W : W + 256],
    }
    found = run_binary(finish_program(op), inputs, seeds=(None, 1, 2))["y"]
    wanted = expected(memory, threads, iterations)
    assert found == wanted.tobytes()
