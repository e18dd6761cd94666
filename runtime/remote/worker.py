"""What a process of the server does: runs and times packages, and keeps the last ones open."""

import json
import resource
import signal
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.executor import Module, RunRecord, load
from vtac.runtime.remote.wire import WireArrays

OPEN = 4
"""The most packages that a process keeps open."""

_modules: OrderedDict[str, Module] = OrderedDict()


def start(most_bytes: int) -> None:
    """Prepare a process: it has so much memory, and Ctrl-C is the server's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))


def run(
    path: str, native: bool, inputs: WireArrays, most: int, forms: Collection[str]
) -> tuple[WireArrays, str]:
    """The outputs for one batch of inputs, and the record of the run as JSON.

    most: bytes of the inputs, unpacked. forms: those of outputs that the client reads. Raises
    `CompileError` on packages and inputs that are not right.
    """
    module = _opened(path, native)
    feeds = inputs.arrays(most)
    try:
        outputs = module.run(feeds)
        return WireArrays.of(outputs, forms), json.dumps(record_values(module.last_run))
    except MemoryError:
        raise CompileError(Problem("run", "needs more memory than this server gives")) from None


def profile(path: str, native: bool, preset: str | None) -> str:
    """The profile of a package as JSON. Raises `CompileError`."""
    return _opened(path, native).profile(preset).json()


def record_values(record: RunRecord) -> dict[str, Any]:
    """The record of a run as plain values."""
    launches = [
        {"function": each.function, "seconds": each.seconds, "counters": asdict(each.counters)}
        for each in record.launches
    ]
    return {"launches": launches, "host_seconds": record.host_seconds}


def _opened(path: str, native: bool) -> Module:
    module = _modules.pop(path, None)
    if module is None:
        module = load(path, allow_native=native)
        while len(_modules) >= OPEN:
            _modules.popitem(last=False)
    _modules[path] = module
    return module
