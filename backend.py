"""ONNX's backend interface (``onnx.backend.base``) over the compiler and its runtime.

``vtac.backend.prepare(model)`` compiles, and ``run`` of what it returns takes the inputs in the
order of the model. It is what ONNX's own suite, ``onnx.backend.test``, calls. The device ``CPU``
(the suite's default) and ``VTA`` mean the same: whatever fits goes to the simulated accelerator.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, version_converter
from onnx.backend.base import Backend, BackendRep, Device

from vtac.dialects.arguments import (
    ANYTHING,
    NONE,
    TEXT,
    by_name,
    instance,
    several,
    takes,
    verify_arguments,
)
from vtac.dialects.errors import CompileError, Problem
from vtac.lowering.onnx_to_graph.check import OLDEST_OPSET
from vtac.runtime.executor import Module
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.placements import HOST

DEVICES = ("CPU", "VTA")
"""The names of devices that `VtacBackend.supports_device` knows."""


class VtacBackendRep(BackendRep):
    """A compiled model that runs on inputs in the order of the model."""

    def __init__(self, module: Module, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self.module = module
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in the order of the model.

        inputs: one value per input of the model, by position or by name; an array that stands alone
        is the first input. Raises `CompileError` if there are more than the model has, or if their
        types do not fit.
        """
        kind = by_name(ANYTHING) | several(ANYTHING) | instance("an array", np.ndarray)
        verify_arguments("argument", {"inputs": kind}, {"inputs": inputs})
        if isinstance(inputs, Mapping):
            feeds = dict(inputs)
        else:
            given = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            if len(given) > len(self._inputs):
                raise CompileError(
                    Problem("run", f"{len(given)} inputs for a model that has {len(self._inputs)}")
                )
            feeds = dict(zip(self._inputs, given, strict=False))
        found = self.module.run(feeds)
        return tuple(found[name] for name in self._outputs)

    @property
    def accelerated(self) -> list[str]:
        """The names of the nodes that the accelerator computes."""
        return [node.node for node in self.module.explain if node.where != HOST]


def _modern(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, converted by onnx to the oldest opset that we import if its own is older.

    The suite has such models and knows their results. `vtac.compile` does not convert: the user has
    to, and to check the result. Raises `CompileError` if onnx cannot convert it.
    """
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    if not versions or versions[0] >= OLDEST_OPSET:
        return model
    try:
        return version_converter.convert_version(model, OLDEST_OPSET)
    except (RuntimeError, version_converter.ConvertError) as error:
        what = f"opset {versions[0]}, which onnx cannot convert to {OLDEST_OPSET}: {error}"
        raise CompileError(Problem("model", what)) from error


def bind(model: onnx.ModelProto, constants: Mapping[str, np.ndarray[Any, Any]]) -> onnx.ModelProto:
    """A copy of a model in which some inputs are constants.

    The suite feeds weights and scales as inputs; the accelerator needs them at compile time.
    """
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    known = {value.name for value in model.graph.input}
    unknown = [name for name in constants if name not in known]
    if unknown:
        raise CompileError(
            [Problem(f"constant '{n}'", "the model has no such input") for n in unknown]
        )
    defaults = [t for t in model.graph.initializer if t.name not in constants]
    given = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    del bound.graph.initializer[:]
    bound.graph.initializer.extend([*defaults, *given])
    return bound


class VtacBackend(Backend):
    """Compiles and runs ONNX models: the class that `onnx.backend.test` asks for."""

    @classmethod
    @takes(
        model=instance("a ModelProto", onnx.ModelProto),
        device=TEXT,
        constants=by_name(ANYTHING) | NONE,
    )
    def prepare(
        cls,
        model: onnx.ModelProto,
        device: str = "CPU",
        constants: Mapping[str, np.ndarray[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> VtacBackendRep:
        """Compile a model.

        constants: values of inputs that become constants of the model. kwargs: the options of
        `vtac.compile` (target, calibration, shapes, ...).
        """
        if not cls.supports_device(device):
            raise CompileError(
                Problem(f"device {device!r}", "is not known", f"use {' or '.join(DEVICES)}")
            )
        model = _modern(model)
        if constants:
            model = bind(model, constants)
        initial = {tensor.name for tensor in model.graph.initializer}
        inputs = [value.name for value in model.graph.input if value.name not in initial]
        outputs = [value.name for value in model.graph.output]
        return VtacBackendRep(compile_model(model, **kwargs), inputs, outputs)

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Compile a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    @takes(device=TEXT)
    def supports_device(cls, device: str) -> bool:
        """Whether a device such as ``CPU`` or ``VTA:0`` is one of `DEVICES`."""
        return device.split(":")[0] in DEVICES and device.partition(":")[2] in ("", "0")


is_compatible = VtacBackend.is_compatible
prepare = VtacBackend.prepare
run = VtacBackend.run_model
run_model = VtacBackend.run_model
supports_device = VtacBackend.supports_device

__all__ = [
    "Device", "VtacBackend", "VtacBackendRep", "is_compatible", "prepare", "run", "run_model",
    "supports_device",
]  # fmt: skip
