"""Python's cyclic garbage collector during a compilation."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
