/* The command: reads inputs from files, runs the network, writes the outputs to files.
 *
 * A file holds the elements of a tensor in row-major order and in the byte order of this machine.
 * It may hold several, one after the other; the network then runs once for each.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "network.h"
#include "vta_machine.h"

#ifndef VTA_DRAM_BASE
#define VTA_DRAM_BASE VTA_PLANNED_BASE
#endif

enum { PORTS = NETWORK_INPUTS + NETWORK_OUTPUTS, LONGEST_PATH = 4096 };

static const char *program = "model";
static const char *paths[PORTS + 1];
static FILE *files[PORTS + 1];

/* Inputs first, then outputs. */
static const struct network_port *port_of(int number)
{
    return number < NETWORK_INPUTS ? &network_inputs[number]
                                   : &network_outputs[number - NETWORK_INPUTS];
}

static int fail(const char *path, const char *what)
{
    fprintf(stderr, "%s: error: %s: %s\n", program, path, what);
    return 1;
}

static void print_ports(const char *title, int first, int end)
{
    int number;
    printf("\n%s, in this order:\n", title);
    for (number = first; number < end; number++) {
        const struct network_port *port = port_of(number);
        printf("  %-24s %s[%s], %lu bytes\n", port->name, port->type, port->shape,
               (unsigned long)port->bytes);
    }
}

static void print_help(void)
{
    printf("Usage: %s FILE...\n"
           "       %s NAME=FILE...\n\n"
           "Run the network on the elements in the files of its inputs, and write its outputs.\n"
           "Name a file for each input, then one for each output, in the order below; or say in\n"
           "any order which is which, as NAME=FILE.\n",
           program, program);
    print_ports("Inputs", 0, NETWORK_INPUTS);
    print_ports("Outputs", NETWORK_INPUTS, PORTS);
    printf("\nA file holds the elements of a tensor in row-major order, in this machine's byte\n"
           "order and without a header (numpy: array.tofile, numpy.fromfile). It may hold\n"
           "several tensors, one after the other: the network then runs once for each.\n\n"
           "Memory: %lu bytes on the host, %lu bytes on the accelerator.\n"
           "Exit status: 0; or 1 with what is wrong on standard error, and outputs as they were.\n",
           (unsigned long)NETWORK_MEMORY_BYTES, (unsigned long)VTA_DRAM_BYTES);
}

/* Finds the port that an argument is for: by its name, else the first that has no file yet. */
static int assign(const char *argument)
{
    const char *equals;
    int number;
    for (number = 0; number < PORTS; number++) {
        size_t length = strlen(port_of(number)->name);
        equals = argument + length;
        if (!paths[number] && !strncmp(argument, port_of(number)->name, length) && *equals == '=') {
            paths[number] = equals + 1;
            return 0;
        }
    }
    for (number = 0; number < PORTS; number++) {
        if (!paths[number]) {
            paths[number] = argument;
            return 0;
        }
    }
    return fail(argument, "is a file too many (see --help)");
}

static const char *unfinished(const char *path)
{
    static char name[LONGEST_PATH + 8];
    snprintf(name, sizeof name, "%s.part", path);
    return name;
}

static int open_files(void)
{
    int number;
    for (number = 0; number < PORTS; number++) {
        const char *path = paths[number];
        if (!path)
            return fail(port_of(number)->name, "has no file (see --help)");
        if (strlen(path) > LONGEST_PATH)
            return fail(port_of(number)->name, "the name of its file is too long");
        files[number] = number < NETWORK_INPUTS ? fopen(path, "rb") : fopen(unfinished(path), "wb");
        if (!files[number])
            return fail(path, number < NETWORK_INPUTS ? "cannot read it" : "cannot write it");
    }
    return 0;
}

static int is_finite(const struct network_port *port)
{
    size_t i;
    if (!strcmp(port->type, "float32"))
        for (i = 0; i < port->bytes / sizeof(float); i++)
            if (!isfinite(((const float *)port->data)[i]))
                return 0;
    if (!strcmp(port->type, "float64"))
        for (i = 0; i < port->bytes / sizeof(double); i++)
            if (!isfinite(((const double *)port->data)[i]))
                return 0;
    return 1;
}

/* Fills the inputs with the next tensors. Sets `more` to whether there were any. */
static int read_inputs(int *more)
{
    int number;
    *more = 0;
    for (number = 0; number < NETWORK_INPUTS; number++) {
        const struct network_port *port = port_of(number);
        size_t got = fread(port->data, 1, port->bytes, files[number]);
        if (ferror(files[number]))
            return fail(paths[number], "cannot read it");
        if (got > 0 && got < port->bytes)
            return fail(paths[number], "its size is no multiple of that of the input (see --help)");
        if (number == 0)
            *more = got > 0;
        else if ((got > 0) != *more)
            return fail(paths[number], "holds another number of tensors than the first input");
        if (NETWORK_LAUNCHES > 0 && got > 0 && !is_finite(port))
            return fail(paths[number], "holds values that are not finite numbers");
    }
    return 0;
}

static int write_outputs(void)
{
    int number;
    for (number = NETWORK_INPUTS; number < PORTS; number++) {
        const struct network_port *port = port_of(number);
        if (fwrite(port->data, 1, port->bytes, files[number]) != port->bytes)
            return fail(paths[number], "cannot write it");
    }
    return 0;
}

static int run_all(void)
{
    int more = 1, runs = 0, status;
    for (;;) {
        if (NETWORK_INPUTS > 0 && read_inputs(&more) != 0)
            return 1;
        if (!more || (NETWORK_INPUTS == 0 && runs == 1))
            break;
        status = network_run();
        if (status != 0)
            return fail("launch", "the accelerator failed");
        if (write_outputs() != 0)
            return 1;
        runs++;
    }
    return runs > 0 ? 0 : fail(paths[0], "is empty");
}

/* Closes all files. Outputs get their names if all is well, else they are removed. */
static int close_files(int status)
{
    int number;
    for (number = 0; number < PORTS; number++)
        if (files[number] && fclose(files[number]) != 0 && status == 0)
            status = fail(paths[number], "cannot write it");
    for (number = NETWORK_INPUTS; number < PORTS; number++) {
        if (!files[number])
            continue;
        if (status == 0 && rename(unfinished(paths[number]), paths[number]) != 0)
            status = fail(paths[number], "cannot write it");
        if (status != 0)
            remove(unfinished(paths[number]));
    }
    return status;
}

int main(int count, char **arguments)
{
    int number, status = 0;
    if (count > 0)
        program = arguments[0];
    for (number = 1; number < count; number++) {
        if (!strcmp(arguments[number], "--help") || !strcmp(arguments[number], "-h")) {
            print_help();
            return 0;
        }
        if (assign(arguments[number]) != 0)
            return 1;
    }
    status = open_files();
    if (status == 0 && network_start(VTA_DRAM_BASE) != 0)
        status = fail("start", "the accelerator cannot be written to");
    if (status == 0)
        status = run_all();
    return close_files(status);
}
