"""The ISA of VTA: one operation an instruction, its encoding and its assembly."""
