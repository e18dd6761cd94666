"""The command-line drivers."""
