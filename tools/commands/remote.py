"""Devices behind a wire, as the arguments of commands name them."""

import os
from typing import TYPE_CHECKING

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.commands.parsers.vta_serve import TOKEN

if TYPE_CHECKING:
    from vtac.runtime.remote.client import RemoteDevice


def device_at(address: str, certificates: str | None) -> "RemoteDevice":
    """The `vta-serve` at ``--remote HOST:PORT``, with the token that the environment has.

    certificates: a file of those to trust. Raises `CompileError`.
    """
    try:
        from vtac.runtime.remote.client import connect
    except ImportError as error:
        hint = "Install it: pip install 'vtac[remote]'."
        raise CompileError(Problem("--remote", f"needs the package {error.name}", hint)) from None
    return connect(address, os.environ.get(TOKEN) or None, certificates=certificates)
