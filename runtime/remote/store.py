"""The packages that a server has: files in a folder of its own, by digest, within bounds."""

import hashlib
import re
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtac.dialects.errors import CompileError, Problem

_DIGEST = re.compile(r"[0-9a-f]{64}")


class PackageStore:
    """Packages by the SHA-256 of their bytes. Those used longest ago give way to new ones."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most = folder, most_bytes
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._held = Counter[str]()

    @property
    def total(self) -> int:
        """The bytes of all packages."""
        return sum(self._sizes.values())

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, digest: str) -> bool:
        return digest in self._sizes

    @contextmanager
    def holding(self, digest: str) -> Iterator[Path]:
        """The file of a package, which stays until the body ends. Raises KeyError."""
        self._sizes.move_to_end(digest)
        self._held[digest] += 1
        try:
            yield self._file(digest)
        finally:
            self._held[digest] -= 1

    def _file(self, digest: str) -> Path:
        return self._folder / f"{digest}.vtapkg"

    def add(self, digest: str, data: bytes) -> None:
        """Keep a package. Raises `CompileError` if these are not its bytes, or too many."""
        if not _DIGEST.fullmatch(digest) or hashlib.sha256(data).hexdigest() != digest:
            raise CompileError(Problem("package", "its bytes do not have this digest"))
        if len(data) > self._most:
            raise CompileError(Problem("package", f"is larger than {self._most:,} bytes"))
        if digest in self._sizes:
            return
        while self.total + len(data) > self._most:
            idle = next((each for each in self._sizes if not self._held[each]), None)
            if idle is None:
                raise CompileError(Problem("package", "the store is full of packages that run"))
            del self._sizes[idle]
            self._file(idle).unlink()
        self._file(digest).write_bytes(data)
        self._sizes[digest] = len(data)
