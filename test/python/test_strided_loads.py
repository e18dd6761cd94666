"""Inputs of convolutions that step over columns: single elements are loaded, or whole rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from resnet_layers import Layer, compile_layer

from vtac.dialects.target import Memory, Target
from vtac.dialects.te import loaded_steps
from vtac.sim.timing.work import InstructionKind

PYNQ = Target.named("chisel-pynq")
FAR = PYNQ.replace(latency=150)


@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(2, 4),
    st.integers(0, 200),
    st.integers(1, 64),
)
def test_a_more_distant_memory_never_makes_single_elements_better(
    rows: int, count: int, step: int, latency: int, outstanding: int
) -> None:
    near = PYNQ.replace(latency=latency, outstanding=outstanding)
    far = near.replace(latency=latency + 50)
    if far.loads_apart(Memory.INP, rows, count, step):
        assert near.loads_apart(Memory.INP, rows, count, step)


def test_one_row_of_one_element_is_loaded_alone() -> None:
    assert FAR.loads_apart(Memory.INP, 1, 1, 2)
    assert not FAR.loads_apart(Memory.INP, 14, 14, 2)
    assert PYNQ.loads_apart(Memory.INP, 14, 14, 2)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 4)), min_size=1, max_size=5))
def test_only_columns_are_filled_up(dims: list[tuple[int, int]]) -> None:
    shape, steps = [size for size, _ in dims], [step for _, step in dims]
    for target in (PYNQ, FAR):
        found = loaded_steps(target, shape, steps)
        assert found[:-1] == steps[:-1] and found[-1] in (1, steps[-1])


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize(("size", "inputs", "outputs"), [(14, 64, 32), (9, 40, 20), (5, 16, 70)])
def test_results_are_exact_either_way(stride: int, size: int, inputs: int, outputs: int) -> None:
    layer = Layer("strided", size, inputs, outputs, 1, stride, 1)
    loads = []
    for target in (PYNQ, FAR, FAR.replace(log_inp_buff_size=10)):
        compiled = compile_layer(layer, target)
        assert compiled.is_exact()
        kinds = compiled.report().work.kind
        loads.append(int((kinds == InstructionKind.INP).sum()))
    assert loads[1] < loads[0]


def test_the_schedulers_cost_sees_whole_rows() -> None:
    layer = Layer("strided", 14, 128, 64, 1, 2, 1)
    for target in (PYNQ, FAR):
        compiled = compile_layer(layer, target)
        (expected,) = [c.cycles for c in compiled.module.report.choices if c.stage == "schedule"]
        assert expected is not None
        assert expected == pytest.approx(compiled.report().cycles, rel=0.1)
