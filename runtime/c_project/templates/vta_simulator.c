/* A functional simulator of VTA as a driver: it runs programs and takes no time into account.
 *
 * The machine is that of vta_machine.h. Its three modules (load, compute, store) run their
 * instructions in order and wait for each other's tokens. What implementations of VTA run
 * differently is an error, as is what none can run: vta_launch() then says on standard error what
 * is wrong and returns 1.
 */
#include "vta_driver.h"

#include <stdio.h>
#include <string.h>

#include "vta_decoder.h"
#include "vta_machine.h"

#ifndef VTA_DRAM_BASE
#define VTA_DRAM_BASE VTA_PLANNED_BASE
#endif

enum { MAX_SHIFT = 31, INSTRUCTION_BYTES = 16, LANES = VTA_BATCH * VTA_BLOCK };

static unsigned char dram[VTA_DRAM_BASE + VTA_DRAM_BYTES];
static uint32_t uops[VTA_UOP_ENTRIES];
static int8_t inputs[VTA_INP_DEPTH][LANES];
static int8_t weights[VTA_WGT_DEPTH][VTA_BLOCK * VTA_BLOCK];
static int32_t accumulators[VTA_ACC_DEPTH][LANES];
static int8_t outputs[VTA_ACC_DEPTH][LANES];
static unsigned char output_written[VTA_ACC_DEPTH];

static uint32_t position; /* of the instruction that runs, for messages */

static int wrong(const char *what)
{
    fprintf(stderr, "vta_simulator: instruction %lu: %s\n", (unsigned long)position, what);
    return 1;
}

static enum module module_of(const struct instruction *it)
{
    if (it->opcode == STORE)
        return STORE_MODULE;
    if (it->opcode == LOAD && (it->memory == INP || it->memory == WGT))
        return LOAD_MODULE;
    return COMPUTE_MODULE;
}

/* -- Transfers --------------------------------------------------------------------------------- */

static const uint32_t depths[] = {
    VTA_UOP_ENTRIES, VTA_WGT_DEPTH, VTA_INP_DEPTH, VTA_ACC_DEPTH, VTA_ACC_DEPTH, VTA_ACC_DEPTH,
};
static const uint32_t element_bytes[] = {
    4, VTA_WGT_BYTES, VTA_INP_BYTES, VTA_ACC_BYTES, VTA_OUT_BYTES, VTA_OUT_BYTES,
};

static int check_transfer(const struct instruction *it)
{
    uint64_t width = (uint64_t)it->x_pad_0 + it->x_size + it->x_pad_1;
    uint64_t height = (uint64_t)it->y_pad_0 + it->y_size + it->y_pad_1;
    uint64_t first, end;
    if (it->memory > ACC_8BIT)
        return wrong("the memory is unknown");
    if (it->opcode == STORE && it->memory != OUT)
        return wrong("STORE of another memory than OUT");
    if (it->opcode == STORE && (width != it->x_size || height != it->y_size))
        return wrong("STORE with pads");
    if (it->opcode == LOAD && it->memory == OUT)
        return wrong("LOAD into OUT");
    if (it->memory == ACC_8BIT && !VTA_ACC_LOAD_INT8)
        return wrong("LOAD of int8 into ACC, which this machine does not have");
    if (it->x_size == 0)
        return 0;
    if (it->y_size == 0)
        return wrong("y_size is 0");
    if (it->sram_base + width * height > depths[it->memory])
        return wrong("the transfer leaves its buffer");
    first = (uint64_t)it->dram_base * element_bytes[it->memory];
    end = it->dram_base + (uint64_t)(it->y_size - 1) * it->x_stride + it->x_size;
    end *= element_bytes[it->memory];
    if (first < VTA_DRAM_BASE || end > sizeof dram)
        return wrong("the transfer leaves the memory of the network");
    return 0;
}

/* Fills one element of a buffer from DRAM, or with zeros where there are no bytes. */
static void load_element(uint32_t memory, uint32_t index, const unsigned char *bytes)
{
    int i;
    switch (memory) {
    case UOP:
        uops[index] = bytes ? vta_word32(bytes) : 0;
        break;
    case WGT:
        memset(weights[index], 0, sizeof weights[index]);
        if (bytes)
            memcpy(weights[index], bytes, sizeof weights[index]);
        break;
    case INP:
        memset(inputs[index], 0, sizeof inputs[index]);
        if (bytes)
            memcpy(inputs[index], bytes, sizeof inputs[index]);
        break;
    case ACC:
        for (i = 0; i < LANES; i++)
            accumulators[index][i] = bytes ? (int32_t)vta_word32(bytes + 4 * i) : 0;
        break;
    default:
        for (i = 0; i < LANES; i++)
            accumulators[index][i] = bytes ? (int8_t)bytes[i] : 0;
    }
}

static void load(const struct instruction *it)
{
    uint32_t rows = it->y_pad_0 + it->y_size + it->y_pad_1;
    uint32_t columns = it->x_pad_0 + it->x_size + it->x_pad_1;
    uint32_t size = element_bytes[it->memory], sram = it->sram_base, i, j;
    for (i = 0; i < rows; i++) {
        for (j = 0; j < columns; j++, sram++) {
            uint32_t y = i - it->y_pad_0, x = j - it->x_pad_0; /* huge in the pads before */
            const unsigned char *bytes = NULL;
            if (y < it->y_size && x < it->x_size)
                bytes = dram + ((size_t)it->dram_base + (size_t)y * it->x_stride + x) * size;
            load_element(it->memory, sram, bytes);
        }
    }
}

static int store(const struct instruction *it)
{
    uint32_t sram = it->sram_base, y, x;
    for (y = 0; y < it->y_size; y++) {
        for (x = 0; x < it->x_size; x++, sram++) {
            size_t element = (size_t)it->dram_base + (size_t)y * it->x_stride + x;
            if (!output_written[sram])
                return wrong("STORE of an element that no GEMM or ALU has written");
            memcpy(dram + element * VTA_OUT_BYTES, outputs[sram], VTA_OUT_BYTES);
        }
    }
    return 0;
}

/* -- Compute ----------------------------------------------------------------------------------- */

static int check_compute(const struct instruction *it)
{
    if (it->iter_out == 0 || it->iter_in == 0 || it->uop_bgn >= it->uop_end)
        return wrong("GEMM or ALU with nothing to do");
    if (it->uop_end > VTA_UOP_ENTRIES)
        return wrong("GEMM or ALU with micro-ops beyond the buffer");
    if (it->opcode == GEMM)
        return 0;
    if (it->reset || it->operation > MUL)
        return wrong("the operation of the ALU is unknown");
    if (it->operation == MUL && !VTA_ALU_MUL)
        return wrong("a product on the ALU, which this machine does not have");
    if (it->operation == SHR && it->use_imm && (it->imm > MAX_SHIFT || it->imm < -MAX_SHIFT))
        return wrong("a shift by more than 31");
    if (it->operation == SHR && !it->use_imm && it->imm < 0 && VTA_SHR_SIGN_OF_IMM)
        return wrong("a shift whose direction is turned round");
    return 0;
}

static void write_out(uint32_t dst)
{
    int i;
    for (i = 0; i < LANES; i++)
        outputs[dst][i] = (int8_t)((uint32_t)accumulators[dst][i] & 0xff);
    output_written[dst] = 1;
}

static int gemm(const struct instruction *it, struct micro_op op)
{
    int b, o, k;
    if (it->reset) {
        memset(accumulators[op.dst], 0, sizeof accumulators[op.dst]);
        return 0;
    }
    if (op.src >= VTA_INP_DEPTH || op.wgt >= VTA_WGT_DEPTH)
        return wrong("a micro-op leaves INP or WGT");
    for (b = 0; b < VTA_BATCH; b++) {
        for (o = 0; o < VTA_BLOCK; o++) {
            const int8_t *row = inputs[op.src] + b * VTA_BLOCK;
            const int8_t *column = weights[op.wgt] + o * VTA_BLOCK;
            int32_t sum = 0, *acc = &accumulators[op.dst][b * VTA_BLOCK + o];
            for (k = 0; k < VTA_BLOCK; k++)
                sum += row[k] * column[k];
            *acc = (int32_t)((uint32_t)*acc + (uint32_t)sum);
        }
    }
    write_out(op.dst);
    return 0;
}

/* x >> amount, rounding down; x << -amount where the amount is negative. */
static int32_t shifted(int32_t x, int32_t amount)
{
    if (amount < 0)
        return (int32_t)((uint32_t)x << -amount);
    return x < 0 ? ~(~x >> amount) : x >> amount;
}

static int32_t operate(uint32_t operation, int32_t x, int32_t y)
{
    switch (operation) {
    case MIN:
        return x < y ? x : y;
    case MAX:
        return x > y ? x : y;
    case ADD:
        return (int32_t)((uint32_t)x + (uint32_t)y);
    case MUL:
        return (int32_t)((uint32_t)x * (uint32_t)y);
    default:
        return shifted(x, y);
    }
}

/* previous: the destination of the micro-op before; VTA_ACC_DEPTH if there is none. */
static int alu(const struct instruction *it, struct micro_op op, uint32_t previous)
{
    int reads_src = !it->use_imm || VTA_ALU_IMM_SRC, i;
    int32_t least = VTA_SHR_SIGN_OF_IMM && !it->use_imm ? 0 : -MAX_SHIFT;
    if (reads_src && op.src >= VTA_ACC_DEPTH)
        return wrong("a micro-op leaves ACC");
    if (!VTA_ALU_BYPASS
        && ((reads_src && op.src == previous) || (it->use_imm && op.dst == previous)))
        return wrong("a micro-op of the ALU depends on the one before it");
    for (i = 0; i < LANES; i++) {
        int32_t x = accumulators[it->use_imm && reads_src ? op.src : op.dst][i];
        int32_t y = it->use_imm ? it->imm : accumulators[op.src][i];
        if (it->operation == SHR && (y < least || y > MAX_SHIFT))
            return wrong("a shift amount is out of range");
        accumulators[op.dst][i] = operate(it->operation, x, y);
    }
    write_out(op.dst);
    return 0;
}

static int compute(const struct instruction *it)
{
    uint32_t previous = VTA_ACC_DEPTH, i, j, u;
    for (i = 0; i < it->iter_out; i++) {
        for (j = 0; j < it->iter_in; j++) {
            for (u = it->uop_bgn; u < it->uop_end; u++) {
                struct micro_op op;
                if (!vta_decode_micro_op(&op, uops[u]))
                    return wrong("reserved bits of a micro-op are set");
                op.dst += i * it->dst_factor[0] + j * it->dst_factor[1];
                op.src += i * it->src_factor[0] + j * it->src_factor[1];
                op.wgt += i * it->wgt_factor[0] + j * it->wgt_factor[1];
                if (op.dst >= VTA_ACC_DEPTH)
                    return wrong("a micro-op leaves ACC");
                if ((it->opcode == GEMM ? gemm(it, op) : alu(it, op, previous)) != 0)
                    return 1;
                previous = op.dst;
            }
        }
    }
    return 0;
}

/* -- Modules and tokens ------------------------------------------------------------------------ */

/* Tokens from one module to its neighbour. Seen from compute, load is prev and store is next. */
static uint32_t load_to_compute, compute_to_load, compute_to_store, store_to_compute;

struct queues {
    uint32_t *pop_prev, *pop_next, *push_prev, *push_next;
};

static const struct queues queues_of[3] = {
    {NULL, &compute_to_load, NULL, &load_to_compute},
    {&load_to_compute, &store_to_compute, &compute_to_load, &compute_to_store},
    {&compute_to_store, NULL, &store_to_compute, NULL},
};

static int check_tokens(const struct instruction *it, const struct queues *queues)
{
    if (((it->pop_prev || it->push_prev) && !queues->pop_prev)
        || ((it->pop_next || it->push_next) && !queues->pop_next))
        return wrong("a token of a module that has no such neighbour");
    return 0;
}

static int is_ready(const struct instruction *it, const struct queues *queues)
{
    return (!it->pop_prev || *queues->pop_prev > 0) && (!it->pop_next || *queues->pop_next > 0);
}

static int execute(const struct instruction *it, const struct queues *queues)
{
    int status = 0;
    if (it->pop_prev)
        --*queues->pop_prev;
    if (it->pop_next)
        --*queues->pop_next;
    if (it->opcode == LOAD || it->opcode == STORE) {
        status = check_transfer(it);
        if (status == 0 && it->x_size > 0 && it->opcode == STORE)
            status = store(it);
        else if (status == 0 && it->x_size > 0)
            load(it);
    } else if (it->opcode != FINISH) {
        status = check_compute(it);
        if (status == 0)
            status = compute(it);
    }
    if (it->push_prev)
        ++*queues->push_prev;
    if (it->push_next)
        ++*queues->push_next;
    return status;
}

/* The instruction that a module runs next, and its place in the program. */
struct pending {
    struct instruction it;
    uint32_t place;
};

/* Moves on to the next instruction of a module, from `place` on; to `count` if there is none. */
static int find(struct pending *next, enum module module, uint32_t count,
                const unsigned char *program)
{
    const char *what;
    for (; next->place < count; ++next->place) {
        position = next->place;
        what = vta_decode(&next->it, program + (size_t)INSTRUCTION_BYTES * position);
        if (what)
            return wrong(what);
        if (module_of(&next->it) == module)
            return check_tokens(&next->it, &queues_of[module]);
    }
    return 0;
}

/* Runs a program. Of the modules that need not wait, the one that comes first in it goes on: any
 * order that tokens allow gives the same results. */
static int run(uint32_t count, const unsigned char *program)
{
    struct pending next[3];
    int module;
    for (module = 0; module < 3; module++) {
        next[module].place = 0;
        if (find(&next[module], (enum module)module, count, program) != 0)
            return 1;
    }
    for (;;) {
        struct pending *first = NULL;
        int chosen = 0;
        for (module = 0; module < 3; module++) {
            struct pending *it = &next[module];
            if (it->place < count && is_ready(&it->it, &queues_of[module])
                && (!first || it->place < first->place)) {
                first = it;
                chosen = module;
            }
        }
        if (!first)
            return wrong("the modules wait for each other, or there is no FINISH");
        position = first->place;
        if (execute(&first->it, &queues_of[chosen]) != 0)
            return 1;
        if (first->it.opcode == FINISH)
            return 0;
        ++first->place;
        if (find(first, (enum module)chosen, count, program) != 0)
            return 1;
    }
}

/* At launch buffers are undefined and there are no tokens; here they are zeros. */
static void reset(void)
{
    load_to_compute = compute_to_load = compute_to_store = store_to_compute = 0;
    memset(uops, 0, sizeof uops);
    memset(inputs, 0, sizeof inputs);
    memset(weights, 0, sizeof weights);
    memset(accumulators, 0, sizeof accumulators);
    memset(output_written, 0, sizeof output_written);
}

int vta_launch(uint32_t address, uint32_t count)
{
    position = 0;
    if (address < VTA_DRAM_BASE || address + (uint64_t)INSTRUCTION_BYTES * count > sizeof dram)
        return wrong("the program leaves the memory of the network");
    reset();
    if (run(count, dram + address) != 0)
        return 1;
    if (load_to_compute || compute_to_load || compute_to_store || store_to_compute)
        return wrong("tokens are left over at FINISH");
    return 0;
}

/* -- Memory ------------------------------------------------------------------------------------ */

static int check_place(uint32_t address, size_t size)
{
    if (address >= VTA_DRAM_BASE && address <= sizeof dram && size <= sizeof dram - address)
        return 0;
    fprintf(stderr, "vta_simulator: a copy leaves the memory of the network\n");
    return 1;
}

int vta_write(uint32_t address, const void *data, size_t size)
{
    if (check_place(address, size) != 0)
        return 1;
    memcpy(dram + address, data, size);
    return 0;
}

int vta_read(uint32_t address, void *data, size_t size)
{
    if (check_place(address, size) != 0)
        return 1;
    memcpy(data, dram + address, size);
    return 0;
}
