"""What a server allows."""

from dataclasses import dataclass

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The bounds of a server.

    workers: processes that run packages, each one request at a time. waiting: requests that may
    wait for one; further ones are refused. request_bytes: of one body, also unpacked. store_bytes:
    of all packages together; the packages that were used longest ago give way. worker_bytes: the
    memory of one process. seconds: for one run; a process that takes longer is ended. idle_seconds:
    for a client to send its request, and between two requests. connections: at one time.
    """

    workers: int = 2
    waiting: int = 64
    request_bytes: int = 256 * MEGABYTE
    store_bytes: int = 1024 * MEGABYTE
    worker_bytes: int = 4096 * MEGABYTE
    seconds: float = 120.0
    idle_seconds: float = 30.0
    connections: int = 512
