"""``vtac.te``: computations on tensors, compiled and run."""
