/* Relocation: LOAD and STORE address DRAM in elements of their memory, from byte 0 on. So where the
 * area of the network begins elsewhere than planned, each of them is moved by as many elements. */
#include "vta_programs.h"

#include "vta_driver.h"
#include "vta_machine.h"

enum { CHUNK = 64, INSTRUCTION_BYTES = 16 };

/* The bytes of an element in DRAM, by memory: UOP, WGT, INP, ACC, OUT, ACC_8BIT. */
static const uint32_t element_bytes[8] = {
    4, VTA_WGT_BYTES, VTA_INP_BYTES, VTA_ACC_BYTES, VTA_OUT_BYTES, VTA_OUT_BYTES, 1, 1,
};

static uint64_t moved(uint64_t low, uint64_t high, uint32_t planned, uint32_t base)
{
    uint32_t opcode = (uint32_t)(low & 7), memory = (uint32_t)(low >> 7 & 7);
    uint32_t x_size = (uint32_t)(high >> 16 & 0xffff), bytes = element_bytes[memory];
    uint32_t place = (uint32_t)(low >> 26 & 0xffffffff);
    if (opcode > 1 || x_size == 0)
        return low;
    place = place - planned / bytes + base / bytes;
    return (low & ~((uint64_t)0xffffffff << 26)) | (uint64_t)place << 26;
}

static void put(unsigned char *bytes, uint64_t word)
{
    int i;
    for (i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(word >> 8 * i & 0xff);
}

int vta_place_program(uint32_t address, const uint64_t *words, uint32_t count, uint32_t planned,
                      uint32_t base)
{
    unsigned char chunk[CHUNK * INSTRUCTION_BYTES];
    uint32_t done, i;
    for (done = 0; done < count; done += CHUNK) {
        uint32_t number = count - done < CHUNK ? count - done : CHUNK;
        int status;
        for (i = 0; i < number; i++) {
            const uint64_t *word = words + 2 * (done + i);
            put(chunk + INSTRUCTION_BYTES * i, moved(word[0], word[1], planned, base));
            put(chunk + INSTRUCTION_BYTES * i + 8, word[1]);
        }
        status = vta_write(address + INSTRUCTION_BYTES * done, chunk, INSTRUCTION_BYTES * number);
        if (status != 0)
            return status;
    }
    return 0;
}
