"""What a `vta-serve` does for searches of schedules: it clocks and proves points of kernels.

A request is a JSON object that names the compiler, holds the text of a module with one kernel, and
one point of its space. All of it is data: the text is parsed, never run. The functions here are
called in the processes of the server (`vtac.runtime.remote.service.Service`).
"""

import json
from collections.abc import Mapping
from typing import Any

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import Point
from vtac.runtime.remote.service import Service
from vtac.tools.tune.code_digest import code_digest
from vtac.tools.tune.measure import Judge, Prover, failure, measure
from vtac.tools.tune.proof import Proof, prove
from vtac.tools.tune.protocol import Trial
from vtac.tools.tune.records import point_of, point_values

MEASURE, PROVE = "schedules/measure", "schedules/prove"
"""The paths of the two services, behind the address of the server."""

COMPILER, MODULE, TEMPLATE, POINT = "compiler", "module", "template", "point"
"""The keys of a request."""


def request_of(module: str, template: str, point: Point) -> bytes:
    """The body of a request for one point of the kernel in a module's text."""
    values = {
        COMPILER: code_digest(),
        MODULE: module,
        TEMPLATE: template,
        POINT: point_values(point),
    }
    return json.dumps(values).encode()


def services(judge: Judge = measure, prover: Prover = prove) -> Mapping[str, Service]:
    """The services that a server offers to searches, by their paths."""
    return {
        MEASURE: Service(_measured, (judge,)),
        PROVE: Service(_proved, (prover,)),
    }


def trial_of(text: bytes, point: Point) -> Trial:
    """The trial in an answer. Raises ValueError on what is none."""
    values = _object(text)
    cycles, why, millis = values.get("cycles"), values.get("why"), values.get("millis")
    is_count = cycles is None or (type(cycles) is int and cycles > 0)
    if not is_count or not isinstance(why, str) or type(millis) is not int:
        raise ValueError("is no trial")
    return Trial(point, cycles, why, millis)


def proof_of(text: bytes) -> Proof:
    """The proof in an answer. Raises ValueError on what is none."""
    values = _object(text)
    problem, bound = values.get("problem"), values.get("bound")
    if not isinstance(problem, str) or type(bound) is not int:
        raise ValueError("is no proof")
    return Proof(problem, bound)


def _measured(judge: Judge, body: bytes) -> str:
    """The trial of the point in a request, as JSON. Raises `CompileError` on other bodies."""
    module, template, point = _read(body)
    try:
        trial = judge(module, template, point)
    except MemoryError:
        raise
    except Exception as error:  # one point must not end a search
        trial = failure(point, error)
    return json.dumps({"cycles": trial.cycles, "why": trial.why, "millis": trial.millis})


def _proved(prover: Prover, body: bytes) -> str:
    """The proof of the point in a request, as JSON. Raises `CompileError` on other bodies."""
    module, template, point = _read(body)
    try:
        proof = prover(module, template, point)
    except MemoryError:
        raise
    except Exception as error:  # the point is then not proved
        proof = Proof(f"failed: {type(error).__name__}: {error}")
    return json.dumps({"problem": proof.problem, "bound": proof.bound})


def _read(body: bytes) -> tuple[str, str, Point]:
    """Module text, template and point of a request. Raises `CompileError`."""
    try:
        values = _object(body)
        module, template = values.get(MODULE), values.get(TEMPLATE)
        if not isinstance(module, str) or not isinstance(template, str):
            raise ValueError("has no module and template")
        point = point_of(values.get(POINT))
    except (ValueError, RecursionError) as error:
        raise CompileError(Problem("body", f"is no request for a schedule: {error}")) from None
    if values.get(COMPILER) != code_digest():
        hint = "Install the same one everywhere."
        raise CompileError(Problem("", "another vtac runs here than there", hint))
    return module, template, point


def _object(text: bytes) -> dict[str, Any]:
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("is no JSON object")
    return values
