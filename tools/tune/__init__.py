"""Search over schedules: explorers, measurement, and the loop that tunes several kernels.

The method follows FlexTensor (Zheng et al., "FlexTensor", ASPLOS 2020). Nothing below imports this
package: a compilation needs the results of a search at most, never the search.
"""
