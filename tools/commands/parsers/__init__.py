"""The arguments of the commands: one module for each command's parser, and what they share.

Nothing here imports more than the names that help texts and choices need, so that ``--help`` and a
mistake in the arguments are answered before the rest of the command is imported.
"""
