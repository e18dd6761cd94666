"""Integers near real numbers: how to choose them, and how far they are off.

Weights (`shifts`, `steps`, `rounding`, `planes`), ratios (`multipliers`), functions (`lines`,
`gates`), channels that share a block (`blocks`), errors that add up (`error_models`). All of it
takes arrays and returns arrays or plain numbers: this room knows no operation, no network and no
machine. What its numbers are for, the rooms of the quantiser decide.
"""
