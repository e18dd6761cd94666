"""What a server offers besides packages: functions of the bytes of a request.

The runtime knows nothing of compilers; who starts a server gives it their services.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Service:
    """A function that a process of the server calls for each request, ``POST /PATH``.

    function: called with ``arguments`` and the body; returns the answer as JSON text, and raises
    `CompileError` on bodies that are not right. It must be found by its name in another process,
    and must not run what is in a body as code.
    """

    function: Callable[..., str]
    arguments: tuple[Any, ...] = ()
