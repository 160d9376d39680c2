"""The limits of an HTTP address, and the error that a request ends with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_KiB: Final = 1024


@dataclass(frozen=True)
class HttpLimits:
    """The limits of one port; sizes in bytes.

    :param line: the request line, and each header line, without line ends.
    :param head: request line and header lines together, with line ends and the blank line.
    :param head_seconds: from the first byte of a head to its last; a body has as long.
    :param stall_seconds: how long the peer may read nothing of what was sent.
    :param idle_seconds: how long a connection may stay open without a request.
    """

    line: int = 4 * _KiB
    head: int = 20 * _KiB
    body: int = 64 * _KiB
    head_seconds: float = 10.0
    stall_seconds: float = 10.0
    idle_seconds: float = 60.0
    max_connections: int = 10_000


#: For ports that stand in for the original programs, which read at most 4 KiB.
DROP_IN_LIMITS: Final = HttpLimits(head=4 * _KiB)


class HttpError(Exception):
    """The error that answers a request.

    :param code: the API's error code; by the status when empty.
    :param where: the part of the request that is wrong.
    """

    def __init__(
        self, status: int, message: str, code: str = "", where: str = "", headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.where = where
        self.headers = tuple(headers)
