"""Operators written as others that the accelerator has, where samples will calibrate the network.

In floats on the host the operators themselves are faster, so a network without samples keeps them.
"""
