/* The driver of a VTA: the three functions that a board has to offer.
 *
 * Addresses count bytes in the DRAM of the accelerator. The network uses one contiguous area there,
 * of VTA_DRAM_BYTES bytes (vta_machine.h) from the base that network_start() is given. All
 * functions return 0, or another number where they fail; the network then stops and returns it.
 *
 * vta_simulator.c is an implementation in plain C. To run on a board, leave that file out and link
 * one that talks to the board (README.md, "Port to a board").
 */
#ifndef VTA_DRIVER_H
#define VTA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* Copies `size` bytes to the accelerator's memory at `address`. The accelerator must read these
 * bytes from the next launch on: flush caches where they are not coherent. */
int vta_write(uint32_t address, const void *data, size_t size);

/* Runs the program of `count` instructions, 16 bytes each, that lies at `address`, from its first
 * instruction to its FINISH. Returns when the accelerator is done. */
int vta_launch(uint32_t address, uint32_t count);

/* Copies `size` bytes from the accelerator's memory at `address`, as its last launch left them:
 * invalidate caches where they are not coherent. */
int vta_read(uint32_t address, void *data, size_t size);

#endif
