"""Which machines the ISA can express: widths, depths, micro-ops and instruction words."""

from xdsl.utils.exceptions import VerifyException

from .configuration import Configuration, Memory

_MICRO_OP_BITS = 32
_WORD_BITS = 64
_SRAM_INDEX_BITS = 16
_LOOP_BITS = 28
_HEADER_BITS = 7


def verify(data: Configuration) -> None:
    """Refuse widths, micro-ops, instruction words and depths that the ISA cannot express."""
    widths = (data.log_inp_width, data.log_wgt_width, data.log_acc_width)
    if widths != (3, 3, 5):
        raise VerifyException(
            f"LOG_INP_WIDTH, LOG_WGT_WIDTH, LOG_ACC_WIDTH must be 3, 3, 5 (int8, int8, int32),"
            f" not {', '.join(map(str, widths))}"
        )
    if data.log_batch < 0 or data.log_block < 0:
        raise VerifyException("LOG_BATCH and LOG_BLOCK must not be negative")
    for memory in (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC):
        _verify_depth(data, memory)
    _verify_words(data)
    most = 1 << data.log_depth(Memory.UOP)
    if data.uop_entries is not None and not 1 <= data.uop_entries <= most:
        raise VerifyException(
            f"uop_entries is {data.uop_entries}, but the micro-op buffer names 1 to {most}"
        )


def _verify_depth(data: Configuration, memory: Memory) -> None:
    size = getattr(data, f"log_{memory.name.lower()}_buff_size")
    log_depth = data.log_depth(memory)
    if log_depth < 0:
        raise VerifyException(
            f"LOG_{memory.name}_BUFF_SIZE is {size}: less than one element of"
            f" {1 << data.log_element(memory)} bytes"
        )
    if log_depth > _SRAM_INDEX_BITS:
        raise VerifyException(
            f"LOG_{memory.name}_BUFF_SIZE is {size}: 2^{log_depth} elements are more than the"
            f" {_SRAM_INDEX_BITS}-bit sram_base can address"
        )


def _verify_words(data: Configuration) -> None:
    order = (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC)
    uop, inp, wgt, acc = (data.log_depth(memory) for memory in order)
    words = {
        "a micro-op": (acc + max(acc, inp) + wgt, _MICRO_OP_BITS),
        "word 0 of GEMM and ALU": (_HEADER_BITS + 1 + 2 * uop + 1 + _LOOP_BITS, _WORD_BITS),
        "word 1 of GEMM": (2 * (acc + inp + wgt), _WORD_BITS),
        "word 1 of ALU": (4 * acc + 20, _WORD_BITS),
    }
    for what, (bits, limit) in words.items():
        if bits > limit:
            raise VerifyException(
                f"{what} would need {bits} bits of {limit} (log2 of the depths: UOP {uop},"
                f" INP {inp}, WGT {wgt}, ACC {acc})"
            )
