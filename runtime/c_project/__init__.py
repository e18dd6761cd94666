"""A compiled package as a C99 project that needs neither Python nor any library but libc and libm.

The idea is that of TVM's C runtime and of BYOC's metadata module (Chen et al., "Bring Your Own
Codegen to Deep Learning Compiler", 2021): everything that a run needs is data and plain functions.
The steps of the package become C functions, all memory is planned in advance, and the accelerator
lies behind a driver of three functions. A functional simulator in C implements it, so that the
project builds and runs anywhere. docs/export.md describes what is generated.
"""

from vtac.runtime.c_project.project import CProject, c_project_of, export_c

__all__ = ["CProject", "c_project_of", "export_c"]
