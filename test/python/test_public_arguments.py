"""Every parameter of every public callable answers nonsense with an error of vtac's own.

The table says, for each callable and parameter, which values of a pool make sense there. All others
must raise `vtac.CompileError`. One that knows nothing but the argument names the parameter, shows
the value (or its class) and says what to give; others at least show a text that is at fault. What
is public, and its parameters, are asked of the package itself, so that a new one fails here until
it stands in the table.
"""

import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import vtac
from vtac import backend
from vtac.dialects.arguments import ArgumentError

POOL: dict[str, object] = {
    "None": None,
    "negative": -1,
    "zero": 0,
    "one": 1,
    "half": 0.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "True": True,
    "False": False,
    "empty text": "",
    "text": "nonsense",
    "text with a zero": "a\0b",
    "bytes": b"\xff",
    "object": object(),
    "class": dict,
    "function": print,
    "empty list": [],
    "numbers": [-2, 1.5],
    "list of None": [None],
    "empty dictionary": {},
    "dictionary of numbers": {1: 2},
    "set": {1},
    "message": onnx.ModelProto(),
}
"""Values that a user may give by mistake."""

TEXTS = {"text", "text with a zero", "empty text"}
EMPTY = {"empty list"}
FLAGS = {"True", "False"}
NUMBERS = {"zero", "one", "half", "negative"}
LISTS = {"empty list", "empty dictionary", "set", "numbers", "list of None"}
PATHS = {"text"}
SAMPLES = {"None", "text", "empty list", "numbers", "list of None", "empty dictionary"}
"""What passes for samples at first sight: it is read, and then judged by what is in it."""
ANY = set(POOL)

DATA = {"feeds", "input_feed", "inputs", "labels", "data"}
"""Parameters that take arrays, of which messages say types and shapes."""

OPTIONS: dict[str, set[str]] = {
    "shapes": {"None", "empty dictionary"},
    "batch": {"None", "one"},
    "shift": set(),
    "requantise": set(),
    "method": set(),
    "percentile": {"one", "half"},
    "layer_errors": FLAGS,
    "min_layer_snr": {"None", *NUMBERS},
    "error_samples": SAMPLES,
    "codegens": {"None", "empty list", "set", *TEXTS} - {"set"},
    "criteria": {"None"},
    "keep_float": EMPTY | TEXTS,
    "tuning": {"None", "False", "empty list", "text"},
    "trials": FLAGS,
    "pipeline": {"None", "function", "class"},
    "save_ir": {"None"} | PATHS,
    "keep_ir": EMPTY,
    "observe": {"None", "function", "class"},
    "progress": {"None", "function", "class"},
}
"""The fields of `CompileOptions`, which are keywords of whatever compiles."""

COMPILE = {
    "model": set(),
    "target": set(),
    "calibration": SAMPLES - {"text"},
    "options": {"None"},
}
CALLABLES: dict[str, tuple[dict[str, object], dict[str, set[str]]]] = {
    "compile": ({"model": "MODEL"}, COMPILE),
    "compile_for_throughput": (
        {"model": "MODEL"},
        {
            "model": set(),
            "target": set(),
            "calibration": SAMPLES - {"text"},
            "batches": {"None"},
            "options": {"None"},
        },
    ),
    "connect": (
        {"address": "127.0.0.1:1"},
        {
            "address": set(),
            "token": {"None", *TEXTS},
            "certificates": {"None"},
            "seconds": {"half", "one"},
        },
    ),
    "evaluate": (
        {"module": "MODULE", "data": "DATA"},
        {
            "module": set(),
            "data": SAMPLES - {"None"},
            "reference": {"None"},
            "labels": {"None", "one", *LISTS},
            "limit": {"None", "one"},
            "progress": {"None", "function", "class"},
        },
    ),
    "export_c": ({"model": "MODULE", "folder": "FOLDER"}, {"model": set(), "folder": PATHS}),
    "load": (
        {"path": "PACKAGE"},
        {
            "path": set(),
            "device": {"None"},
            "engines": {"None", "empty dictionary"},
            "allow_native": FLAGS,
        },
    ),
    "report_html": (
        {"module": "MODULE"},
        {
            "module": set(),
            "title": TEXTS,
            "preset": {"None"},
            "layer_errors": {"None", "empty list"},
        },
    ),
    "tune": (
        {"source": "MODEL", "trials": 1},
        {
            "source": set(),
            "target": set(),
            "calibration": SAMPLES,
            "database": {"None", *PATHS},
            "method": set(),
            "trials": {"None", "one"},
            "seconds": {"None", "half", "one"},
            "patience": {"None", "one"},
            "jobs": {"one"},
            "measurer": {"None"},
            "layers": EMPTY,
            "options": {"None"},
            "compile_options": {"None"},
            "fresh": FLAGS,
            "select": {"None", *PATHS},
            "prove_all": FLAGS,
            "progress": {"None"},
            "interrupted": {"function", "class"},
            "note": {"function", "class"},
        },
    ),
    "CompileOptions": ({}, OPTIONS),
    "Criteria": (
        {},
        {
            "max_ops": {"None", "one"},
            "min_macs": {"zero", "one"},
            "max_border_bytes": {"None", "zero", "one"},
            "compare": FLAGS,
            "host": {"empty dictionary"},
        },
    ),
    "InferenceSession": (
        {"path_or_bytes": "MODEL"},
        {
            "path_or_bytes": set(),
            "sess_options": ANY,
            "providers": {"None", "empty list"},
            "provider_options": {"None", "empty list"},
            "target": set(),
            "calibration": SAMPLES - {"text"},
            "cache": {"None", *PATHS},
        },
    ),
    "InferenceSession.run": (
        {"output_names": None, "input_feed": "FEED"},
        {"output_names": {"None", "empty list"}, "input_feed": set(), "run_options": ANY},
    ),
    "Module": (
        {"package": "CONTENTS"},
        {
            "package": set(),
            "device": {"None"},
            "report": ANY,
            "engines": {"None", "empty dictionary"},
        },
    ),
    "Module.save": ({"path": "FILE"}, {"path": PATHS}),
    "Module.run": (
        {"feeds": "FEED"},
        {
            "feeds": set(),
            "order_seed": {"None", "zero", "one"},
            "dump": {"None", *PATHS},
            "overlap": FLAGS,
        },
    ),
    "Module.profile": ({}, {"preset": {"None"}}),
    "Module.memory_use": ({"profile": "PROFILE"}, {"profile": set()}),
    "Module.flow_bounds": ({"profile": "PROFILE"}, {"profile": set()}),
    "Pipeline": ({}, {"segments": EMPTY}),
    "Pipeline.of": (
        {"passes": "fold-constants"},
        {
            "passes": {"text", "empty text"},
            "level": TEXTS,
            "is_checked_later": FLAGS,
        },
    ),
    "Pipeline.reaching": ({"level": "x"}, {"level": TEXTS}),
    "Pipeline.replace": (
        {"where": "fold-constants", "passes": "fold-constants"},
        {"where": set(), "passes": {"text", "empty text"}},
    ),
    "Pipeline.without": ({"where": "fold-constants"}, {"where": set()}),
    "Pipeline.before": (
        {"where": "fold-constants", "passes": "fold-constants"},
        {"where": set(), "passes": {"text", "empty text"}},
    ),
    "Pipeline.after": (
        {"where": "fold-constants", "passes": "fold-constants"},
        {"where": set(), "passes": {"text", "empty text"}},
    ),
    "Pipeline.with_options": ({"name": "fold-constants"}, {"name": set()}),
    "Pipeline.since": ({"level": "end"}, {"level": set()}),
    "Pipeline.until": ({"level": "end"}, {"level": set()}),
    "Pipeline.split": ({"name": "fold-constants"}, {"name": set()}),
    "Target.named": ({"name": "sim"}, {"name": set()}),
    "Target.of": ({"spec": "sim"}, {"spec": set()}),
    "Target.from_file": ({"path": "TARGET"}, {"path": set()}),
    "backend.prepare": (
        {"model": "MODEL"},
        {"model": set(), "device": set(), "constants": {"None", "empty dictionary"}},
    ),
    "backend.run_model": (
        {"model": "MODEL", "inputs": "FEED"},
        {"model": set(), "inputs": set(), "device": set()},
    ),
    "backend.supports_device": ({"device": "CPU"}, {"device": TEXTS}),
    "backend.VtacBackendRep.run": ({"inputs": "FEED"}, {"inputs": set()}),
}
"""Callable: arguments that make sense, and for each parameter the values of `POOL` that do.

Names in capitals stand for what `given` has.
"""

ELSEWHERE = {
    "Codegen": "its methods are for the compiler to call",
    "CompileError": "an exception",
    "te": "a module with tests of its own",
}
"""Public names that are not in the table, and why."""


def model() -> onnx.ModelProto:
    node = helper.make_node("Relu", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@cache
def module() -> vtac.Module:
    return vtac.compile(model(), calibration=np.ones((2, 1, 4), np.float32))


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("arguments")
    module().save(folder / "m.vtapkg")
    (folder / "t.toml").write_text('base = "sim"\n')
    return {
        "MODEL": model(),
        "MODULE": module(),
        "DATA": {"x": np.ones((2, 1, 4), np.float32), "y": np.ones(2)},
        "FOLDER": folder / "c",
        "FILE": folder / "n.vtapkg",
        "PACKAGE": folder / "m.vtapkg",
        "CONTENTS": module().package,
        "FEED": {"x": np.ones((1, 4), np.float32)},
        "PROFILE": module().profile(),
        "TARGET": folder / "t.toml",
    }


def function_named(name: str) -> Callable[..., Any]:
    """A callable of the table; methods are those of an object."""
    owner, _, last = name.rpartition(".")
    owners: dict[str, Any] = {
        "": lambda: vtac,
        "Module": module,
        "Pipeline": lambda: vtac.Pipeline.of("fold-constants", "end"),
        "Target": lambda: vtac.Target,
        "InferenceSession": lambda: vtac.InferenceSession(model()),
        "backend": lambda: backend,
        "backend.VtacBackendRep": lambda: backend.prepare(model()),
    }
    found: Callable[..., Any] = getattr(owners[owner](), last)
    return found


def signature_of(name: str) -> inspect.Signature:
    owner, _, last = name.rpartition(".")
    if owner == "backend.VtacBackendRep":
        return inspect.signature(backend.VtacBackendRep.run)
    where = {"": vtac, "backend": backend}.get(owner) or getattr(vtac, owner)
    return inspect.signature(getattr(where, last))


WRONG = [
    (name, parameter, value)
    for name, (_, parameters) in CALLABLES.items()
    for parameter, sensible in parameters.items()
    for value in POOL
    if value not in sensible
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "parameter"), {(n, p): None for n, p, _ in WRONG})
def test_nonsense_is_answered_with_parameter_value_and_way_out(
    name: str,
    parameter: str,
    given: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = {
        key: given.get(str(v), v) if isinstance(v, str) else v
        for key, v in CALLABLES[name][0].items()
    }
    function = function_named(name)
    faults = []
    for value in [v for n, p, v in WRONG if (n, p) == (name, parameter)]:
        try:
            function(**{**arguments, parameter: POOL[value]})
        except ArgumentError as error:
            ((problem,), wrong) = error.problems, POOL[value]
            shown = repr(wrong) in problem.what or type(wrong).__name__ in problem.what
            if problem.where.split()[-1] != parameter or not (shown and problem.hint):
                faults.append(f"{value}: says only {error}")
        except vtac.CompileError as error:
            if value == "text" and parameter not in DATA and "nonsense" not in str(error):
                faults.append(f"{value}: says only {error}")
        except Exception as error:
            faults.append(f"{value}: {type(error).__name__}: {str(error)[:100]}")
        else:
            faults.append(f"{value}: accepted")
    assert not faults, "\n".join(faults)


def test_all_public_callables_and_parameters_are_in_the_table() -> None:
    assert {name.split(".")[0] for name in CALLABLES} - {"backend"} == {*vtac.__all__} - {
        *ELSEWHERE
    }
    for name, (_, parameters) in CALLABLES.items():
        kinds = inspect.Parameter
        known = [
            p.name
            for p in signature_of(name).parameters.values()
            if p.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL) and p.name != "self"
        ]
        assert known == list(parameters), name
    classes = (vtac.Module, vtac.Pipeline, vtac.InferenceSession)
    for owner in classes:
        for each, found in vars(owner).items():
            if inspect.isfunction(found) and not each.startswith("_"):
                takes_none = len(inspect.signature(found).parameters) == 1
                assert takes_none or f"{owner.__name__}.{each}" in CALLABLES, each


@pytest.mark.parametrize("option", OPTIONS)
def test_options_of_compile_are_judged_as_keywords(option: str) -> None:
    wrong = [value for value in POOL if value not in OPTIONS[option]]
    for value in wrong:
        with pytest.raises(ArgumentError, match=f"option {option}: "):
            vtac.compile(model(), **{option: POOL[value]})


def test_all_wrong_arguments_of_a_call_are_told_at_once() -> None:
    with pytest.raises(vtac.CompileError) as caught:
        vtac.compile(None, target=None, calibration=3)
    assert len(caught.value.problems) == 3
