"""Rewrites inside one dialect: a phase a folder, a pass per file."""
