"""Operators written as others that the accelerator has, where samples calibrate the network.

Where the network brings its own scales instead, operators are rewritten between its roundings only.
In floats on the host the operators themselves are faster.
"""
