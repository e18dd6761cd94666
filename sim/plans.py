"""The plans of GEMM, reset and ALU instructions, each made once.

A plan depends on the micro-ops of the kernel and on the loops. Those are one key; the micro-ops
without their smallest index are another, so that the same kernel at another place in the buffers
shares its plan.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Target
from ..dialects.vta.encoding import encode_micro_ops, micro_op_bits
from .alu_plan import AluPlan, in_order, plan_alu
from .elements import (
    Elements,
    Indices,
    Loop,
    Loops,
    decode_kernel,
    touched,
    verify_ranges,
)
from .errors import Fault
from .gemm_plan import MOST_INDICES, GemmPlan, plan_gemm
from .large import gemm_pieces

_PLANS = 1024
"""Plans of each kind that are kept."""

Bases = tuple[int, int, int]
"""The smallest dst, src and wgt of a kernel."""


class Plans:
    """The plans of one target, by kernel and loops, of which the latest are kept.

    Indices beyond their buffer are refused here, so that plans are always in range.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        cached = lru_cache(maxsize=_PLANS)
        self.gemm, self.reset, self.alu = cached(self._gemm), cached(self._reset), cached(self._alu)
        self._relative_gemm = cached(self._plan_gemm)
        self._relative_alu = cached(self._plan_alu)
        self._room = cached(self._largest_bases)
        self._depths = target.acc_depth, target.inp_depth, target.wgt_depth
        offsets, masks, reserved = micro_op_bits(target)
        self._bits = offsets.tolist(), masks.tolist(), int(reserved)
        self._piece = lru_cache(maxsize=2)(self._plan_gemm)

    def _kernel(
        self, kernel: bytes, loops: Loops, columns: tuple[int, ...], alu: bool
    ) -> tuple[Indices, list[Loop]]:
        """The micro-ops of a kernel, which stay inside the buffers, and its loops."""
        micro_ops, nest = decode_kernel(self.target, kernel), [Loop(*loop) for loop in loops]
        verify_ranges(self.target, micro_ops, nest, columns, alu)
        return micro_ops, nest

    def _gemm(self, kernel: bytes, loops: Loops) -> tuple[GemmPlan, Bases]:
        words = np.frombuffer(kernel, np.uint32)
        # Most kernels begin with the smallest index of each field.
        found = self._from_base(words, int(words[0]), loops)
        if found is None:
            micro_ops, _ = self._kernel(kernel, loops, (0, 1, 2), False)
            base = int(encode_micro_ops(self.target, *micro_ops.min(axis=0))[0])
            found = self._from_base(words, base, loops)
        assert found is not None, "a kernel in range, from its smallest indices on"
        return found

    def _from_base(
        self, words: NDArray[np.uint32], base: int, loops: Loops
    ) -> tuple[GemmPlan, Bases] | None:
        """The plan of micro-ops and its bases, the fields of ``base``; None unless all indices are
        these or larger, and inside the buffers.

        Words are subtracted whole. That is right where no field carries when they are added again;
        and none does where base and largest difference together stay inside each buffer, because
        the fields hold no less than the buffers.
        """
        offsets, masks, reserved = self._bits
        differences = (words - np.uint32(base)).tobytes()
        room = self._room(differences, loops)
        if room is None or base & reserved:
            return None
        dst, src, wgt = (base >> offset & mask for offset, mask in zip(offsets, masks, strict=True))
        if dst > room[0] or src > room[1] or wgt > room[2]:
            return None
        return self._relative_gemm(differences, loops), (dst, src, wgt)

    def _largest_bases(self, kernel: bytes, loops: Loops) -> list[int] | None:
        """The largest dst, src and wgt from which on a kernel stays inside the buffers; None if a
        word is not a micro-op.
        """
        try:
            micro_ops = decode_kernel(self.target, kernel)
        except Fault:
            return None
        return [
            depth - 1 - highest - sum((count - 1) * factors[column] for count, *factors in loops)
            for column, (depth, highest) in enumerate(
                zip(self._depths, micro_ops.max(axis=0).tolist(), strict=True)
            )
        ]

    def gemm_pieces(self, kernel: bytes, loops: Loops) -> Iterator[tuple[GemmPlan, Bases]]:
        """The GEMM plan in pieces, for a kernel that is `TooLarge`."""
        micro_ops, nest = self._kernel(kernel, loops, (0, 1, 2), False)
        most = MOST_INDICES // max(self.target.batch, self.target.block)
        for piece, part in gemm_pieces(micro_ops, nest, most):
            dst, src, wgt = (int(value) for value in piece.min(axis=0))
            relative = encode_micro_ops(self.target, *(piece - [dst, src, wgt]).T).tobytes()
            key = tuple((loop.count, *loop.factors) for loop in part)
            yield self._piece(relative, (key[0], key[1])), (dst, src, wgt)

    def alu_kernel(self, kernel: bytes, loops: Loops, use_imm: bool) -> tuple[Indices, list[Loop]]:
        """The indices [n, columns] that an ALU instruction uses, and its loops."""
        columns = (0, 1) if self.target.alu_imm_src or not use_imm else (0,)
        micro_ops, nest = self._kernel(kernel, loops, columns, True)
        return micro_ops[:, : len(columns)], nest

    def _plan_gemm(self, kernel: bytes, loops: Loops) -> GemmPlan:
        micro_ops, nest = decode_kernel(self.target, kernel), [Loop(*loop) for loop in loops]
        return plan_gemm(micro_ops, nest, self.target.batch, self.target.block)

    def _reset(self, kernel: bytes, loops: Loops) -> tuple[Elements, int, int]:
        """The accumulators that a GEMM writes or a reset clears, all of them in [low, high)."""
        cleared = touched(*self._kernel(kernel, loops, (0,), False), 0)
        if isinstance(cleared, slice):
            return cleared, cleared.start, cleared.stop
        return cleared, int(cleared[0]), int(cleared[-1]) + 1

    def _alu(self, kernel: bytes, loops: Loops, use_imm: bool) -> tuple[AluPlan, int]:
        micro_ops, _ = self.alu_kernel(kernel, loops, use_imm)
        base = int(micro_ops.min())
        relative = np.ascontiguousarray(micro_ops - base)
        return self._relative_alu(relative.tobytes(), micro_ops.shape[1], loops, use_imm), base

    def _plan_alu(self, relative: bytes, columns: int, loops: Loops, use_imm: bool) -> AluPlan:
        micro_ops = np.frombuffer(relative, np.intp).reshape(-1, columns)
        dst, *src = in_order(micro_ops, [Loop(*loop) for loop in loops])
        if not src:
            return plan_alu(dst, None, reads_dst=True)
        return plan_alu(dst, src[0], reads_dst=not use_imm)


@lru_cache(maxsize=16)
def plans_of(target: Target) -> Plans:
    """The plans of a target, shared by all machines."""
    return Plans(target)
