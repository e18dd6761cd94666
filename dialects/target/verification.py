"""Which machines the ISA can express: widths, depths, micro-ops and instruction words."""

from collections.abc import Iterator

from xdsl.utils.exceptions import VerifyException

from .configuration import Configuration
from .system import Memory

_MICRO_OP_BITS = 32
_WORD_BITS = 64
_SRAM_INDEX_BITS = 16
_LOOP_BITS = 28
_HEADER_BITS = 7
_MEMORIES = (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC)


def verify(data: Configuration) -> None:
    """Refuse widths, micro-ops, instruction words and depths that the ISA cannot express.

    The message has a line for each thing that is wrong.
    """
    if problems := list(_faults(data)):
        raise VerifyException("\n".join(problems))


def _faults(data: Configuration) -> Iterator[str]:
    widths = (data.log_inp_width, data.log_wgt_width, data.log_acc_width)
    if widths != (3, 3, 5):
        yield (
            "log_inp_width, log_wgt_width, log_acc_width must be 3, 3, 5 (int8, int8, int32), not"
            f" {', '.join(map(str, widths))}"
        )
    negative = [key for key in ("log_batch", "log_block") if getattr(data, key) < 0]
    yield from (f"{key} must not be negative, but is {getattr(data, key)}" for key in negative)
    if negative:
        return
    depths = [fault for memory in _MEMORIES if (fault := _depth_fault(data, memory))]
    yield from depths
    if depths:
        return
    yield from _word_faults(data)
    most = 1 << data.log_depth(Memory.UOP)
    if data.uop_entries is not None and not 1 <= data.uop_entries <= most:
        yield (f"uop_entries is {data.uop_entries}, but the micro-op buffer names 1 to {most}")


def _depth_fault(data: Configuration, memory: Memory) -> str:
    key = f"log_{memory.name.lower()}_buff_size"
    size = getattr(data, key)
    log_depth = data.log_depth(memory)
    if log_depth < 0:
        made_of = ""
        if memory is not Memory.UOP:
            made_of = f" (log_batch {data.log_batch}, log_block {data.log_block})"
        return (
            f"{key} is {size}: less than one element of 2^{data.log_element(memory)} bytes{made_of}"
        )
    if log_depth > _SRAM_INDEX_BITS:
        return (
            f"{key} is {size}: 2^{log_depth} elements are more than the {_SRAM_INDEX_BITS}-bit"
            " sram_base can address"
        )
    return ""


def _word_faults(data: Configuration) -> Iterator[str]:
    uop, inp, wgt, acc = (data.log_depth(memory) for memory in _MEMORIES)
    words = {
        "a micro-op": (acc + max(acc, inp) + wgt, _MICRO_OP_BITS),
        "word 0 of GEMM and ALU": (_HEADER_BITS + 1 + 2 * uop + 1 + _LOOP_BITS, _WORD_BITS),
        "word 1 of GEMM": (2 * (acc + inp + wgt), _WORD_BITS),
        "word 1 of ALU": (4 * acc + 20, _WORD_BITS),
    }
    for what, (bits, limit) in words.items():
        if bits > limit:
            yield (
                f"{what} would need {bits} bits of {limit} (log2 of the depths: UOP {uop},"
                f" INP {inp}, WGT {wgt}, ACC {acc}; make log_uop_buff_size, log_inp_buff_size,"
                " log_wgt_buff_size or log_acc_buff_size smaller)"
            )
