"""Which process a run belongs to, and whether it is still alive."""

import os
import socket
from pathlib import Path


def this_process() -> str:
    """This process among all processes of all machines: host, number, and when it was started."""
    return f"{socket.gethostname()} {os.getpid()} {_start_of(os.getpid())}"


def is_gone(owner: str) -> bool:
    """Whether the process that is called so has ended. Of other machines that is not known: no."""
    if not owner:  # let go, or imported
        return True
    host, process, started = owner.split(" ")
    if host != socket.gethostname():
        return False
    number = int(process)
    if number == os.getpid():
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return _start_of(number) != started


def _start_of(process: int) -> str:
    """When a process was started, in ticks of the machine; "0" where that is not known."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"
