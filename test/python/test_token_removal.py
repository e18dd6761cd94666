"""Tokens of compiled programs: taken out or moved, the checker objects, or nothing is lost.

The judge is `reachability.Oracle`, which looks at all pairs; what both accept must give one result
in every order, what they object to is shown to go wrong.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from digits_model import MODEL, images
from launches import Program, launches_of
from onnx import helper
from reachability import QUEUES, Oracle, flags_of, module_of, tokens_of
from small_models import floats, small_model

import vtac
from vtac.dialects.target import Target
from vtac.dialects.vta.encoding import Instruction, encode
from vtac.sim import HazardKind, SimulationError, Simulator, check

REMOVALS, MOVES, ORDERS = 60, 30, 50
SMALL = Target.named("pynq").replace(
    log_inp_buff_size=11, log_wgt_buff_size=13, log_acc_buff_size=12, log_uop_buff_size=11
)


def network(kind: int) -> Program:
    """Three networks with random weights, each for another machine."""
    rng = random.Random(kind)
    channels, size = rng.randrange(5, 40), rng.randrange(6, 10)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["b"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["b", "r"], ["s"]),
        helper.make_node("MaxPool", ["s"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "u"], ["y"]),
    ]
    weights = {
        "w": floats((channels, 3, 3, 3), kind),
        "v": floats((channels, channels, 3, 3), kind + 10),
        "u": floats((rng.randrange(1, 40), channels, 1, 1), kind + 20),
    }
    model = small_model(nodes, {"x": [1, 3, size, size]}, ["y"], weights)
    target = (Target.named("chisel-pynq"), SMALL, Target.named("sim").replace(log_batch=1))[kind]
    samples = floats((4, 3, size, size), kind + 30)
    module = vtac.compile(onnx.shape_inference.infer_shapes(model), target, samples)
    return launches_of(f"random {kind}", module, {"x": samples[:1]})[0]


def program_of(name: str) -> Program:
    if name == "digits":
        module = vtac.compile(MODEL, "pynq", images()[:32])
        return launches_of(name, module, {"image": images()[:1]})[0]
    if name == "mnist8":
        shared = Path(__file__).parents[3] / "shared"
        if not shared.is_dir():
            pytest.skip("needs the folder ../shared beside the repository, which is absent")
        with np.load(shared / "data" / "mnist.npz") as data:
            digits = data["x"].astype(np.float32)[:, None, None]
        module = vtac.compile(shared / "models" / "mnist8" / "model.onnx", "pynq", digits[:50, 0])
        return launches_of(name, module, {"Input3": digits[0]})[0]
    return network(int(name.removeprefix("random ")))


@dataclass(frozen=True)
class Variant:
    """A program with one token changed. change: "removed", "push" (moved) or "pop" (moved)."""

    change: str
    program: list[Instruction]


def variants(program: list[Instruction], rng: random.Random) -> Iterator[Variant]:
    """Some tokens removed, push and pop; some pushes and pops moved to a neighbour."""
    tokens = [
        (queue, push, pop)
        for queue in QUEUES
        for push, pop in zip(*tokens_of(program, queue), strict=True)
    ]
    for queue, push, pop in rng.sample(tokens, min(REMOVALS, len(tokens))):
        yield Variant("removed", _without(program, queue, push, pop))
    for queue, push, pop in rng.sample(tokens, min(MOVES, len(tokens))):
        for side, (index, flag) in enumerate(zip((push, pop), flags_of(queue), strict=True)):
            members = [i for i, x in enumerate(program) if module_of(x) == queue[side]]
            place = members.index(index) + rng.choice((-1, 1))
            if not 0 <= place < len(members) or getattr(program[members[place]], flag):
                continue
            changed = list(program)
            changed[index] = replace(changed[index], **{flag: False})
            changed[members[place]] = replace(changed[members[place]], **{flag: True})
            yield Variant(("push", "pop")[side], changed)


def _without(
    program: list[Instruction], queue: tuple[str, str], push: int, pop: int
) -> list[Instruction]:
    changed, (push_flag, pop_flag) = list(program), flags_of(queue)
    changed[push] = replace(changed[push], **{push_flag: False})
    changed[pop] = replace(changed[pop], **{pop_flag: False})
    return changed


@pytest.mark.parametrize("name", ["digits", "mnist8", "random 0", "random 1", "random 2"])
def test_tokens_are_needed(name: str) -> None:
    program, rng = program_of(name), random.Random(1)
    oracle, simulator = Oracle(program), Simulator(program.target)
    expected = run(simulator, program, program.insns, None)
    assert oracle.conflicts and oracle.unordered(oracle.instructions) == []
    assert check(program.target, program.insns, program.dram).ok
    removed, objected, shown, accepted = 0, 0, 0, []
    for variant in variants(oracle.instructions, rng):
        words = encode(program.target, variant.program)
        ok = judge(program, oracle, variant, words)
        if ok:
            accepted.append(words)
        elif variant.change == "removed" and shown == 0:
            shown += goes_wrong(simulator, program, words, expected)
        if variant.change == "removed":
            removed += 1
            objected += not ok
    assert removed >= 10 and objected >= 0.9 * removed, f"{objected} of {removed}"
    assert shown, "no removal that was objected to goes wrong in any order tried"
    for words in [program.insns, *rng.sample(accepted, min(1, len(accepted)))]:
        for seed in range(ORDERS):
            image = run(simulator, program, words, seed)
            np.testing.assert_array_equal(image, expected)


def run(simulator: Simulator, program: Program, words: np.ndarray, seed: int | None) -> np.ndarray:
    """The memory after a run in one order. One simulator serves all: it remembers its plans."""
    image = program.dram.copy()
    simulator.run(words, image, order_seed=seed)
    return image


def judge(program: Program, oracle: Oracle, variant: Variant, words: np.ndarray) -> bool:
    """Whether the checker accepts a variant; all pairs agree, and races are what they say."""
    report = check(program.target, words, program.dram)
    unordered = oracle.unordered(variant.program)
    assert report.ok == (unordered == []), f"{variant.change}: {report}"
    for hazard in report.hazards:
        if hazard.kind is HazardKind.RACE:
            first, second = sorted(hazard.instructions)
            assert unordered is not None and (first, second) in unordered
            assert all(f"instruction {i} (" in hazard.message for i in (first, second))
    return report.ok


def goes_wrong(
    simulator: Simulator, program: Program, words: np.ndarray, expected: np.ndarray
) -> bool:
    """Whether some order leaves another image, or reads what nothing has written."""
    for seed in range(ORDERS):
        try:
            image = run(simulator, program, words, seed)
        except SimulationError as error:
            if "which no GEMM or ALU has written" in error.reason:
                return True
            continue
        if not np.array_equal(image, expected):
            return True
    return False
