"""Rewrites inside te: of tensor expressions, by schedules, of loops."""
