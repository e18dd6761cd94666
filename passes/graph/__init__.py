"""Passes inside the graph dialect, and the pattern language of the partitioner."""
