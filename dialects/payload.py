"""What a codegen leaves of one function: the form in which it goes into a package."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vtac.dialects.context import Array


@dataclass(frozen=True)
class Payload:
    """Anything that JSON holds, named files, and constants, which a package stores once.

    What they mean is between a codegen and its engine (`vtac.runtime.engine`), which gets the
    constants back in this order.
    """

    metadata: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    constants: Sequence[Array] = ()
