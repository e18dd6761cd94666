"""The dialect te: tensor expressions, their schedules, and the loops that schedules make of them.

Three forms. *Tensors*: `KernelOp` over `ComputeOp` says what is computed. *Schedule*: `ScheduleOp`
lists primitives that say how. *Loops*: the same kernel as `ForOp` nests over windows of buffers,
with `UpdateOp` statements, in the end `InvokeOp` of declared intrinsics and `CopyOp` alone.
"""

from xdsl.ir import Dialect

from .affine import Row, identity_map, map_of, rows_of
from .attributes import (
    LANES,
    AxisType,
    DomainAttr,
    Scope,
    ScopeAttr,
    StageType,
    buffer_type,
    outside_value,
    scope_of,
    shaped,
)
from .body import YieldOp, combiner, scalar_body, yielded
from .buffer_assignment import BufferAssignment, StridedView, row_major
from .buffers import AllocOp, CopyOp, Padded
from .canonical import canonical_text, digest_of_kernel
from .compute import CallOp, ComputeOp, ConstantOp, KernelOp, Read
from .fusion import UnfuseOp
from .intrinsics import Instruction, InstructionAttr, IntrinsicOp, Lanes
from .knobs import (
    Direction,
    Knob,
    KnobKind,
    Knobs,
    Point,
    Value,
    parse_point,
    point_text,
    value_text,
)
from .layout import LAYOUT_ATTRIBUTE, Dimension, Layout, LayoutAttr
from .loop_primitives import (
    AxesOp,
    FuseOp,
    InitOp,
    JoinOp,
    ReorderOp,
    SplitOp,
    TileOp,
    UnrollOp,
    VthreadOp,
)
from .loops import ForOp, HullOp, SpanOp
from .operation import declared
from .packing import Box, PackedAttr, packing_of
from .ranges import Range, integers
from .schedule import Primitive, ScheduleOp
from .stage_primitives import (
    CacheReadOp,
    CacheWriteOp,
    ComputeAtOp,
    ComputeWithOp,
    DmaOp,
    InlineOp,
    InPlaceOp,
    PadOp,
    SetScopeOp,
    TensorizeOp,
)
from .standard import copying_intrinsics, standard_intrinsics
from .statements import Access, InvokeOp, UpdateOp
from .view import ViewOp, viewed
from .windows import AssembleOp, WindowOp

__all__ = [
    "LANES",
    "LAYOUT_ATTRIBUTE",
    "Access",
    "AllocOp",
    "AssembleOp",
    "AxesOp",
    "AxisType",
    "Box",
    "BufferAssignment",
    "CacheReadOp",
    "CacheWriteOp",
    "CallOp",
    "ComputeAtOp",
    "ComputeOp",
    "ComputeWithOp",
    "ConstantOp",
    "CopyOp",
    "Dimension",
    "Direction",
    "DmaOp",
    "DomainAttr",
    "ForOp",
    "FuseOp",
    "HullOp",
    "InPlaceOp",
    "InitOp",
    "InlineOp",
    "Instruction",
    "InstructionAttr",
    "IntrinsicOp",
    "InvokeOp",
    "JoinOp",
    "KernelOp",
    "Knob",
    "KnobKind",
    "Knobs",
    "Lanes",
    "Layout",
    "LayoutAttr",
    "PackedAttr",
    "PadOp",
    "Padded",
    "Point",
    "Primitive",
    "Range",
    "Read",
    "ReorderOp",
    "Row",
    "ScheduleOp",
    "Scope",
    "ScopeAttr",
    "SetScopeOp",
    "SpanOp",
    "SplitOp",
    "StageType",
    "StridedView",
    "Te",
    "TensorizeOp",
    "TileOp",
    "UnfuseOp",
    "UnrollOp",
    "UpdateOp",
    "Value",
    "ViewOp",
    "VthreadOp",
    "WindowOp",
    "YieldOp",
    "buffer_type",
    "canonical_text",
    "combiner",
    "copying_intrinsics",
    "declared",
    "digest_of_kernel",
    "identity_map",
    "integers",
    "map_of",
    "outside_value",
    "packing_of",
    "parse_point",
    "point_text",
    "row_major",
    "rows_of",
    "scalar_body",
    "scope_of",
    "shaped",
    "standard_intrinsics",
    "value_text",
    "viewed",
    "yielded",
]

Te = Dialect(
    "te",
    [
        ConstantOp,
        CallOp,
        KernelOp,
        YieldOp,
        ComputeOp,
        ScheduleOp,
        AxesOp,
        InitOp,
        SplitOp,
        TileOp,
        FuseOp,
        JoinOp,
        ReorderOp,
        ViewOp,
        WindowOp,
        AssembleOp,
        VthreadOp,
        UnrollOp,
        CacheReadOp,
        CacheWriteOp,
        SetScopeOp,
        ComputeAtOp,
        ComputeWithOp,
        InlineOp,
        InPlaceOp,
        TensorizeOp,
        DmaOp,
        PadOp,
        IntrinsicOp,
        ForOp,
        SpanOp,
        HullOp,
        UnfuseOp,
        AllocOp,
        CopyOp,
        UpdateOp,
        InvokeOp,
    ],
    [ScopeAttr, DomainAttr, StageType, AxisType, InstructionAttr, LayoutAttr, PackedAttr],
)
