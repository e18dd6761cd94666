"""Whether a compiled model computes the integers that the written semantics say.

The oracle is `graph_reference`, docs/quantisation.md in NumPy. It evaluates the network as
the quantiser left it and as the partitioner did, but for what the host alone knows and what comes
of that (a softmax at the end). Then what every launch is given and what it returns is compared, in
several orders of the machine's modules. Operators that the host alone knows may stand between
launches (LRN): what the host makes of them in the first order is taken as given, and all integers
that follow from it are compared. Only what the partitioner keeps is not compared behind them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from graph_reference import run_reference
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import DequantizeOp, HostOp
from vtac.runtime.device import Device, SimulatorDevice
from vtac.runtime.engine import LaunchOptions, LaunchResult, signatures_of
from vtac.runtime.engines.vta import VtaEngine, VtaSession, target_of
from vtac.runtime.executor import Module
from vtac.runtime.package import Function, Package, Value
from vtac.tools.driver.planner import main_function

Array = NDArray[Any]
Orders = Sequence[int | None]
ORDERS: Orders = (None, 1, 2)
"""Which ready module goes next: the program's own order, and two by chance."""
QUANTISED, PARTITIONED = "quantised", "graph"


@dataclass(frozen=True)
class Arrays:
    """What a function of the accelerator is given and what it returns; None is not compared."""

    given: Sequence[Array | None]
    returned: Sequence[Array]


@dataclass(frozen=True)
class Evaluation:
    """A network at one level on one input, by the reference.

    calls: of functions, by name. leaving: the integers that become real numbers or results, in
    order of their bytes. results: outputs of the network by name, of those that it knows.
    """

    calls: Mapping[str, Arrays]
    leaving: Sequence[bytes]
    results: Mapping[str, Array]


@dataclass
class Comparison:
    """integers: so many were compared. launches: so many a run. differences: in words."""

    integers: int = 0
    launches: int = 0
    differences: list[str] = field(default_factory=list)

    def compare(self, where: str, ours: Array, expected: Array) -> None:
        """Count a pair of arrays, and note whether they differ."""
        self.integers += expected.size
        if ours.shape != expected.shape:
            self.differences.append(f"{where}: shape {ours.shape}, not {expected.shape}")
        elif not np.array_equal(ours, expected):
            self.differences.append(f"{where}: {np.sum(ours != expected)} of {expected.size}")


class Oracle:
    """Evaluates a network while it is compiled, and then judges the module.

    ``observe`` goes to the compilation, ``judge`` takes what came of it.
    """

    def __init__(self, feeds: Sequence[Mapping[str, Array]]) -> None:
        self.feeds = feeds
        self._levels: dict[str, list[Evaluation]] = {}
        self._behind: _BehindHost | None = None

    def observe(self, level: str, module: ModuleOp, ctx: VtacContext) -> None:
        """Evaluate the two levels that are made of integer graph ops."""
        if level in (QUANTISED, PARTITIONED):
            known = _without_host_operators(module)
            self._levels[level] = [_evaluate(known, feed, ctx) for feed in self.feeds]
        if level == PARTITIONED:
            self._behind = _BehindHost.of(module, ctx)

    def judge(self, module: Module, orders: Orders = ORDERS) -> Comparison:
        """Run the module on every input in every order, and compare."""
        found = Comparison()
        engine = _RecordingEngine()
        recorded = Module(module.package, engines={"vta": engine})
        quantised, partitioned = (self._levels[level] for level in (QUANTISED, PARTITIONED))
        assert self._behind is not None
        for number, feed in enumerate(self.feeds):
            expected = partitioned[number]
            calls = dict(expected.calls)
            if quantised[number].leaving != expected.leaving:
                found.differences.append(f"input {number}: the partitioner changed integers")
            for seed in orders:
                engine.launches.clear()
                results = recorded.run(feed, order_seed=seed)
                where = f"input {number}, order {seed}"
                if len(calls) < len(engine.launches):
                    calls = self._behind.calls(feed, dict(engine.launches)) | calls
                for function, arrays in engine.launches:
                    _compare_launch(found, f"{where}, {function}", arrays, calls.get(function))
                for name, array in expected.results.items():
                    found.compare(f"{where}, output {name}", results[name], array)
        found.launches = len(engine.launches)
        if not found.launches:
            found.differences.append("nothing runs on the accelerator")
        return found


def _compare_launch(found: Comparison, where: str, ours: Arrays, expected: Arrays | None) -> None:
    if expected is None:
        found.differences.append(f"{where}: it needs what the host alone knows")
        return
    pairs = ("given", ours.given, expected.given), ("returned", ours.returned, expected.returned)
    for what, arrays, references in pairs:
        for array, reference in zip(arrays, references, strict=True):
            if reference is None:
                continue
            assert array is not None
            found.compare(f"{where}, {what}", array, reference)


@dataclass(frozen=True)
class _BehindHost:
    """A partitioned network whose launches take as given what the host alone knows.

    taken: for each further parameter of ``main``, the function that is given it, and at which
    position.
    """

    module: ModuleOp
    taken: Mapping[str, tuple[str, int]]
    ctx: VtacContext

    @classmethod
    def of(cls, module: ModuleOp, ctx: VtacContext) -> "_BehindHost":
        """Make parameters of what launches are given behind operators that the host alone knows."""
        taken: dict[str, tuple[str, int]] = {}
        return cls(_without_host_operators(module, taken), taken, ctx)

    def calls(self, feed: Mapping[str, Array], launches: Mapping[str, Arrays]) -> dict[str, Arrays]:
        """What each function is given and returns, after what launches were given."""
        given: dict[str, Array] = {}
        for name, (function, position) in self.taken.items():
            array = launches[function].given[position]
            assert array is not None
            given[name] = array
        found = dict(_evaluate(self.module, {**feed, **given}, self.ctx).calls)
        for function, position in self.taken.values():
            arguments = list(found[function].given)
            arguments[position] = None
            found[function] = Arrays(arguments, found[function].returned)
        return found


def _without_host_operators(
    module: ModuleOp, taken: dict[str, tuple[str, int]] | None = None
) -> ModuleOp:
    """A copy whose ``main`` returns only what depends on no operator that the host alone knows.

    With ``taken``, operands of calls that depend on such an operator, but on no call behind it,
    become further parameters of ``main``, which are added to it (see `_BehindHost`).
    """
    copy = module.clone()
    main = main_function(copy)
    unknown: set[Operation] = set()
    for op in main.body.block.ops:
        if taken is not None and isinstance(op, CallOp):
            _take_unknown(main, op, unknown, taken)
        if isinstance(op, HostOp) or any(value.owner in unknown for value in op.operands):
            unknown.add(op)
    end = main.body.block.last_op
    names = main.attributes["graph.outputs"]
    assert isinstance(end, ReturnOp) and isinstance(names, ArrayAttr)
    kept = [
        (name, value)
        for name, value in zip(names.data, end.arguments, strict=True)
        if value.owner not in unknown
    ]
    main.body.block.erase_op(end)
    for op in reversed(list(main.body.block.ops)):
        if op in unknown:
            main.body.block.erase_op(op)
    main.body.block.add_op(ReturnOp(*(value for _, value in kept)))
    main.update_function_type()
    main.attributes["graph.outputs"] = ArrayAttr(
        name for name, _ in kept if isinstance(name, StringAttr)
    )
    return copy


def _take_unknown(
    main: FuncOp, call: CallOp, unknown: set[Operation], taken: dict[str, tuple[str, int]]
) -> None:
    """Make parameters of the operands of a call that are unknown."""
    inputs = main.attributes["graph.inputs"]
    assert isinstance(inputs, ArrayAttr)
    names = list(inputs.data)
    for position, value in enumerate(call.operands):
        if value.owner in unknown:
            function = call.callee.root_reference.data
            name = f"operand {position} of {function}"
            call.operands[position] = main.body.block.insert_arg(value.type, len(main.args))
            names.append(StringAttr(name))
            taken[name] = function, position
    main.attributes["graph.inputs"] = ArrayAttr(names)
    main.update_function_type()


def _evaluate(module: ModuleOp, feed: Mapping[str, Array], ctx: VtacContext) -> Evaluation:
    main = main_function(module)
    values: dict[SSAValue, Array] = dict(zip(main.args, feed.values(), strict=True))
    results = run_reference(module, feed, ctx.resources, values.__setitem__)
    ops = list(main.body.block.ops)
    calls = {
        op.callee.root_reference.data: Arrays(
            [values[operand] for operand in op.operands], [values[result] for result in op.results]
        )
        for op in ops
        if isinstance(op, CallOp)
    }
    return Evaluation(calls, sorted(_leaving(ops, values)), results)


def _leaving(ops: Sequence[Operation], values: Mapping[SSAValue, Array]) -> Iterator[bytes]:
    """Both levels keep these integers, though not always their shapes and their order."""
    for op in ops:
        for value in op.operands if isinstance(op, DequantizeOp | ReturnOp) else ():
            array = values[value]
            if array.dtype.kind == "i":
                yield array.astype(np.int32).tobytes()


class _RecordingEngine(VtaEngine):
    """An engine that remembers its launches: function, and logical arrays."""

    def __init__(self) -> None:
        self.launches: list[tuple[str, Arrays]] = []

    def open(
        self, package: Package, functions: Sequence[Function], device: Device | None
    ) -> VtaSession:
        session = _RecordingSession(
            package, functions, device or SimulatorDevice(target_of(package))
        )
        session.signatures = {f.name: signatures_of(package, f.name)[0] for f in functions}
        session.launches = self.launches
        return session


class _RecordingSession(VtaSession):
    def launch(
        self, function: str, inputs: Sequence[Array], options: LaunchOptions
    ) -> LaunchResult:
        result = super().launch(function, inputs, options)
        signature = self.signatures[function]
        given = map(_logical, inputs, signature.inputs)
        returned = map(_logical, result.outputs, signature.outputs)
        self.launches.append((function, Arrays(list(given), list(returned))))
        return result


def _logical(data: Array, value: Value) -> Array:
    """An int8 tensor as the network has it: copied, without the lanes that are spare."""
    array = np.array(data).reshape(-1).view(np.int8).reshape(value.physical_shape)
    if value.layout is None:
        return array
    array = np.moveaxis(array, (-2, -1), (1, 3))
    array = array.reshape(
        array.shape[0] * array.shape[1], array.shape[2] * array.shape[3], *array.shape[4:]
    )
    return array[: value.shape[0], : value.shape[1]]
