"""What the reader of a page has at hand: the models, samples and arrays that its blocks mention."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from installed_codegens import declare
from onnx import TensorProto, helper, numpy_helper

Names = Mapping[str, Any]


def names_of(page: str, folder: Path) -> Names:
    """Write the files that a page takes for granted into its folder, and return the names."""
    return GIVEN.get(page, lambda _: {})(folder)


def _partitioning(folder: Path) -> Names:
    import vtac
    from vtac.tools.driver.discovery import our_codegens

    declare(folder)
    our_codegens.cache_clear()
    rng = np.random.default_rng(3)
    onnx.save(_small_model("x", "y"), folder / "model.onnx")
    return {"vtac": vtac, "samples": rng.uniform(-1, 1, (8, 3, 8, 8)).astype(np.float32)}


def _kernel(folder: Path) -> Names:
    text = Path(__file__).parents[2] / "docs/matrix_product.mlir"
    (folder / "kernel.mlir").write_text(text.read_text())
    return {}


def _small_model(image: str, logits: str) -> onnx.ModelProto:
    """A convolution with a relu, and a dense layer with four results."""
    rng = np.random.default_rng(5)
    weights = {"w": (8, 3, 3, 3), "v": (4, 8 * 8 * 8)}
    constants = [
        numpy_helper.from_array(rng.normal(0, 0.2, shape).astype(np.float32), name)
        for name, shape in weights.items()
    ]
    nodes = [
        helper.make_node("Conv", [image, "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Flatten", ["r"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "v"], [logits], name="dense", transB=1),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in ((image, [1, 3, 8, 8]), (logits, [1, 4]))
    ]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], constants)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


NEEDED: Mapping[str, tuple[str, ...]] = {"docs/report.md": ("jinja2", "vl_convert")}
"""Packages without which the blocks of a page do not run: those of an extra."""

GIVEN: Mapping[str, Callable[[Path], Names]] = {
    "docs/partitioning.md": _partitioning,
    "docs/primitives.md": _kernel,
}
