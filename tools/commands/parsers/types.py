"""The types of arguments: how a text becomes a number, and what is wrong with it."""

import argparse
import math
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number of at least ``least``."""

    def whole_number(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is less than {least}")
        return number

    return whole_number


def whole_numbers(text: str) -> tuple[int, ...]:
    """The type of an argument that is several whole numbers of at least 1, separated by commas."""
    return tuple(map(at_least(1), text.split(",")))


def finite_number(text: str) -> float:
    """The type of an argument that is a number, neither NaN nor infinite."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return number


def positive_number(text: str) -> float:
    """The type of an argument that is a finite number above 0."""
    number = finite_number(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def not_negative(text: str) -> float:
    """The type of an argument that is a finite number, at least 0."""
    number = finite_number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


def percentage(text: str) -> float:
    """The type of an argument that is a share in percent: above 0, at most 100."""
    number = finite_number(text)
    if not 0 < number <= 100:
        raise argparse.ArgumentTypeError(f"{number} is no percentage above 0")
    return number
