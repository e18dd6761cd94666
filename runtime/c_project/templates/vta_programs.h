/* Places programs in the memory of the accelerator. */
#ifndef VTA_PROGRAMS_H
#define VTA_PROGRAMS_H

#include <stdint.h>

/* Writes a program to `address`. The instructions are two words each, with the low one first. Their
 * addresses hold for the area that begins at `planned`; they are moved to the area that begins at
 * `base`. Both are multiples of the largest element. Returns what vta_write() returns. */
int vta_place_program(uint32_t address, const uint64_t *words, uint32_t count, uint32_t planned,
                      uint32_t base);

#endif
