"""Rewrites of vta programs: placing buffers, planning micro-ops, ordering instructions."""
