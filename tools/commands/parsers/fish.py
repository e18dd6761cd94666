"""Completions for the shell fish, which the package shtab does not write."""

import argparse

FISH = "fish"


def fish_completions(parser: argparse.ArgumentParser) -> str:
    """The lines by which fish completes the options of a command, and the values they choose from.

    An option whose values are any text is completed by names of files, as arguments without an
    option are.
    """
    return "".join(f"{_line(parser.prog, a)}\n" for a in parser._actions if a.option_strings)


def _line(command: str, action: argparse.Action) -> str:
    words = ["complete", "-c", command]
    for option in action.option_strings:
        words += ["-l", option[2:]] if option.startswith("--") else ["-s", option[1:]]
    if action.choices is not None:
        words += ["-x", "-a", _quoted(" ".join(map(str, action.choices)))]
    elif action.nargs != 0:
        words.append("-r")
    if action.help and action.help != argparse.SUPPRESS:
        words += ["-d", _quoted(action.help % {**vars(action), "prog": command})]
    return " ".join(words)


def _quoted(text: str) -> str:
    """A text between single quotes, within which fish knows two escapes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
