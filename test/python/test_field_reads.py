"""Reads of a machine's fields are noted, and a watched machine behaves as the machine itself."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtac.dialects.target import PRESETS, Memory, Target
from vtac.dialects.target.field_reads import watched
from vtac.dialects.target.timing import TIMING_FIELDS

NAMES = sorted(PRESETS)


@pytest.mark.parametrize("name", NAMES)
def test_reads_are_noted_with_their_values(name: str) -> None:
    target = Target.named(name)
    copy, reads = watched(target)
    assert reads.values == {}
    assert copy.block == target.block
    assert reads.values == {"log_block": target.log_block}
    assert copy.timing.latency == target.timing.latency
    assert copy.element_bytes(Memory.INP) == target.element_bytes(Memory.INP)
    assert set(reads.values) == {"log_block", "latency", "log_batch"}


@given(st.sampled_from(NAMES), st.data())
def test_what_was_not_read_may_differ(name: str, data: st.DataObject) -> None:
    target = Target.named(name)
    copy, reads = watched(target)
    for method in data.draw(st.lists(st.sampled_from(["block", "batch", "acc_depth", "alu_mul"]))):
        getattr(copy, method)
    changes = {"log_acc_buff_size": target.data.log_acc_buff_size - 1, "latency": 99}
    field = data.draw(st.sampled_from(sorted(changes)))
    other = target.replace(**{field: changes[field]})
    assert reads.hold_for(target)
    assert reads.hold_for(other) == (field not in reads.values)


@pytest.mark.parametrize("name", NAMES)
def test_a_watched_machine_is_the_machine(name: str) -> None:
    target = Target.named(name)
    uses = (
        lambda copy: copy == target,
        lambda copy: target == copy,
        lambda copy: hash(copy) == hash(target),
        lambda copy: str(copy) == str(target),
        lambda copy: copy.fields() == target.fields(),
        lambda copy: copy in {target: None},
    )
    for use in uses:
        copy, reads = watched(target)
        assert use(copy)
        assert set(reads.values) >= TIMING_FIELDS.keys() - {"name"}
    copy, reads = watched(target)
    assert copy.timing == target.timing and target.timing == copy.timing
    assert hash(copy.timing) == hash(target.timing)
    assert set(reads.values) == TIMING_FIELDS.keys()
    assert copy != target.replace(latency=target.timing.latency + 1)


def test_a_changed_copy_is_a_machine_of_its_own() -> None:
    target = Target.named("chisel-pynq")
    copy, reads = watched(target)
    changed = copy.replace(latency=64)
    assert changed == target.replace(latency=64)
    fields = {field.name for field in dataclasses.fields(target.data)} - {"timing", "preset"}
    assert fields <= set(reads.values)
