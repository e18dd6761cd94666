"""Which ops of a float network could compute together in integers, and by which rules.

A function of float ops is read here (`network`: constants, ranges, given scales), and its ops are
grouped (`groups`): sums of linear forms (`forms`), products of activations (`contractions`),
functions of one variable (`one_variable`). Each kind of op has one rule (`rules`). Nothing in this
room knows of an integer: which ones stand for a group, the room ``quantize`` decides.
"""
