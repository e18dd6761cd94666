"""Python's cyclic garbage collector during compilations and searches."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (100_000, 50, 100)
"""Thresholds of the three generations during a search."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's cyclic garbage collector.

    Lowering creates many objects that stay alive, and the collector would traverse all of them
    again and again. Garbage is collected afterwards.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def collector_seldom() -> Iterator[None]:
    """Let Python's cyclic garbage collector run seldom.

    A search keeps much of what it finds, and each of its points makes and drops an IR. With the
    usual thresholds, of 700 objects, a fifth of the time goes to looking through what stays.
    Garbage is still collected, so memory stays bounded however long a search takes.
    """
    before = gc.get_threshold()
    gc.set_threshold(*map(max, before, SELDOM))
    try:
        yield
    finally:
        gc.set_threshold(*before)
