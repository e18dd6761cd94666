/* Decodes instructions and micro-ops: fields follow each other from the lowest bit of a word on. */
#include "vta_decoder.h"

#include <string.h>

#include "vta_machine.h"

enum { SRC_BITS = VTA_LOG_ACC_DEPTH > VTA_LOG_INP_DEPTH ? VTA_LOG_ACC_DEPTH : VTA_LOG_INP_DEPTH };

uint32_t vta_word32(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Takes the next field of a word, from its lowest bit on. */
static uint32_t take(uint64_t *word, unsigned width)
{
    uint32_t value = (uint32_t)(*word & (((uint64_t)1 << width) - 1));
    *word >>= width;
    return value;
}

static const char *decode_transfer(struct instruction *it, uint64_t low, uint64_t high)
{
    it->memory = take(&low, 3);
    it->sram_base = take(&low, 16);
    it->dram_base = take(&low, 32);
    it->y_size = take(&high, 16);
    it->x_size = take(&high, 16);
    it->x_stride = take(&high, 16);
    it->y_pad_0 = take(&high, 4);
    it->y_pad_1 = take(&high, 4);
    it->x_pad_0 = take(&high, 4);
    it->x_pad_1 = take(&high, 4);
    return low || high ? "reserved bits of LOAD or STORE are set" : NULL;
}

static const char *decode_compute(struct instruction *it, uint64_t low, uint64_t high)
{
    unsigned src_bits = it->opcode == GEMM ? VTA_LOG_INP_DEPTH : VTA_LOG_ACC_DEPTH, i;
    it->reset = take(&low, 1);
    it->uop_bgn = take(&low, VTA_LOG_UOP_DEPTH);
    it->uop_end = take(&low, VTA_LOG_UOP_DEPTH + 1);
    it->iter_out = take(&low, 14);
    it->iter_in = take(&low, 14);
    for (i = 0; i < 2; i++)
        it->dst_factor[i] = take(&high, VTA_LOG_ACC_DEPTH);
    for (i = 0; i < 2; i++)
        it->src_factor[i] = take(&high, src_bits);
    if (it->opcode == GEMM) {
        for (i = 0; i < 2; i++)
            it->wgt_factor[i] = take(&high, VTA_LOG_WGT_DEPTH);
    } else {
        it->operation = take(&high, 3);
        it->use_imm = take(&high, 1);
        it->imm = (int32_t)take(&high, 16);
        if (it->imm >= 1 << 15)
            it->imm -= 1 << 16;
    }
    return low || high ? "reserved bits of GEMM or ALU are set" : NULL;
}

const char *vta_decode(struct instruction *it, const unsigned char *bytes)
{
    uint64_t low = vta_word32(bytes) | (uint64_t)vta_word32(bytes + 4) << 32;
    uint64_t high = vta_word32(bytes + 8) | (uint64_t)vta_word32(bytes + 12) << 32;
    memset(it, 0, sizeof *it);
    it->opcode = take(&low, 3);
    it->pop_prev = take(&low, 1);
    it->pop_next = take(&low, 1);
    it->push_prev = take(&low, 1);
    it->push_next = take(&low, 1);
    if (it->opcode == LOAD || it->opcode == STORE)
        return decode_transfer(it, low, high);
    if (it->opcode == GEMM || it->opcode == ALU)
        return decode_compute(it, low, high);
    if (it->opcode == FINISH)
        return low || high ? "reserved bits of FINISH are set" : NULL;
    return "the opcode is unknown";
}

int vta_decode_micro_op(struct micro_op *it, uint32_t word)
{
    uint64_t left = word;
    it->dst = take(&left, VTA_LOG_ACC_DEPTH);
    it->src = take(&left, SRC_BITS);
    it->wgt = take(&left, VTA_LOG_WGT_DEPTH);
    return left == 0;
}
