"""Cores that are no VTA, as data: other modules, and memories that others load."""

import dataclasses
from dataclasses import replace

from vtac.dialects.target import CORE, LOAD, Configuration, Memory, Module, System, Target


def row_of(*names: str) -> tuple[Module, ...]:
    """Modules in a row."""
    return tuple(Module(place, name) for place, name in enumerate(names))


def with_vectors() -> System:
    """A core whose ALU is a module of its own, between the GEMM and the stores."""
    load, compute, vectors, store = modules = row_of("load", "compute", "vectors", "store")
    moves = {
        Memory.UOP: compute,
        Memory.WGT: load,
        Memory.INP: load,
        Memory.ACC: vectors,
        Memory.ACC_8BIT: vectors,
        Memory.OUT: store,
    }
    return System(modules, moves, {"GEMM": compute, "ALU": vectors, "FINISH": compute})


LOADS_ACCUMULATORS = replace(CORE, moves={**CORE.moves, Memory.ACC: LOAD, Memory.ACC_8BIT: LOAD})
"""A core whose load module loads accumulators too, so that two modules reach them."""

SYSTEMS = {"core": CORE, "loads accumulators": LOADS_ACCUMULATORS, "vectors": with_vectors()}


class _LoadsAccumulators(Configuration):
    system = LOADS_ACCUMULATORS


def loading_accumulators(target: Target) -> Target:
    """The machine with the system `LOADS_ACCUMULATORS`."""
    fields = dataclasses.fields(Configuration)
    return Target(_LoadsAccumulators(**{f.name: getattr(target.data, f.name) for f in fields}))
