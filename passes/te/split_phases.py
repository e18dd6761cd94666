"""``te-split-phases``: a transposed convolution as its phases, instead of with inserted zeros.

A transposed convolution reads its input at quotients, ``x[(h - kh + p) / s]``: as if s - 1 zeros
lay between neighbours. Outputs h = s * q + r with the same r (a *phase*) meet the same taps, kh =
s * t + r + const, and for these the quotient is whole: ``x[q - t + const]``. So the axis h becomes
(q, r), the axis kh becomes t, and every read is affine: an ordinary convolution with s times as
many outputs and an s-th of the taps (the decomposition of Shi et al., "Is the deconvolution layer
the same as a convolutional layer?", and of every library since). Taps that do not exist are reads
outside the weights.

Takes kernels of tensors; leaves no divided subscript. Stages that read such a result element by
element follow it to (q, r). Results of functions get a layout that puts the phases together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import ComputeOp, Dimension, KernelOp, Layout, Read, Row, shaped
from vtac.passes.te.borders import Part, replace_results, results_of
from vtac.passes.te.computes import fresh_name, replace_compute

WHY = "its result lies in phases, and another kernel reads it: only the host puts phases together"


@dataclass(frozen=True)
class SplitPhasesPass(ModulePass):
    """Compute at quotients phase by phase."""

    name = "te-split-phases"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every kernel of tensors that divides."""
        for kernel in op.ops:
            if isinstance(kernel, KernelOp) and any(map(_divided, kernel.computes)):
                _Splitter(op, kernel).run()


@dataclass(frozen=True)
class Phases:
    """How an axis of outputs is split: index = period * (q - first) + step * r.

    q runs over ``count`` values, r over ``period``. step is 1 unless taps are dilated.
    """

    period: int
    step: int
    count: int

    @property
    def first(self) -> int:
        """The q of index 0: with a step above 1 phases begin before it."""
        return self.step * (self.period - 1) // self.period if self.step > 1 else 0

    def row(self, outer: int, inner: int) -> Row:
        """The index over the two new variables."""
        return Row.of([(outer, self.period), (inner, self.step)], -self.period * self.first)

    @staticmethod
    def of(period: int, step: int, extent: int) -> "Phases":
        """The phases of an axis of that extent."""
        first = step * (period - 1) // period if step > 1 else 0
        return Phases(period, step, -(-extent // period) + first)


Split = Mapping[int, Phases]
"""Which dimensions of a tensor are split."""


def _divided(compute: ComputeOp) -> list[Row]:
    return [row for read in compute.reads for row in read.rows if row.divisor > 1]


@dataclass
class _Splitter:
    module: ModuleOp
    kernel: KernelOp

    def run(self) -> None:
        """Rewrite the computes in order, each after those that it reads."""
        splits: dict[SSAValue, Split] = {}
        results = results_of(self.kernel)
        final: dict[SSAValue, tuple[SSAValue, Split]] = {}
        for compute in self.kernel.computes:
            old = compute.result
            new, split = self._rewrite(compute, splits)
            if split:
                splits[new] = split
            if old in results:
                final[old] = new, split
        parts = [self._part(*final[value]) if final[value][1] else None for value in results]
        replace_results(self.module, self.kernel, parts, WHY)

    def _part(self, value: SSAValue, split: Split) -> list[Part]:
        def layout(known: Layout) -> Layout:
            shape = shaped(value).get_shape()
            rows, place = [], 0
            for dim in range(len(known.dimensions)):
                phases = split.get(dim)
                rows.append(phases.row(place, place + 1) if phases else Row.of([(place, 1)]))
                place += 2 if phases else 1
            return known.within([Dimension(((f"d{d}", n),), n) for d, n in enumerate(shape)], rows)

        return [(value, layout)]

    def _rewrite(
        self, compute: ComputeOp, splits: Mapping[SSAValue, Split]
    ) -> tuple[SSAValue, Split]:
        """The compute with its axes split, as its quotients and what it reads demand."""
        axes = _Axes(compute, self._where(compute))
        for row in _divided(compute):
            axes.divide(row)
        for read in compute.reads:
            axes.follow(read, splits.get(read.value, {}))
        if compute.init is not None and splits.get(compute.init, {}) != axes.outputs:
            raise CompileError(
                Problem(self._where(compute), "it accumulates onto a tensor split otherwise")
            )
        if not axes.outputs:
            return compute.result, {}
        new = axes.rewritten(splits)
        replace_compute(compute, new)
        return new.result, axes.outputs

    def _where(self, compute: ComputeOp) -> str:
        return f'te.kernel @{self.kernel.sym_name.data}, stage "{compute.label.data}"'


class _Axes:
    """The axes of one compute, and how they are split.

    outputs: spatial axes. taps: reduction axes, as (period, first tap): index = period * t + r +
    first, with the r of the output axis ``partner``.
    """

    def __init__(self, compute: ComputeOp, where: str):
        self.compute, self.where = compute, where
        self.rank = len(compute.spatial)
        self.outputs: dict[int, Phases] = {}
        self.taps: dict[int, tuple[int, int]] = {}
        self.partner: dict[int, int] = {}

    def divide(self, row: Row) -> None:
        """Split the axes of a quotient so that it becomes whole."""
        period = row.divisor
        moving = [(v, c) for v, c in row.terms if c % period]
        outputs = [term for term in moving if term[0] < self.rank]
        taps = [term for term in moving if term[0] >= self.rank]
        if len(outputs) != 1 or len(taps) != 1:
            raise self._refusal("a quotient needs one output axis and one tap that do not divide")
        (output, c), (tap, k) = outputs[0], taps[0]
        if gcd(c, period) > 1 or gcd(k, period) > 1:
            raise self._refusal(
                f"its subscript has coefficients that share a factor with the divisor {period}"
            )
        # c * step + k = 0 modulo period: the next tap belongs to an output that is step further.
        step = -k * pow(c, -1, period) % period
        first = -(row.constant * pow(k, -1, period) % period)
        phases = Phases.of(period, step, self.compute.extents[output])
        if self.outputs.get(output, phases) != phases:
            raise self._refusal("two quotients split one axis in two ways")
        if self.taps.get(tap, (period, first)) != (period, first):
            raise self._refusal("two quotients split one axis in two ways")
        if self.partner.get(tap, output) != output:
            raise self._refusal("a tap belongs to two output axes")
        self.outputs[output] = phases
        self.taps[tap] = period, first
        self.partner[tap] = output

    def follow(self, read: Read, split: Split) -> None:
        """Split the axes with which a split tensor is read."""
        for dim, phases in split.items():
            axis = read.rows[dim].variable
            if axis is None or axis >= self.rank:
                raise self._refusal(
                    "it reads the phases of a transposed convolution other than one by one"
                )
            if self.outputs.setdefault(axis, phases) != phases:
                raise self._refusal("it reads two tensors in different phases")

    def _refusal(self, what: str) -> CompileError:
        return CompileError(
            Problem(
                self.where, what, "Stride and dilation of a transposed convolution are coprime."
            )
        )

    def rewritten(self, splits: Mapping[SSAValue, Split]) -> ComputeOp:
        """The compute over the new axes."""
        rows = self._substitution()
        spatial = dict(self._new_axes(range(self.rank), set(self._names)))
        reduce = dict(self._new_axes(range(self.rank, len(self._names)), {*self._names, *spatial}))
        reads = []
        for read in self.compute.reads:
            split = splits.get(read.value, {})
            subscripts: list[Row] = []
            for dim, row in enumerate(read.rows):
                if dim in split:
                    (axis, _) = row.terms[0]
                    subscripts += [Row.of([(place, 1)]) for place in self._places[axis]]
                else:
                    subscripts.append(row.substituted(rows))
            extents = (*spatial.values(), *reduce.values())
            # Outputs of the last phases that read beyond a tensor's end are cut off later; reads
            # there give 0.
            new = Read(read.value, tuple(subscripts), read.outside)
            reads.append(new.bordered(extents, 0))
        return ComputeOp(
            self.compute.label.data,
            spatial,
            reduce,
            reads,
            self.compute.body.clone(),
            self.compute.element_type,
            identity=None if self.compute.identity is None else self.compute.identity.value.data,
            init=self.compute.init,
        )

    @property
    def _names(self) -> tuple[str, ...]:
        return self.compute.spatial.names + self.compute.reduce.names

    @property
    def _places(self) -> list[tuple[int, ...]]:
        """The new variables of each old axis."""
        places, count = [], 0
        for axis in range(len(self._names)):
            size = 2 if axis in self.outputs else 1
            places.append(tuple(range(count, count + size)))
            count += size
        return places

    def _substitution(self) -> list[Row]:
        """Each old variable as an expression in the new ones."""
        places, rows = self._places, []
        for axis in range(len(self._names)):
            if axis in self.outputs:
                rows.append(self.outputs[axis].row(*places[axis]))
            elif axis in self.taps:
                period, first = self.taps[axis]
                phase = places[self.partner[axis]][1]
                rows.append(Row.of([(places[axis][0], period), (phase, 1)], first))
            else:
                rows.append(Row.of([(places[axis][0], 1)]))
        return rows

    def _new_axes(self, axes: Sequence[int], taken: set[str]) -> Iterator[tuple[str, int]]:
        for axis in axes:
            name, extent = self._names[axis], self.compute.extents[axis]
            if axis in self.outputs:
                phases = self.outputs[axis]
                yield name, phases.count
                inner = fresh_name(f"{name}_phase", taken)
                taken.add(inner)
                yield inner, phases.period
            elif axis in self.taps:
                period, first = self.taps[axis]
                yield name, (extent - 1 - first) // period + 1
            else:
                yield name, extent
