"""Compiles a transformer, and says what its integers are in onnxruntime."""

import warnings
from typing import Any

import encoder
import numpy as np
from encoder import Form
from small_models import run
from xdsl.dialects.builtin import ModuleOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.target import Target
from vtac.lowering.graph_to_onnx import host_model

Array = np.ndarray[Any, np.dtype[Any]]

EVERYTHING = vtac.Criteria(compare=False)
"""On the accelerator also where the host would finish sooner."""


def compiled_encoder(
    form: Form, target: Target, samples: int = 4, criteria: vtac.Criteria = EVERYTHING
) -> tuple[vtac.Module, list[dict[str, Array]], list[Array]]:
    """The module; the first two batches of its inputs; and for each of them the first output of
    the quantised network in onnxruntime.

    samples: how many batches calibrate the network.
    """
    quantised = []

    def observe(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            quantised.append(host_model(module, ctx))

    feeds = encoder.feeds(form, samples * form.batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ranges from few samples
        module = vtac.compile(
            encoder.build(form), target, feeds, observe=observe, criteria=criteria
        )
    (model,) = quantised
    batches = [
        {name: array[start : start + form.batch] for name, array in feeds.items()}
        for start in (0, form.batch)
    ]
    return module, batches, [run(model, batch)[0] for batch in batches]
