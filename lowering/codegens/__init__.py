"""The compile half of each codegen: which patterns it takes. The run half is in the runtime."""
