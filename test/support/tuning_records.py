"""Records of tuning for tests that need no real kernel: any digest, any point."""

import hashlib
from random import Random

from vtac.dialects.target import Target
from vtac.tools.tune.database import new_run
from vtac.tools.tune.keys import Key, oracle_digest, target_digest, target_text
from vtac.tools.tune.protocol import Trial
from vtac.tools.tune.records import Record, RunRow

TARGET = Target.named("chisel-pynq")


def key(name: str = "kernel", target: Target = TARGET, version: int = 1) -> Key:
    digest = hashlib.sha256(name.encode()).hexdigest()
    oracle = oracle_digest(target.timing)
    return Key(digest, target_digest(target), oracle, "tiles", version)


def record(
    name: str = "kernel",
    cycles: int = 1000,
    size: int = 2,
    *,
    target: Target = TARGET,
    proved: bool = True,
) -> Record:
    """A record of a kernel that exists in name only."""
    point = {"tile.i0": size, "order": ("i1", "i0"), "piece": "i0/2", "whole.s0.weights": True}
    return Record(
        key(name, target),
        f"text of {name}",
        target_text(target),
        point,
        cycles,
        1200,
        900,
        proved,
        "0.1.0",
    )


def run_row(name: str = "kernel", seed: int = 0, method: str = "random") -> RunRow:
    """A run that begins now."""
    text = target_text(TARGET)
    return new_run(key(name), f"text of {name}", text, method, {"batch": 8}, seed, "0.1.0")


def trials(count: int, seed: int = 0) -> list[Trial]:
    """Trials of different points, some of them refused."""
    random = Random(seed)
    found = []
    for number in range(count):
        cycles = random.randint(1, 10_000) if random.random() < 0.9 else None
        point = {"tile.i0": number, "slots.inp": random.randint(1, 4)}
        found.append(Trial(point, cycles, "" if cycles else "it does not fit", number % 7))
    return found
