"""Small random kernels of tensor expressions, and what a schedule must know of their stages."""

from dataclasses import dataclass, field
from random import Random

from xdsl.dialects import arith
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, TensorType, i8, i32
from xdsl.ir import Block, Region, SSAValue

from vtac.dialects import te
from vtac.dialects.target import TARGET_ATTRIBUTE, Target

SMALL = Target.named("sim").replace(
    log_batch=1, log_block=1, log_inp_buff_size=12, log_wgt_buff_size=12, log_acc_buff_size=14
)
"""Two rows and two lanes: small enough to be run element by element."""

LANE = 2
LOWEST = -128


def const(value: int) -> SSAValue:
    return arith.ConstantOp(IntegerAttr(value, i32)).result


def dim(*terms: tuple[int, int], constant: int = 0) -> te.Row:
    return te.Row.of(terms, constant)


@dataclass
class Stage:
    """label; kind: contraction, window, alu, copy or result; alu: the intrinsic's name.

    operands: for each the stage it comes from, or None for a parameter of the kernel.
    is_padded: whether an operand is read outside its shape.
    """

    label: str
    kind: str
    axes: list[str]
    extents: list[int]
    operands: list["Stage | None"]
    value: SSAValue
    alu: str = ""
    starts_from: "Stage | None" = None
    is_padded: bool = False
    readers: list["Stage"] = field(default_factory=list)


class KernelBuilder:
    """Adds stages to a kernel; a stage is i32 with shape [n][c][h][w][b][o]."""

    def __init__(self) -> None:
        self.block = Block()
        self.stages: list[Stage] = []

    def parameter(self, shape: tuple[int, ...], element=i8) -> SSAValue:
        number = len(self.block.args)
        argument = self.block.insert_arg(TensorType(element, shape), number)
        argument.name_hint = f"p{number}"
        return argument

    def add(self, kind, spatial, reduce, reads, body, element=i32, alu="", **start) -> Stage:
        label = f"{kind}{len(self.stages)}"
        compute = te.ComputeOp(label, spatial, reduce, reads, body, element, **start)
        self.block.add_op(compute)
        compute.result.name_hint = label
        operands = [self._stage(read.value) for read in reads]
        first = self._stage(start["init"]) if "init" in start else None
        axes, extents = [*spatial, *reduce], [*spatial.values(), *reduce.values()]
        is_padded = any(read.outside is not None for read in reads)
        stage = Stage(label, kind, axes, extents, operands, compute.result, alu, first, is_padded)
        for operand in (*operands, first):
            if operand is not None:
                operand.readers.append(stage)
        self.stages.append(stage)
        return stage

    def _stage(self, value: SSAValue) -> Stage | None:
        return next((stage for stage in self.stages if stage.value is value), None)

    def finish(self, *results: Stage) -> ModuleOp:
        self.block.add_op(te.YieldOp(*(result.value for result in results)))
        type = FunctionType.from_lists(
            self.block.arg_types, [result.value.type for result in results]
        )
        kernel = te.KernelOp("k", type, Region(self.block))
        return ModuleOp([kernel], {TARGET_ATTRIBUTE: SMALL})

    def contraction(self, image, co, kernel, stride, pad, init: Stage | None = None) -> Stage:
        """A convolution of an int8 parameter of shape [n][ci][h][w][b][k]."""
        n, ci, height, width = image[:4]
        h, w = ((size + 2 * pad - kernel) // stride + 1 for size in (height, width))
        x = self.parameter(image)
        weights = self.parameter((co, ci, kernel, kernel, LANE, LANE))
        rows = (
            dim((0, 1)),
            dim((6, 1)),
            dim((2, stride), (7, 1), constant=-pad),
            dim((3, stride), (8, 1), constant=-pad),
            dim((4, 1)),
            dim((9, 1)),
        )
        reads = [
            te.Read(x, rows, 0 if pad else None),
            te.Read(weights, tuple(dim((v, 1)) for v in (1, 6, 7, 8, 5, 9))),
        ]

        def body(acc, a, b):
            wide = arith.ExtSIOp(a, i32).result, arith.ExtSIOp(b, i32).result
            return arith.AddiOp(arith.MuliOp(*wide).result, acc).result

        start = {"identity": 0} if init is None else {"init": init.value}
        return self.add(
            "contraction",
            {"n": n, "co": co, "h": h, "w": w, "b": LANE, "o": LANE},
            {"ci": ci, "kh": kernel, "kw": kernel, "k": LANE},
            reads,
            te.scalar_body([i32, i8, i8], body),
            **start,
        )

    def window(self, source: Stage, kernel: int, stride: int, pad: int) -> Stage:
        """The maximum over windows of a stage with values of at least LOWEST."""
        n, co, height, width = source.value.type.get_shape()[:4]
        h, w = ((size + 2 * pad - kernel) // stride + 1 for size in (height, width))
        rows = (
            dim((0, 1)),
            dim((1, 1)),
            dim((2, stride), (6, 1), constant=-pad),
            dim((3, stride), (7, 1), constant=-pad),
            dim((4, 1)),
            dim((5, 1)),
        )
        return self.add(
            "window",
            {"n": n, "co": co, "h": h, "w": w, "b": LANE, "o": LANE},
            {"kh": kernel, "kw": kernel},
            [te.Read(source.value, rows, LOWEST if pad else None)],
            te.scalar_body([i32, i32], lambda acc, a: arith.MaxSIOp(acc, a).result),
            identity=LOWEST,
        )

    def alu(self, source: Stage, name: str, other: "Stage | SSAValue | int") -> Stage:
        """``op(source, other)``; other is a stage, a vector [co][b][o] or an immediate."""
        shape = source.value.type.get_shape()
        axes = dict(zip(("n", "co", "h", "w", "b", "o"), shape, strict=True))
        identity = te.rows_of(te.identity_map(6))
        operation = {
            "add": arith.AddiOp,
            "max": arith.MaxSIOp,
            "min": arith.MinSIOp,
            "shr": arith.ShRSIOp,
        }[name]
        reads = [te.Read(source.value, identity)]
        if isinstance(other, int):
            body = te.scalar_body([i32], lambda a: operation(a, const(other)).result)
            return self.add("alu", axes, {}, reads, body, alu=f"{name}_imm")
        rows = identity if isinstance(other, Stage) else tuple(dim((v, 1)) for v in (1, 4, 5))
        value = other.value if isinstance(other, Stage) else other
        reads.append(te.Read(value, rows))
        body = te.scalar_body([i32, i32], lambda a, b: operation(a, b).result)
        return self.add("alu", axes, {}, reads, body, alu=name)

    def result(self, source: Stage) -> Stage:
        shape = source.value.type.get_shape()
        axes = dict(zip(("n", "co", "h", "w", "b", "o"), shape, strict=True))
        read = te.Read(source.value, te.rows_of(te.identity_map(6)))
        body = te.scalar_body([i32], lambda a: arith.TruncIOp(a, i8).result)
        return self.add("result", axes, {}, [read], body, i8)


def random_kernel(random: Random) -> tuple[ModuleOp, list[Stage]]:
    """One of several shapes of fused groups, with odd extents."""
    build = KernelBuilder()
    co, stride, kernel = random.randint(1, 2), random.randint(1, 2), random.randint(1, 3)
    pad = random.randint(0, kernel - 1)
    size = tuple(random.randint(kernel, 5) for _ in range(2))
    image = (random.choice([1, 1, 2]), random.randint(1, 2), *size, LANE, LANE)
    stage = build.contraction(image, co, kernel, stride, pad)
    shape = stage.value.type.get_shape()
    if random.random() < 0.3:
        other = (shape[0], 1, *shape[2:])
        if random.random() < 0.5:
            stage = build.contraction(other, co, 1, 1, 0, init=stage)
        else:
            stage = build.alu(build.contraction(other, co, 1, 1, 0), "add", stage)
    if random.random() < 0.6:
        stage = build.alu(stage, "add", build.parameter((co, LANE, LANE), i32))
    if random.random() < 0.3:
        stage = build.alu(stage, "shr", random.choice([-2, 3, 31]))
    if random.random() < 0.5:
        clipped = build.alu(build.alu(stage, "max", LOWEST), "min", 127)
        stage = clipped
        if random.random() < 0.7:
            taps = random.randint(1, min(3, *shape[2:4]))
            stage = build.window(clipped, taps, random.randint(1, 2), random.randint(0, taps - 1))
        elif random.random() < 0.5:
            stage = build.alu(build.alu(clipped, "max", 5), "add", clipped)
    if random.random() < 0.2:
        largest = build.result(build.window(stage, 3, 1, 1))
        return build.finish(largest, build.result(build.alu(stage, "shr", 2))), build.stages
    if random.random() < 0.25:
        planes = [build.result(stage)]
        for _ in range(random.randint(1, 3)):
            stage = build.alu(stage, "shr", 8)
            planes.append(build.result(stage))
        return build.finish(*planes), build.stages
    return build.finish(build.result(stage)), build.stages
