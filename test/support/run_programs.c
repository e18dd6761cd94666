/* Runs one program on the simulator: run_programs IMAGE PROGRAM RESULT, with the image of DRAM from
 * address 0 on, the instructions, and the file for the image afterwards. */
#include <stdio.h>

#include "vta_driver.h"
#include "vta_machine.h"

static unsigned char bytes[VTA_PLANNED_BASE + VTA_DRAM_BYTES];

static size_t contents(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file)
        fclose(file);
    return size;
}

int main(int count, char **arguments)
{
    size_t image, program;
    FILE *file;
    if (count != 4)
        return 3;
    image = contents(arguments[1]);
    if (vta_write(VTA_PLANNED_BASE, bytes + VTA_PLANNED_BASE, image - VTA_PLANNED_BASE) != 0)
        return 3;
    program = contents(arguments[2]);
    if (vta_write((uint32_t)image, bytes, program) != 0)
        return 3;
    if (vta_launch((uint32_t)image, (uint32_t)(program / 16)) != 0)
        return 1;
    contents(arguments[1]);
    if (vta_read(VTA_PLANNED_BASE, bytes + VTA_PLANNED_BASE, image - VTA_PLANNED_BASE) != 0)
        return 3;
    file = fopen(arguments[3], "wb");
    if (!file || fwrite(bytes, 1, image, file) != image || fclose(file) != 0)
        return 3;
    return 0;
}
