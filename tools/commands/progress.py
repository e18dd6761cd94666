"""What a command does now, for the people who wait for it."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Step: TypeAlias = Callable[[str], None]
"""Called with a few words when a step begins."""


@contextmanager
def shown_steps(*, quiet: bool, verbose: bool) -> Iterator[Step]:
    """A callback that shows each step on standard error while the body runs.

    On a terminal a step stands in one line, which the next one replaces, and the body must print
    nothing. With ``verbose`` each has a line with the seconds since the start, terminal or not.
    Otherwise nothing is shown.
    """
    started = time.perf_counter()
    if verbose:
        yield lambda step: print(f"{time.perf_counter() - started:8.2f} s  {step}", file=sys.stderr)
    elif quiet or not sys.stderr.isatty():
        yield lambda _: None
    else:  # rich takes long to import, and most commands end before anybody waits
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True, highlight=False).status("") as status:
            yield lambda step: status.update(escape(step))
