"""The text of the files that depend on the network: templates, ``NAME.in``, filled in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template

from vtac.dialects.target import Memory, Target
from vtac.runtime.c_project.body import Body
from vtac.runtime.c_project.device import DevicePlan, PlacedProgram
from vtac.runtime.c_project.memory import MemoryPlan
from vtac.runtime.c_project.tensors import ProgramTensor, identifier

ROW_BYTES = 4095
"""C99 promises string literals of this length. As literals, gcc reads constants six times faster
than as numbers, and they have no byte order."""

_SUFFIX = ".in"
_TEMPLATES = files("vtac.runtime.c_project") / "templates"


@dataclass(frozen=True)
class Sources:
    """What the files are made of. inputs, outputs: by the names that the model has for them."""

    target: Target
    body: Body
    memory: MemoryPlan
    device: DevicePlan
    inputs: Mapping[str, ProgramTensor]
    outputs: Mapping[str, ProgramTensor]

    def files(self) -> dict[str, bytes]:
        """The contents of all files of the project, by name."""
        contents = {
            "network.h": self._header,
            "network.c": self._network,
            "network_data.h": self._data_header,
            "programs.c": self._programs,
            "weights.c": self._weights,
            "vta_machine.h": self._machine,
        }
        made = {name: filled(name, fill()) for name, fill in contents.items()}
        return dict(sorted({**fixed_files(), **made}.items()))

    def _header(self) -> dict[str, object]:
        plan, device = self.memory, self.device
        places = [
            f" *  {p.offset:>10} {p.bytes:>10}  {plan.span(p):<16} {_comment(p.title)}"
            for p in plan.places
        ]
        return {
            "bytes": plan.bytes,
            "peak": plan.peak,
            "sum": plan.sum,
            "places": "\n".join(places),
            "device_bytes": device.total,
            "constant_bytes": len(device.image),
            "code_bytes": device.code,
            "work_bytes": device.work,
            "inputs": len(self.inputs),
            "outputs": len(self.outputs),
            "launches": sum(step.can_fail for step in self.body.steps),
        }

    def _data_header(self) -> dict[str, object]:
        programs = [
            f"extern const uint64_t {_name(p)}[{2 * len(p.words)}];"
            for p in self.device.programs.values()
        ]
        return {
            "bytes": len(self.device.image),
            "row_bytes": ROW_BYTES,
            "rows": len(self._rows()),
            "programs": "\n".join(programs),
        }

    def _programs(self) -> dict[str, object]:
        arrays = [
            "\n".join(
                [
                    f"const uint64_t {_name(p)}[{2 * len(p.words)}] = {{",
                    *(f"    {low:#018x}, {high:#018x}," for low, high in p.words.tolist()),
                    "};\n",
                ]
            )
            for p in self.device.programs.values()
        ]
        return {"programs": "\n".join(arrays)}

    def _rows(self) -> Sequence[bytes]:
        """The constants in rows, at least one."""
        image = self.device.image
        return [image[i : i + ROW_BYTES] for i in range(0, max(len(image), 1), ROW_BYTES)]

    def _weights(self) -> dict[str, object]:
        return {"rows": "\n".join(f'    "{_escaped(row)}",' for row in self._rows())}

    def _network(self) -> dict[str, object]:
        tables = [
            f"static const {head.format(name=name)} = {{\n{elements}\n}};"
            for (head, elements), name in self.body.constants.items()
        ]
        programs = [
            f"    {{{p.address - self.device.base}u, {_name(p)}, {len(p.words)}u}},"
            for p in self.device.programs.values()
        ]
        return {
            "bytes": max(self.memory.bytes, 1),
            "places": "\n".join(f"#define {p.name} {p.offset}u" for p in self.memory.places),
            "constants": "\n".join(tables),
            "steps": "\n\n".join(self._steps()),
            "inputs": _ports(self.inputs),
            "outputs": _ports(self.outputs),
            "programs": "\n".join(programs),
            "calls": "\n".join(self._calls()),
        }

    def _steps(self) -> Iterator[str]:
        for number, step in enumerate(self.body.steps):
            kind = "int" if step.can_fail else "void"
            head = f"/* {_comment(step.title)} */\nstatic {kind} step_{number}(void)"
            yield "\n".join([head, "{", *(f"    {line}" for line in step.lines), "}"])

    def _calls(self) -> Iterator[str]:
        for number, step in enumerate(self.body.steps):
            if step.can_fail:
                yield f"    status = step_{number}();\n    if (status != 0)\n        return status;"
            else:
                yield f"    step_{number}();"

    def _machine(self) -> dict[str, object]:
        return machine(self.target, self.device.base, self.device.alignment, self.device.total)


def machine(target: Target, base: int, alignment: int, size: int) -> dict[str, object]:
    """What ``vta_machine.h`` says of a machine, and of an area of ``size`` bytes in its memory."""
    numbers = parameters(target)
    return {
        "target": _comment(str(target)),
        "parameters": "\n".join(f"#define VTA_{name} {n}" for name, n in numbers.items()),
        "base": base,
        "alignment": alignment,
        "bytes": size,
    }


def fixed_files() -> dict[str, bytes]:
    """The files that are the same in every project, by name."""
    entries = (entry for entry in _TEMPLATES.iterdir() if not entry.name.endswith(_SUFFIX))
    return {entry.name: entry.read_bytes() for entry in entries}


def filled(name: str, values: Mapping[str, object]) -> bytes:
    """The file that a template becomes."""
    template = (_TEMPLATES / f"{name}{_SUFFIX}").read_text()
    return Template(template).substitute(values).encode()


def parameters(target: Target) -> dict[str, int]:
    """What the simulator has to know of a machine."""
    return {
        "BATCH": target.batch,
        "BLOCK": target.block,
        "UOP_ENTRIES": target.uop_entries,
        "LOG_UOP_DEPTH": target.log_uop_depth,
        "LOG_INP_DEPTH": target.log_inp_depth,
        "LOG_WGT_DEPTH": target.log_wgt_depth,
        "LOG_ACC_DEPTH": target.log_acc_depth,
        "INP_DEPTH": target.inp_depth,
        "WGT_DEPTH": target.wgt_depth,
        "ACC_DEPTH": target.acc_depth,
        "WGT_BYTES": target.element_bytes(Memory.WGT),
        "INP_BYTES": target.element_bytes(Memory.INP),
        "ACC_BYTES": target.element_bytes(Memory.ACC),
        "OUT_BYTES": target.element_bytes(Memory.OUT),
        "ALU_MUL": int(target.alu_mul),
        "ACC_LOAD_INT8": int(target.acc_load_int8),
        "ALU_IMM_SRC": int(target.alu_imm_src),
        "ALU_BYPASS": int(target.alu_bypass),
        "SHR_SIGN_OF_IMM": int(target.shr_sign_of_imm),
    }


def launch_lines(
    program: PlacedProgram, base: int, inputs: Sequence[str], outputs: Sequence[str]
) -> list[str]:
    """The lines of a launch. inputs, outputs: pointers to the values on the host."""
    calls = [
        *(
            f"vta_write(base + {address - base}u, {pointer}, {size})"
            for pointer, (address, size) in zip(inputs, program.inputs, strict=True)
        ),
        f"vta_launch(base + {program.address - base}u, {len(program.words)}u)",
        *(
            f"vta_read(base + {address - base}u, {pointer}, {size})"
            for pointer, (address, size) in zip(outputs, program.outputs, strict=True)
        ),
    ]
    lines = [f"if (status == 0)\n        status = {call};" for call in calls]
    return ["int status = 0;", *lines, "return status;"]


def _ports(tensors: Mapping[str, ProgramTensor]) -> str:
    rows = [
        f'    {{"{_escaped(name.encode())}", "{t.dtype}", "{",".join(map(str, t.shape))}",'
        f" {t.bytes}, storage.bytes + {t.value}}},"
        for name, t in tensors.items()
    ]
    return "\n".join(rows)


def _name(program: PlacedProgram) -> str:
    return f"program_{identifier(program.name)}"


_ESCAPES = [
    chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
    for byte in range(256)
]


def _escaped(data: bytes) -> str:
    """Bytes as the inside of a string literal; question marks could begin a trigraph."""
    return "".join(map(_ESCAPES.__getitem__, data))


def _comment(text: str) -> str:
    """A text inside a comment."""
    return text.encode("ascii", "replace").decode().replace("*/", "* /").replace("/*", "/ *")
