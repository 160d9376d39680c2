"""What can go wrong between a client and a running fakedev."""

from __future__ import annotations


class FleetError(Exception):
    """The base of all errors of this client; its text is a whole sentence."""


class NoAnswer(FleetError):
    """No fakedev answers at the address, or it left before it had answered."""


class RequestRefused(FleetError):
    """The service refused a request; the text is that of the API.

    :param status: of HTTP, 400 or higher.
    :param code: one of the codes of the API, as ``bad-argument`` or ``unknown-name``.
    :param where: the wrong field or name, if there is one.
    """

    def __init__(self, text: str, status: int, code: str = "", where: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.where = where


class NeverTrue(FleetError):
    """A condition did not become true within the simulated time."""
