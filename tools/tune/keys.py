"""What a record is about: the texts of a kernel, a machine and a clock, and their digests.

Two layers of one shape share a kernel text, two files that describe one machine a machine text:
names are no part of either. A digest is the SHA-256 of what it stands for, in hexadecimal.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from vtac.dialects import te
from vtac.dialects.context import VtacContext
from vtac.dialects.target import PRESETS, Target, TargetError, TimingPreset
from vtac.dialects.target.timing import TIMING_FIELDS
from vtac.dialects.vtac import DIGEST_LENGTH, ResourceAttr
from vtac.sim.timing import RULES
from vtac.tools.driver.discovery import load_dialects
from vtac.tools.files.ir_files import module_text

KERNEL = "kernel"
"""The name of the kernel in the text of a record."""

_NAMES = ("preset", "timing", "clock_mhz")
"""Fields of a target that change no cycle. The clock frequency converts cycles to seconds."""


@dataclass(frozen=True)
class Key:
    """What a schedule was tuned for. kernel, target, oracle: digests. version: of the template."""

    kernel: str
    target: str
    oracle: str
    template: str
    version: int


def target_text(target: Target) -> str:
    """Every field of a machine that may change a cycle or a result, as JSON, by name."""
    fields = {name: value for name, value in target.fields().items() if name not in _NAMES}
    return json.dumps(fields, sort_keys=True)


def target_of(text: str) -> Target:
    """The machine that `target_text` describes. Raises ValueError."""
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError("the machine is no table of fields")
    base = next(iter(PRESETS))
    timing = PRESETS[base].timing
    try:
        found = Target.from_fields(
            {"preset": base, "timing": timing.name, "clock_mhz": timing.clock_mhz, **fields}
        )
    except TargetError as error:
        raise ValueError(f"the machine is impossible: {error}") from None
    except (KeyError, TypeError) as error:
        raise ValueError(f"the machine lacks or has too many fields: {error}") from None
    if target_text(found) != json.dumps(fields, sort_keys=True):
        raise ValueError("the machine does not have exactly the fields of this vtac's machines")
    return found


def target_name(text: str) -> str:
    """The preset that a machine text describes, else the first digits of its digest."""
    return _preset_texts().get(text) or digest_of_text(text)[:DIGITS]


DIGITS = 12
"""Digits of a digest that messages and tables show."""


@lru_cache(maxsize=1)
def _preset_texts() -> Mapping[str, str]:
    return {target_text(Target.named(name)): name for name in reversed(list(PRESETS))}


@lru_cache(maxsize=256)
def target_digest(target: Target) -> str:
    """The digest of a machine."""
    return digest_of_text(target_text(target))


@lru_cache(maxsize=256)
def oracle_digest(timing: TimingPreset) -> str:
    """The digest of a clock: its rates and the version of its rules."""
    rates = {name: getattr(timing, name) for name in TIMING_FIELDS}
    for name in ("name", "clock_mhz"):
        del rates[name]
    return digest_of_text(json.dumps({"rules": RULES, **rates}, sort_keys=True))


def digest_of_text(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def kernel_digest(kernel: te.KernelOp, constants: Sequence[int]) -> str:
    """The digest of a kernel of tensors. constants: which of its arguments are constants.

    Constants are stored in the order in which they are loaded, so cycles depend on which they are.
    """
    marked = f"{te.canonical_text(kernel)}\nconstants {', '.join(map(str, constants))}"
    return digest_of_text(marked)


def constants_in(kernel: te.KernelOp) -> tuple[int, ...]:
    """Which arguments of a kernel are constants in the first call of it in its module, if any."""
    module, name = kernel.parent_op(), kernel.sym_name.data
    for op in () if module is None else module.walk():
        if isinstance(op, te.CallOp) and op.callee.root_reference.data == name:
            arguments = enumerate(op.arguments)
            return tuple(n for n, value in arguments if isinstance(value.owner, te.ConstantOp))
    return ()


def kernel_text(kernel: te.KernelOp, constants: Sequence[int]) -> str:
    """The IR of the canonical kernel and of a function that calls it with its constants.

    The constants have types but no values. Equal digests give equal texts.
    """
    found = te.canonical_kernel(kernel)
    return module_text(ModuleOp([found, caller_of(found, KERNEL, constants, "call")]))


def caller_of(kernel: te.KernelOp, name: str, constants: Sequence[int], caller: str) -> FuncOp:
    """A function of one call of a kernel of that name; its parameters are the other arguments.

    constants: which arguments are constants; they have types but no values. caller: the name of
    the function.
    """
    types = [value.type for value in kernel.body.block.args]
    parameters = [type for number, type in enumerate(types) if number not in constants]
    results = list(kernel.function_type.outputs)
    block = Block(arg_types=parameters)
    free = iter(block.args)
    arguments: list[SSAValue] = []
    for number, type in enumerate(types):
        if number in constants:
            unknown = ResourceAttr(f"p{number}", "0" * DIGEST_LENGTH)
            constant = te.ConstantOp(unknown, type)
            constant.result.name_hint = f"p{number}"
            block.add_op(constant)
            arguments.append(constant.result)
        else:
            arguments.append(value := next(free))
            value.name_hint = f"p{number}"
    call = te.CallOp(name, arguments, results)
    block.add_ops([call, ReturnOp(*call.outputs)])
    return FuncOp(caller, FunctionType.from_lists(parameters, results), Region(block))


def parsed_kernel(text: str) -> te.KernelOp:
    """The kernel of a text, in its module. Raises ValueError on a text that is none."""
    ctx = VtacContext()
    load_dialects(ctx)
    try:
        module = Parser(ctx, text).parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ValueError(f"the kernel's text is no IR: {reason}") from None
    except RecursionError:
        raise ValueError("the kernel's text is nested too deeply") from None
    kernels = [op for op in module.ops if isinstance(op, te.KernelOp) and not op.is_lowered]
    if len(kernels) != 1:
        raise ValueError("the kernel's text does not have one kernel of tensors")
    return kernels[0]


@lru_cache(maxsize=4096)
def digest_of_kernel_text(text: str) -> str:
    """The digest of the kernel of a text. Raises ValueError on a text that is none."""
    kernel = parsed_kernel(text)
    constants = constants_in(kernel)
    if kernel_text(kernel, constants) != text:
        raise ValueError("the kernel's text is not canonical")
    return kernel_digest(kernel, constants)


def kernel_summary(kernel: te.KernelOp) -> str:
    """The largest compute of a kernel: its extents, those of its sum, and the number of stages."""
    main = max(kernel.computes, key=lambda compute: prod(compute.extents))
    spatial = "x".join(map(str, main.spatial.extents))
    reduce = "x".join(map(str, main.reduce.extents))
    stages = len(kernel.computes)
    return f"{spatial}{f' sum {reduce}' * bool(reduce)}, {stages} stage{'s' * (stages > 1)}"
