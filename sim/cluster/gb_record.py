"""Which bytes of the global buffer a launch has written: it is undefined before."""

import numpy as np
from numpy.typing import NDArray

from ...dialects.target import ClusterTarget, MemoryScope
from ...dialects.target.windows import GB_BASE
from ...dialects.vta.dma import Copy
from ...dialects.vta.encoding import Store, Transfer
from .program import scope

_GRANULE = 4
"""Bytes that the record counts as one: every transfer is a multiple of them."""


class GbRecord:
    """Which bytes of GB have been written in a launch."""

    def __init__(self, cluster: ClusterTarget) -> None:
        self._cluster = cluster
        self._written = np.zeros(cluster.gb_bytes // _GRANULE, bool)

    def write(self, first: int, rows: int, width: int, stride: int) -> None:
        """Rows of bytes at addresses of GB become written."""
        self._rows(first, rows, width, stride)[:] = True

    def missing(self, first: int, rows: int, width: int, stride: int) -> int | None:
        """The first address of some rows of bytes that nothing has written; None if there is
        none."""
        written = self._rows(first, rows, width, stride)
        if written.all():
            return None
        row, column = np.argwhere(~written)[0]
        return first + int(row) * stride + int(column) * _GRANULE

    def _rows(self, first: int, rows: int, width: int, stride: int) -> NDArray[np.bool_]:
        start = (first - GB_BASE) // _GRANULE
        shape, strides = (rows, width // _GRANULE), (stride // _GRANULE, 1)
        return np.ndarray(shape, np.bool_, self._written, start, strides)

    def touch(self, x: Transfer | Copy) -> int | None:
        """Record what a step writes; returns the first address that it reads and nobody wrote."""
        if isinstance(x, Copy):
            end = x.destination + x.nbytes
            if self._cluster.scope_of(x.destination, end) is MemoryScope.GB:
                self.write(x.destination, 1, x.nbytes, 0)
                return None
            return self.missing(x.source, 1, x.nbytes, 0)
        if scope(self._cluster, x) is not MemoryScope.GB:
            return None
        size = self._cluster.core.element_bytes(x.memory)
        place = (x.dram_base * size, x.y_size, x.x_size * size, x.x_stride * size)
        if isinstance(x, Store):
            self.write(*place)
            return None
        return self.missing(*place)
