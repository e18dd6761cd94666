"""vtac: an MLIR-style compiler from ONNX models to VTA, and a simulator of the machine.

``vtac.compile(model, target="pynq", calibration=samples)`` gives a `Module`: its ``run`` takes and
returns arrays by name, its ``save`` writes a package, which ``vtac.load`` reads again.
``vtac.evaluate(module, data, model)`` compares it with the original on data,
``vtac.report_html(module)`` shows it as a page,
``vtac.export_c(module, folder)`` writes it as a C project.
``vtac.tune(model, target, samples, "tune.db")`` searches better schedules, which
``vtac.compile(..., tuning="tune.db")`` uses. ``vtac.compile_for_throughput`` chooses the number of
samples per launch by the clock. ``vtac.te`` is for computations written in Python instead of a
model. `CompileOptions` are the options of ``compile``, which also takes them
as keywords; a `Pipeline` is the passes that it runs. A `Codegen` compiles parts of a network;
`Criteria` say which parts are worth it. `connect` opens a device behind a wire. `InferenceSession`
is onnxruntime's interface over all this. Mistakes of the user raise `CompileError`.
"""

import importlib

TYPE_CHECKING = False  # that of typing; without its import a command is guarded earlier
if TYPE_CHECKING:
    from vtac.dialects.errors import CompileError
    from vtac.dialects.target import Target
    from vtac.passes.graph.codegen import Codegen
    from vtac.passes.pipeline import Pipeline
    from vtac.runtime.c_project import export_c
    from vtac.runtime.executor import Module, load
    from vtac.runtime.remote.client import connect
    from vtac.session import InferenceSession
    from vtac.tools.driver.compiler import compile_model as compile
    from vtac.tools.driver.levels import Criteria
    from vtac.tools.driver.options import CompileOptions
    from vtac.tools.driver.throughput import compile_for_throughput
    from vtac.tools.report_page import report_html
    from vtac.tools.reports.evaluation import evaluate
    from vtac.tools.tensor_expressions import api as te
    from vtac.tools.tune.api import tune

__all__ = [
    "Codegen",
    "CompileError",
    "CompileOptions",
    "Criteria",
    "InferenceSession",
    "Module",
    "Pipeline",
    "Target",
    "compile",
    "compile_for_throughput",
    "connect",
    "evaluate",
    "export_c",
    "load",
    "report_html",
    "te",
    "tune",
]

_WHERE = {
    "Codegen": ("vtac.passes.graph.codegen", "Codegen"),
    "CompileError": ("vtac.dialects.errors", "CompileError"),
    "CompileOptions": ("vtac.tools.driver.options", "CompileOptions"),
    "Criteria": ("vtac.tools.driver.levels", "Criteria"),
    "InferenceSession": ("vtac.session", "InferenceSession"),
    "Module": ("vtac.runtime.executor", "Module"),
    "Pipeline": ("vtac.passes.pipeline", "Pipeline"),
    "Target": ("vtac.dialects.target", "Target"),
    "compile": ("vtac.tools.driver.compiler", "compile_model"),
    "compile_for_throughput": ("vtac.tools.driver.throughput", "compile_for_throughput"),
    "connect": ("vtac.runtime.remote.client", "connect"),
    "evaluate": ("vtac.tools.reports.evaluation", "evaluate"),
    "export_c": ("vtac.runtime.c_project", "export_c"),
    "load": ("vtac.runtime.executor", "load"),
    "report_html": ("vtac.tools.report_page", "report_html"),
    "te": ("vtac.tools.tensor_expressions.api", ""),
    "tune": ("vtac.tools.tune.api", "tune"),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562), so that ``import vtac`` is quick.

    ``te`` is a module; the other names are classes and functions of modules.
    """
    if name not in _WHERE:
        raise AttributeError(f"module 'vtac' has no attribute {name!r}")
    module, attribute = _WHERE[name]
    found: object = importlib.import_module(module)
    if attribute:
        found = getattr(found, attribute)
    globals()[name] = found
    return found
