"""The machine as a variable: which VTA runs a network in how many cycles, at what cost.

VTA is a template of hardware. `space` declares the machines that come into question, `design`
chooses which of them to look at, `evaluation` compiles the network for each and counts cycles, and
`front` finds those that no other beats in cycles and cost (docs/machines.md).
"""
