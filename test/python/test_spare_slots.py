"""Slots beyond those of a schedule: loads that are waited for get them, micro-ops limit others."""

from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest
from vta_runner import context, parse

from vtac.dialects.target import Memory, Target
from vtac.dialects.vta import streams_of
from vtac.passes.vta import allocate
from vtac.passes.vta.allocate import addresses_of
from vtac.passes.vta.sites import SramBuffer
from vtac.passes.vta.spare_slots import MOST_ADDED, Use

TARGET = Target.named("chisel-pynq")

CYCLES = 20
"""Cycles of a micro-op."""


class Layer:
    """A layer of tiles, each with a buffer of every operand and of accumulators.

    kernels: micro-ops of each product in a tile; micro-ops of layers differ.
    """

    def __init__(self, random: np.random.Generator, number: int, *, computes: bool):
        self.tiles = int(random.integers(2, 40))
        self.kernels = [int(n) for n in random.integers(1, 40, random.integers(1, 6))]
        self.sizes = {
            Memory.WGT: int(random.integers(4, 60)),
            Memory.INP: int(random.integers(8, 200)),
            Memory.ACC: int(random.integers(8, 200)),
        }
        self.slots = {memory: int(random.integers(2, 4)) for memory in self.sizes}
        self.number = number
        cycles = CYCLES * sum(self.kernels)
        self.beats = cycles // 4 if computes else cycles

    def appended(self, buffers: list[SramBuffer], uses: list[Use], places: "count[int]") -> None:
        """Put its buffers and instructions behind those that are there."""
        for _ in range(self.tiles):
            first = len(buffers)
            own = range(first, first + len(self.sizes))
            for memory, size in self.sizes.items():
                site, slots = 3 * self.number + int(memory), self.slots[memory]
                buffers.append(SramBuffer(site, memory, slots, size, "", next(places), 0))
                if memory is not Memory.ACC:
                    uses.append(Use(next(places), 0, self.beats, None, ()))
            for which, micro_ops in enumerate(self.kernels):
                kernel = (self.number, which), micro_ops
                at = next(places)
                uses.append(Use(at, CYCLES * micro_ops, 0, kernel, (own[-1], *own[:-1])))
            for number in own:
                buffers[number] = buffers[number]._replace(last=at)

    def micro_ops(self, uses: Sequence[Use], places: Sequence[int]) -> int:
        """The micro-ops of the layer where its buffers lie at these places."""
        return sum(
            micro_ops
            for (_, micro_ops), _ in {
                (use.kernel, tuple(places[number] for number in use.buffers))
                for use in uses
                if _is_of(use, self)
            }
        )


def programs(
    seed: int, *, computes: bool, most_added: int | None = MOST_ADDED
) -> tuple[list[Layer], list[Use], list[int], list[int]]:
    """Layers one after the other, and where their buffers lie, with more slots and without."""
    random = np.random.default_rng(seed)
    layers = [Layer(random, number, computes=computes) for number in range(random.integers(1, 4))]
    buffers, uses, places = list[SramBuffer](), list[Use](), count()
    for layer in layers:
        layer.appended(buffers, uses, places)
    wide, narrow = (addresses_of(buffers, uses, TARGET, most, most_added) for most in (8, 0))
    return layers, uses, wide, narrow


@pytest.mark.parametrize("seed", range(60))
def test_layers_that_compute_longer_add_few_micro_ops(seed: int) -> None:
    layers, uses, wide, narrow = programs(seed, computes=True)
    for layer in layers:
        assert layer.micro_ops(uses, wide) <= layer.micro_ops(uses, narrow) + MOST_ADDED


@pytest.mark.parametrize("computes, most_added", [(False, MOST_ADDED), (True, None)])
def test_layers_that_load_longer_take_the_slots_that_there_are(
    computes: bool, most_added: int | None
) -> None:
    """So do all layers where micro-ops are not limited."""
    added = 0
    for seed in range(60):
        layers, uses, wide, narrow = programs(seed, computes=computes, most_added=most_added)
        last = layers[-1]
        products = [use.buffers for use in uses if _is_of(use, last)]
        for operand, memory in enumerate((Memory.ACC, Memory.WGT, Memory.INP)):
            slots = len({wide[buffers[operand]] for buffers in products})
            assert slots == min(TARGET.depth(memory) // last.sizes[memory], last.tiles)
        added = max(added, last.micro_ops(uses, wide) - last.micro_ops(uses, narrow))
    assert added > MOST_ADDED


def _is_of(use: Use, layer: Layer) -> bool:
    return use.kernel is not None and use.kernel[0][0] == layer.number  # type: ignore[index]


def test_only_where_several_cores_work_micro_ops_are_not_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = list[int | None]()

    def seen(*arguments):
        limits.append(arguments[-1])
        return addresses_of(*arguments)

    monkeypatch.setattr(allocate, "addresses_of", seen)
    for cores in range(1, 4):
        for working in range(1, cores + 1):
            limits.clear()
            module = parse(context(), cluster(cores, working))
            for stream in streams_of(module):
                allocate.allocate(stream)
            wanted = MOST_ADDED if working == 1 else None
            assert limits[:working] == [wanted] * working


def cluster(cores: int, working: int) -> str:
    """A program in which so many of the cores load something, and the others finish."""
    load = (
        "%w = vta.alloc site 0 slots 1 size 1 : !vta.sram<wgt> "
        "vta.load wgt %w sram 0 from @w dram 0 size [1, 1] stride 1 "
    )
    streams = " ".join(
        f"vta.core {core} {{ {load if core < working else ''}vta.finish }}" for core in range(cores)
    )
    target = f'#target.cluster<core = #target.vta<"pynq">, cores = {cores}>'
    return (
        f"vta.cluster @p attributes {{vtac.target = {target}}} {{ "
        f"vta.buffer @w input index 0 bytes 256 align 256 {streams} }}"
    )
