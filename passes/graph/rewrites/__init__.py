"""The patterns of ``canonicalize-graph``, by what they simplify."""
