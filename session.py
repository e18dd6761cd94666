"""``vtac.InferenceSession``: onnxruntime's interface over the compiler and its runtime.

A script that uses onnxruntime changes one line::

    session = vtac.InferenceSession("model.onnx", calibration="samples.npz", target="pynq")
    outputs = session.run(None, {"image": image})

What fits runs on the accelerator, the rest in onnxruntime. The interface is that of
``onnxruntime.InferenceSession``: ``run``, ``get_inputs``, ``get_outputs``, ``get_providers``.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from vtac.dialects.arguments import (
    ANYTHING,
    MODEL,
    NONE,
    PATH,
    SAMPLES,
    TEXT,
    Kind,
    by_name,
    several,
    takes,
)
from vtac.dialects.errors import InputError, Problem
from vtac.dialects.target import MACHINE, Target
from vtac.runtime.executor import load
from vtac.runtime.package import Value
from vtac.runtime.samples import Source
from vtac.tools.driver.compiled_cache import compile_cached
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.options import options_from

ACCELERATOR, HOST = "VtaExecutionProvider", "CPUExecutionProvider"
"""The execution providers that a session may have, in the order in which they take nodes."""

PACKAGE = ".vtapkg"

Provider = str | tuple[str, Mapping[str, Any]]
"""The name of an execution provider, or its name and its options."""


class FeedError(InputError, InvalidArgument):  # type: ignore[misc]
    """Inputs or names of outputs that do not fit the model.

    onnxruntime raises its ``InvalidArgument`` on most of them, and ``ValueError`` on inputs that
    are missing: scripts that catch either go on working.
    """


def _is_named(value: object) -> bool:
    if not isinstance(value, tuple | list) or len(value) != 2:
        return False
    return isinstance(value[0], str) and isinstance(value[1], Mapping)


PROVIDER = TEXT | Kind("a pair of a name and options", _is_named)


@dataclass(frozen=True)
class NodeArg:
    """An input or output of a model, as onnxruntime describes it.

    type: in onnxruntime's words, such as ``tensor(float)``. shape: an extent for each axis, None
    where it is unknown.
    """

    name: str
    type: str
    shape: list[int | None]


class InferenceSession:
    """A compiled model that runs as a session of onnxruntime does.

    `module` is the compiled `vtac.Module`: its ``explain`` says what runs where, its ``profile``
    where the cycles go.
    """

    @takes(
        path_or_bytes=MODEL,
        providers=several(PROVIDER) | NONE,
        provider_options=several(by_name(ANYTHING)) | NONE,
        target=MACHINE,
        calibration=SAMPLES | NONE,
        cache=PATH | NONE,
    )
    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | onnx.ModelProto,
        sess_options: object | None = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        target: str | os.PathLike[str] | Target = "pynq",
        calibration: Source | None = None,
        cache: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        """Compile a model, or open a package.

        path_or_bytes: an ONNX model, or the path of a package (``.vtapkg``), which is opened as it
        is. sess_options: accepted so that scripts need not change; host parts run with one thread
        in any case. providers, provider_options: as onnxruntime takes them; the options of
        ``VtaExecutionProvider`` are the keywords of this function, and a list without that
        provider leaves the whole model on the host. target, calibration, options: those of
        `vtac.compile`. cache: a folder that keeps compiled models
        (`vtac.tools.driver.compiled_cache`).
        Raises `CompileError` if the model cannot be compiled or the options make no sense.
        """
        names, given = _providers(providers, provider_options)
        keywords = {
            "target": target,
            "calibration": calibration,
            "cache": cache,
            **options,
            **given,
        }
        if isinstance(path_or_bytes, str | os.PathLike) and Path(path_or_bytes).suffix == PACKAGE:
            self.module = load(path_or_bytes)
            return
        machine, samples = keywords.pop("target"), keywords.pop("calibration")
        folder = keywords.pop("cache")
        if ACCELERATOR not in names:
            keywords["codegens"] = ()
        chosen = options_from(**keywords)
        with warnings.catch_warnings():
            if ACCELERATOR not in names:  # then no samples are needed
                warnings.simplefilter("ignore")
            if folder is None:
                self.module = compile_model(path_or_bytes, machine, samples, chosen)
            else:
                self.module = compile_cached(folder, path_or_bytes, machine, samples, chosen)

    @takes(output_names=several(TEXT) | NONE, input_feed=by_name(ANYTHING))
    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: object | None = None,
    ) -> list[Any]:
        """The outputs with these names, in this order; None or none means all of the model.

        input_feed: an array for each input. run_options: accepted so that scripts need not change,
        and without effect. Raises `FeedError` on inputs that do not fit and on unknown names.
        """
        known = self.module.output_names
        names = list(output_names or known)
        unknown = [name for name in names if name not in known]
        if unknown:
            hint = f"It has {', '.join(known)}."
            raise FeedError(
                [
                    Problem(f"output {name!r}", "the model has no such output", hint)
                    for name in unknown
                ]
            )
        try:
            found = self.module.run(input_feed)
        except InputError as error:
            raise FeedError(error.problems) from None
        return [found[name] for name in names]

    def get_inputs(self) -> list[NodeArg]:
        """The inputs of the model, in its order."""
        return [_described(value.name, value) for value in self.module.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs of the model, in its order."""
        return [_described(name, value) for name, value in self.module.outputs]

    def get_providers(self) -> list[str]:
        """Who runs parts of the model: the accelerator, where it has any, and the host."""
        return [ACCELERATOR, HOST] if self.module.package.functions else [HOST]


def _described(name: str, value: Value) -> NodeArg:
    return NodeArg(name, value.type, list(value.shape or ()))


def _providers(
    providers: Sequence[Provider] | None, options: Sequence[Mapping[str, Any]] | None
) -> tuple[list[str], dict[str, Any]]:
    """The names of the known providers, and the options of the accelerator's.

    As onnxruntime does, warns about providers that are not there, and goes on without them.
    """
    wished: Sequence[Provider] = [ACCELERATOR, HOST] if providers is None else providers
    names: list[str] = []
    given: dict[str, Any] = {}
    for number, provider in enumerate(wished):
        name, mine = (provider, {}) if isinstance(provider, str) else provider
        if options is not None and number < len(options):
            mine = {**mine, **options[number]}
        if name not in (ACCELERATOR, HOST):
            known = f"{ACCELERATOR}, {HOST}"
            text = f"there is no execution provider {name!r} here; known: {known}"
            warnings.warn(text, stacklevel=3)
            continue
        names.append(name)
        if name == ACCELERATOR:
            given.update(mine)
    return names, given
