/* The instructions of VTA and their micro-ops, field by field. */
#ifndef VTA_DECODER_H
#define VTA_DECODER_H

#include <stddef.h>
#include <stdint.h>

enum opcode { LOAD = 0, STORE = 1, GEMM = 2, FINISH = 3, ALU = 4 };
enum operation { MIN = 0, MAX = 1, ADD = 2, SHR = 3, MUL = 4 };
enum memory { UOP = 0, WGT = 1, INP = 2, ACC = 3, OUT = 4, ACC_8BIT = 5 };
enum module { LOAD_MODULE = 0, COMPUTE_MODULE = 1, STORE_MODULE = 2 };

struct instruction {
    uint32_t opcode, pop_prev, pop_next, push_prev, push_next;
    /* LOAD and STORE */
    uint32_t memory, sram_base, dram_base, y_size, x_size, x_stride;
    uint32_t y_pad_0, y_pad_1, x_pad_0, x_pad_1;
    /* GEMM and ALU: factors of the outer and of the inner loop */
    uint32_t reset, uop_bgn, uop_end, iter_out, iter_in;
    uint32_t dst_factor[2], src_factor[2], wgt_factor[2];
    /* ALU */
    uint32_t operation, use_imm;
    int32_t imm;
};

/* Indices of elements: of ACC, of INP or ACC, of WGT. */
struct micro_op {
    uint32_t dst, src, wgt;
};

/* A little-endian word. */
uint32_t vta_word32(const unsigned char *bytes);

/* Decodes the 16 bytes of an instruction. Returns what is wrong with them, or NULL. */
const char *vta_decode(struct instruction *it, const unsigned char *bytes);

/* Decodes a micro-op. Returns whether its reserved bits are 0. */
int vta_decode_micro_op(struct micro_op *it, uint32_t word);

#endif
