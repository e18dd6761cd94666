"""Records of tuning for tests: of kernels that exist in name only, and of real ones."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from random import Random

from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.target import Target
from vtac.dialects.te import KernelOp, canonical_kernel
from vtac.passes.te.schedule.structure import structure_of
from vtac.passes.te.templates.find import template_named
from vtac.tools.tune.database import new_run
from vtac.tools.tune.keys import (
    Key,
    constants_in,
    kernel_digest,
    kernel_text,
    oracle_digest,
    target_digest,
    target_text,
)
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


def records_of(
    module: ModuleOp,
    target: Target,
    seed: int,
    *,
    limit: float = 1.05,
    template: str = "tiles",
) -> list[Record]:
    """A record for each kernel of a module of the level te: a random point that may be used.

    limit: how many times the cost of the default schedule it costs at most. Kernels for which no
    such point is found have no record.
    """
    random = Random(seed)
    found: dict[str, Record] = {}
    for kernel in module.ops:
        if not isinstance(kernel, KernelOp):
            continue
        constants = constants_in(kernel)
        space = template_named(template).declare(structure_of(canonical_kernel(kernel), ""), target)
        rule = space.rule()
        assert rule.cycles is not None
        for _ in range(3000):
            point = space.draw(random)
            # Small steps from the rule's point are good far more often than random points.
            if random.random() < 0.9:
                point = random.choice(list(space.neighbours(rule.point)))
            cost = space.cost(point, round(limit * rule.cycles) + 1)
            differs = space.canonical(point) != space.canonical(rule.point)
            if differs and space.problem(point) is None and cost <= limit * rule.cycles:
                text = kernel_text(kernel, constants)
                wanted = Key(
                    kernel_digest(kernel, constants),
                    target_digest(target),
                    oracle_digest(target.timing),
                    template,
                    template_named(template).version,
                )
                found[wanted.kernel] = Record(
                    wanted, text, target_text(target), point, cost, rule.cycles, 1, True, "0.1.0"
                )
                break
    return list(found.values())


def write_records(path: Path, records: Iterable[Record]) -> Path:
    """A file of JSON lines."""
    path.write_text("".join(f"{record.line}\n" for record in records))
    return path
