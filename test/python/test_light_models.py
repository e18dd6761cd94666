"""The front of a light model on the accelerator; `test/benchmarks/bench_light.py` has all nine."""

import numpy as np
from light_models import light_model, picture_input, pictures
from small_models import run
from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.context import VtacContext
from vtac.passes.graph.quantize import error_estimates
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.planner import main_function


def test_squeezenet_errs_as_estimated() -> None:
    model = light_model("squeezenet", extent=31, until="r16")
    name, shape = picture_input(model)
    estimates: list[float] = []

    def observe(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            estimates.extend(e for e in error_estimates(main_function(module)) if e is not None)

    module = compile_model(model, "sim", {name: pictures(shape, 4, 1)}, observe=observe)
    assert {placement.where for placement in module.explain} == {"vta_0"}
    (picture,) = pictures(shape, 1, 2)
    (expected,) = run(model, {name: picture})
    error = np.sqrt(np.mean(np.square(module.run({name: picture})["r16"] - expected)))
    (estimate,) = estimates
    assert estimate / 4 < error < 1.5 * estimate < np.std(expected)
