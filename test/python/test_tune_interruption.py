"""Ctrl-C in ``vta-tune`` in the moment in which something is printed."""

import io
import signal
import sys
from typing import Any

import pytest

from vtac.tools.commands import vta_tune


class Interrupting(io.RawIOBase):
    """A stream during the first write to which there is a Ctrl-C."""

    is_interrupted = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self.is_interrupted:
            self.is_interrupted = True
            signal.raise_signal(signal.SIGINT)
        return len(data)


def test_an_interruption_while_something_is_printed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The note of an interruption does not go through a stream that is being written to."""
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BufferedWriter(Interrupting())))
    with vta_tune._interruptions() as is_interrupted:
        print("a line", file=sys.stderr, flush=True)
        assert is_interrupted()
    assert "are finished and written" in capfd.readouterr().err
