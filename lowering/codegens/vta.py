"""The codegen ``vta``: integer groups that end in a requantisation, a pooling or byte planes.

It takes int8 only, so it has the network quantised first; its functions then go through the rest of
the compiler.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType, f32, i8
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import (
    AddBiasOp,
    AddOp,
    BatchMatMulOp,
    ClipOp,
    CompositeOp,
    ConcatOp,
    ConstantOp,
    ConvOp,
    DepthToSpaceOp,
    GemmOp,
    HostOp,
    MaxOp,
    MaxPoolOp,
    MinOp,
    MovesElements,
    MulOp,
    MultiplyShiftOp,
    RequantizeOp,
    RequantizePlanesOp,
    RescaleOp,
    ReshapeOp,
    ShiftLeftOp,
    ShiftRightByOp,
    SliceOp,
    SplitBytesOp,
    SumPoolOp,
    TransposeOp,
    UpsampleOp,
    given_by,
    lies_as_weights,
    shape_of,
    weights_of,
)
from vtac.dialects.graph.rectangles import moves_whole_elements
from vtac.dialects.target import Target, target_at
from vtac.dialects.vta import ClusterOp, ProgramOp
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.dialects.vta.program import BinaryProgram
from vtac.lowering.codegens.vta_cycles import is_worth_joining, region_cycles
from vtac.lowering.vta_to_binary import encode_cluster, encode_program
from vtac.passes.graph.codegen import Codegen, NamedPattern
from vtac.passes.graph.conv_transpose_phases import can_split
from vtac.passes.graph.float_groups.rules import RULES
from vtac.passes.graph.patterns import (
    Predicate,
    Recursive,
    any_operands,
    constant,
    op,
    wildcard,
)
from vtac.passes.graph.quantise_options import QuantiseOptions
from vtac.passes.graph.reasons import Reason, ReasonKind, unusable_shape
from vtac.passes.pipeline import Pipeline

QUANTISED = "quantised"
"""The level at which the network is in integers where it was calibrated or brought its scales."""

LOWERING = (
    Pipeline.of(
        "graph-to-te,te-fill-lanes,te-cut-calls,te-insert-copies,te-narrow-bands,te-legalize-casts,"
        "te-fuse-accumulators,te-split-bodies,te-drop-clips,te-nest-shifts,te-correct-borders,"
        "te-place-biases,te-block-immediates,te-extremes-first,te-split-windows,te-share-tiles,"
        "te-cover-stores,te-schedule",
        "te",
        is_checked_later=True,  # by applying the schedules
    )
    + Pipeline.of(
        "te-declare-intrinsics,te-to-loops,te-apply-schedule,te-share-buffers,te-simplify-loops,"
        "te-pack-constants",
        "loops",
        is_checked_later=True,  # by encoding and by the hazard checker
    )
    + Pipeline.of(
        "te-to-vta,vta-place-scratch,vta-stage-weights,vta-insert-semaphores,vta-allocate,"
        "vta-split-loads,vta-drop-loads,vta-order-instructions,vta-join-loads,"
        "vta-join-biases,vta-join-compute,vta-plan-microops,vta-insert-dependences",
        "vta",
        is_checked_later=True,  # by encoding and by the hazard checker
    )
)
"""From functions of integer ops to programs."""

NOT_QUANTISED = Reason(
    "it computes with real numbers: nothing calibrated its quantisation",
    ReasonKind.TYPE,
    "Give samples of the inputs: --calibrate data.npz.",
)


MOST_OPERANDS = 512
"""The most values that one kernel reads, each counted as often as it is read."""

MOST_JOINED = 128
"""The most operands of a concatenation.

Where they fill no whole elements, it is a sum of convolutions whose weights grow with the square of
the channels.
"""

TOO_WIDE = Reason(
    f"it reads more than {MOST_OPERANDS} values at once",
    ReasonKind.OPERATOR,
    "Add fewer values in one sum.",
)

JOINS_MANY = Reason(
    f"it joins more than {MOST_JOINED} values at once",
    ReasonKind.OPERATOR,
    "Join fewer values in one node.",
)

NO_PRODUCTS = Reason(
    "it multiplies two tensors, and the ALU of the target does not multiply (sim's does)",
    ReasonKind.OPERATOR,
    "Compile for a target that multiplies (alu_mul).",
)


def _static(operation: Operation) -> str | None:
    reasons = map(unusable_shape, (*operation.operands, *operation.results))
    return next((reason for reason in reasons if reason is not None), None)


def _int8_input(operation: Operation) -> str | None:
    type = operation.operands[0].type
    if isinstance(type, TensorType) and type.get_element_type() != i8:
        what = f"it computes with {type.get_element_type()}, the accelerator takes int8"
        moves = operation.has_trait(MovesElements)
        hint = "None needed: it moves what the host computes, or hands over." if moves else ""
        return Reason(what, ReasonKind.TYPE, hint)
    return None


def _transposed_weights(operation: Operation) -> str | None:
    assert isinstance(operation, GemmOp)
    if operation.trans_a.value.data or not operation.trans_b.value.data:
        what = "only products with constant weights [out, in] are supported"
        return Reason(what, ReasonKind.ATTRIBUTE)
    return None


def _whole_entries(target: Target | None) -> Predicate:
    """Predicate: each entry of a batch starts with an element of its own."""

    def predicate(operation: Operation) -> str | None:
        assert isinstance(operation, BatchMatMulOp)
        if target is None or operation.entries == 1:
            return None
        lanes = (target.batch, target.block)
        for value, lane in zip(operation.operands, lanes, strict=True):
            rows = (shape_of(value) or (0,))[0] // operation.entries
            if rows % lane:
                return Reason(
                    f"batch entries of {rows} rows fill no {lane} lanes", ReasonKind.SHAPE
                )
        return None

    return predicate


def _same_shape(operation: Operation) -> str | None:
    assert isinstance(operation, AddOp)
    a, b = shape_of(operation.a), shape_of(operation.b)
    if a == b:
        return None
    return Reason(f"addition of shapes {list(a or ())} and {list(b or ())}", ReasonKind.SHAPE)


def _void_in_the_layout(operation: Operation) -> str | None:
    assert isinstance(operation, ReshapeOp)
    before, after = list(shape_of(operation.x) or ()), list(shape_of(operation.result) or ())
    if len(before) < 2 or len(after) < 2 or before[:2] != after[:2]:
        return Reason(f"reshape from {before} to {after} moves channels", ReasonKind.SHAPE)
    return None


def _repeats_space_only(operation: Operation) -> str | None:
    assert isinstance(operation, UpsampleOp)
    if max(operation.factors.get_values()[:2], default=1) == 1:
        return None
    return Reason(
        "it repeats the batch or channels: only space can be repeated", ReasonKind.ATTRIBUTE
    )


def _moves_space_only(operation: Operation) -> str | None:
    assert isinstance(operation, TransposeOp)
    order = list(operation.permutation.get_values())
    if order[:2] == [0, 1]:
        return None
    return Reason(f"transpose {order} moves channels or the batch", ReasonKind.ATTRIBUTE)


def _joins_many(operation: Operation) -> str | None:
    """A reason for concatenations of very many operands."""
    return JOINS_MANY if len(operation.operands) > MOST_JOINED else None


def _multiplies_accumulators(operation: Operation) -> str | None:
    """A reason on targets whose ALU does not multiply, else None."""
    assert isinstance(operation, MulOp)
    if any(isinstance(operand.owner, ConstantOp) for operand in operation.operands):
        return None
    return NO_PRODUCTS


def _whole_elements(target: Target | None) -> Predicate:
    """Predicate: an op joins or cuts whole elements of BATCH entries and BLOCK channels."""

    def predicate(operation: Operation) -> str | None:
        assert isinstance(operation, ConcatOp | SliceOp)
        if any(isinstance(value.owner, ConstantOp) for value in operation.operands):
            return Reason("it joins or cuts constants", ReasonKind.ATTRIBUTE)
        if target is None or moves_whole_elements(operation, target.batch, target.block):
            return None
        what = f"it cuts elements of {target.batch} entries and {target.block} channels"
        return Reason(what, ReasonKind.SHAPE)

    return predicate


def _computes_with_floats(op: Operation) -> bool:
    """Whether an op computes f32 tensors and is not one that the host alone knows."""
    return not isinstance(op, HostOp | ConstantOp) and any(
        isinstance(result.type, TensorType) and result.type.element_type == f32
        for result in op.results
    )


class VtaCodegen(Codegen):
    """Everything that the GEMM core and the ALU can do on int8 tensors."""

    name: ClassVar[str] = "vta"
    priority: ClassVar[int] = 100
    default: ClassVar[bool] = True
    uses_target: ClassVar[bool] = True
    quantises: ClassVar[bool] = True

    def patterns(self, target: Target | None) -> Sequence[NamedPattern]:
        """Accumulators with their endings, max pooling, and moves, some of which cost nothing."""
        acc = self._accumulators(target)

        def multiplies(operation: Operation) -> str | None:
            return None if target is None or target.alu_mul else "the target does not multiply"

        planes = op(AddBiasOp, acc, constant()).where(_static)
        requantized = op(RequantizeOp, acc, constant(), constant()).where(_static)
        return [
            NamedPattern(
                "accumulate_pool",
                op(MaxPoolOp, requantized).where(_static, is_worth_joining(target)),
            ),
            NamedPattern("accumulate_requantize", requantized),
            NamedPattern(
                "accumulate_rescale",
                op(RescaleOp, acc, *(constant() for _ in range(5))).where(_static, multiplies),
            ),
            NamedPattern(
                "accumulate_planes",
                op(RequantizePlanesOp, acc, constant(), constant()).where(_static),
            ),
            NamedPattern("accumulate_split", op(SplitBytesOp, planes).where(_static)),
            NamedPattern("max_pool", op(MaxPoolOp, wildcard()).where(_static, _int8_input)),
            NamedPattern(
                "transpose",
                op(TransposeOp, wildcard()).where(_static, _int8_input, _moves_space_only),
            ),
            NamedPattern(
                "upsample",
                op(UpsampleOp, wildcard()).where(_static, _int8_input, _repeats_space_only),
            ),
            NamedPattern(
                "depth_to_space", op(DepthToSpaceOp, wildcard()).where(_static, _int8_input)
            ),
            NamedPattern(
                "reshape",
                op(ReshapeOp, wildcard()).where(_static, _int8_input, _void_in_the_layout),
                free=True,
            ),
            NamedPattern(
                "concat",
                any_operands(ConcatOp).where(_static, _int8_input, _whole_elements(target)),
                free=True,
            ),
            NamedPattern(
                "slice",
                op(SliceOp, wildcard()).where(_static, _int8_input, _whole_elements(target)),
                free=True,
            ),
        ]

    @staticmethod
    def _accumulators(target: Target | None) -> Recursive:
        """The pattern of int32 values: products, sum pooling, shifted addends; sums, extremes,
        products of these."""
        acc = Recursive("accumulators")
        sources = (
            op(ConvOp, wildcard(), constant()).where(_int8_input)
            | op(GemmOp, wildcard(), constant()).where(_transposed_weights, _int8_input)
            | op(BatchMatMulOp, wildcard(), wildcard()).where(_whole_entries(target), _int8_input)
            | op(SumPoolOp, wildcard()).where(_int8_input)
            | op(ShiftLeftOp, wildcard(), constant()).where(_int8_input)
            | op(ShiftLeftOp, acc, constant())
        )
        sums = op(AddOp, acc, acc).where(_same_shape) | op(AddBiasOp, acc, constant())
        extremes = op(MaxOp, acc, acc) | op(MinOp, acc, acc) | op(ClipOp, acc)
        if target is not None and target.alu_mul:
            extremes = extremes | op(MulOp, acc, acc) | op(MultiplyShiftOp, acc)
            extremes = extremes | op(ShiftRightByOp, acc, acc)
        acc.define(sources | sums | extremes)
        return acc

    def outer_values(self, composite: CompositeOp) -> Sequence[SSAValue]:
        """Operands in the layout of weights, where only the host can pack them."""
        target = target_at(composite)
        return [
            value
            for value in weights_of(composite)
            if target is None or not lies_as_weights(value, target.batch, target.block)
        ]

    def refusal(self, composite: CompositeOp, target: Target | None) -> str | None:
        """A reason for groups that read very many values."""
        pairs = zip(composite.body.block.args, composite.inputs, strict=True)
        inputs = {argument for argument, v in pairs if not isinstance(v.owner, ConstantOp)}
        read = sum(value in inputs for op in composite.body.block.ops for value in op.operands)
        return TOO_WIDE if read > MOST_OPERANDS else None

    def why_not(self, op: Operation, target: Target | None) -> str | None:
        """A missing calibration; other reasons are those of the quantiser."""
        return NOT_QUANTISED if type(op) in RULES else None

    def integer_limits(self, target: Target | None) -> Mapping[type[Operation], Predicate]:
        """What keeps float ops of some kinds from having an integer form that it takes."""
        limits: dict[type[Operation], Predicate] = {
            ConcatOp: _joins_many,
            TransposeOp: _moves_space_only,
            UpsampleOp: _repeats_space_only,
        }
        if target is None or not target.alu_mul:
            limits[MulOp] = _multiplies_accumulators
        return limits

    def refuses_in_integers(self, op: Operation, target: Target | None) -> str | None:
        """The objection of its own patterns to the integer form."""
        limit = self.integer_limits(target).get(type(op))
        return None if limit is None else limit(op)

    def wants_samples(self, network: Sequence[Operation], ctx: VtacContext) -> bool:
        """A network without scales of its own needs them where it computes with floats."""
        return not any(map(given_by, network)) and any(
            _computes_with_floats(op) or can_split(ctx, op) for op in network
        )

    def preparation(self, options: QuantiseOptions) -> Pipeline:
        """Integers, moves that cost nothing, byte planes, a first layer that fills its blocks."""
        quantise = Pipeline.of(
            "split-channels,quantize,integer-streams,integer-softmax,weights-from-activations",
            QUANTISED,
        ).with_options("quantize", shift=options.shift, requantise=options.requantise)
        return quantise + Pipeline.of("sort-channels,raise-moves,byte-planes,fold-first-layer")

    def layout(self) -> Pipeline:
        """Activations as the machine loads them, packed by the host; for a cluster, a plan."""
        return Pipeline.of("layout,graph-bind-cores,graph-place-tensors")

    def lowering(self) -> Pipeline:
        """Tensor expressions, loop nests, instructions."""
        return LOWERING

    def cycles(self, composites: Sequence[CompositeOp], target: Target | None) -> float | None:
        """From the rates of the target."""
        return None if target is None else region_cycles(composites, target)

    def build(self, function: Operation, ctx: VtacContext) -> BinaryProgram | BinaryCluster:
        """The words of a program."""
        if isinstance(function, ClusterOp):
            return encode_cluster(function)
        assert isinstance(function, ProgramOp)
        return encode_program(function)
