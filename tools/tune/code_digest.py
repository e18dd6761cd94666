"""Which compiler this is, as measuring places tell each other: a digest of its Python files."""

import hashlib
from functools import cache
from pathlib import Path

import vtac

ROOMS = ("dialects", "passes", "lowering", "sim", "tools/driver", "tools/tune")
"""The rooms on which programs, and the cycles of programs, depend."""


@cache
def code_digest() -> str:
    """A digest of vtac's Python files: equal where programs and cycles are."""
    root = Path(vtac.__file__).parent
    digest = hashlib.sha256()
    for room in ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            digest.update(f"{file.relative_to(root).as_posix()}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
