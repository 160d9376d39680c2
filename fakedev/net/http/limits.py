"""What a peer may send over HTTP and how long it may take: the limits, and the error when a request breaks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_KiB: Final = 1024
#: The bytes that no line may hold: all control characters but the tab.
CONTROL_CHARACTERS: Final = bytes(range(9)) + bytes(range(10, 32)) + b"\x7f"


@dataclass(frozen=True)
class HttpLimits:
    """The limits of one port; sizes in bytes.

    :param line: the request line, and each header line, without line ends.
    :param headers: all header lines together, with line ends.
    :param head: request line and headers together.
    :param head_seconds, body_seconds: from the first byte to the last.
    :param stall_seconds: how long the peer may read nothing of what was sent.
    :param idle_seconds: how long a connection may stay open without a request.
    """

    line: int = 4 * _KiB
    headers: int = 16 * _KiB
    head: int = 20 * _KiB
    body: int = 64 * _KiB
    head_seconds: float = 10.0
    body_seconds: float = 10.0
    stall_seconds: float = 10.0
    idle_seconds: float = 60.0
    max_connections: int = 10_000


#: For ports that stand in for the original programs, which read at most 4 KiB.
DROP_IN_LIMITS: Final = HttpLimits(headers=4 * _KiB, head=4 * _KiB)


class BadRequest(Exception):
    """A request that cannot be served: the status to answer with, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
