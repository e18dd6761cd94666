"""The plan of a network over the cores and memories of a cluster, one pass per file."""
