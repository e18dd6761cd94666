"""Forms that are named rather than chosen by cost: taken, recorded, and exact."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import LOOPS, REWRITES, IntegerFunction
from random_groups import KINDS, TARGETS, RandomGroup
from residuals import TARGETS as EPILOGUE_TARGETS
from residuals import residual
from vta_runner import run_loops
from xdsl.dialects.builtin import ModuleOp

from vtac.dialects import te
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.epilogue_costs import recorded_forms
from vtac.passes.te.prefer_forms import TePreferFormsPass
from vtac.passes.te.schedule.te_schedule import TeSchedulePass

AT = LOOPS.index(TeSchedulePass)


def kernel_of(module: ModuleOp) -> te.KernelOp:
    return next(op for op in module.ops if isinstance(op, te.KernelOp))


def check_other_forms(f: IntegerFunction, module: ModuleOp, random: Random, rank: int) -> int:
    """Name another form for some stages; how many took it."""
    f.apply(module, [GraphToTePass, *REWRITES])
    chosen = module.clone()
    f.apply(chosen, LOOPS[:AT])
    if sum(isinstance(op, te.KernelOp) for op in chosen.ops) > 1:
        return 0  # Calls that need different forms got kernels of their own.
    forms = recorded_forms(kernel_of(chosen))
    assert all(len(set(names)) == len(names) > 1 for names in forms.values())
    stages = [stage for stage in forms if random.random() < 0.7]
    wanted: dict[str, te.Value] = {stage: random.choice(forms[stage][1:]) for stage in stages[:1]}
    TePreferFormsPass(forms=te.point_text(wanted)).apply(f.ctx, module)
    f.apply(module, LOOPS[:AT])
    recorded = recorded_forms(kernel_of(module))
    for stage, form in wanted.items():
        # Another choice about the same stage may have been recorded since.
        assert form not in recorded[stage][1:]
    f.apply(module, LOOPS[AT:])
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), rank)
    return len(wanted)


@settings(max_examples=15)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(EPILOGUE_TARGETS)))
def test_epilogues_in_other_forms_are_exact(random: Random, target: str) -> None:
    f = IntegerFunction(EPILOGUE_TARGETS[target], random.randrange(1 << 30))
    module = residual(f, random, random.choice([5, f.target.block, 3 * f.target.block - 2]))
    check_other_forms(f, module, random, 2)


@settings(max_examples=15)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(TARGETS)), st.sampled_from(KINDS))
def test_kernels_in_other_forms_are_exact(random: Random, machine: str, kind: str) -> None:
    group = RandomGroup(random, TARGETS[machine], largest=9, channels=36)
    module = group.build(kind, fused=True)
    (function,) = [op for op in module.ops if op.name == "func.func"]
    rank = max(len(type.get_shape()) for type in function.function_type.inputs) - 4
    check_other_forms(group.function, module, random, rank)
