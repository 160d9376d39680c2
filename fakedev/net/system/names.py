"""Names of hosts, looked up in threads that nobody waits for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress, IHostnameResolver, IHostResolution, IResolutionReceiver
from zope.interface import implementer

_ADDRESSES: Final[dict[int, type[IPv4Address | IPv6Address]]] = {
    socket.AF_INET: IPv4Address, socket.AF_INET6: IPv6Address,
}  # fmt: skip


@implementer(IHostnameResolver)
class PatientResolver:
    """Asks the system for the addresses of a name, in a thread of its own for each question.

    A name server that does not answer holds the thread for half a minute. Twisted's resolver uses the reactor's few
    threads, which logs and snapshots need, and for which the reactor waits when it stops.

    :param look_up: as socket.getaddrinfo.
    """

    def __init__(self, reactor: Any, look_up: Callable[..., Sequence[Any]] = socket.getaddrinfo) -> None:
        self._reactor = reactor
        self._look_up = look_up

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type[IAddress]] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        """Look up a name; the receiver is told of each address, then of the end. No address: there is no such host."""
        protocol: Literal["TCP", "UDP"] = "UDP" if transportSemantics == "UDP" else "TCP"
        kind = socket.SOCK_DGRAM if protocol == "UDP" else socket.SOCK_STREAM

        def look_up() -> None:
            try:
                found = self._look_up(hostName, portNumber, 0, kind)
            except (OSError, UnicodeError):  # the second one for names that cannot be one
                found = ()
            self._reactor.callFromThread(answer, found)

        def answer(found: Sequence[Any]) -> None:
            for family, _, _, _, target in found:
                address = _ADDRESSES.get(family)
                if address is not None and (addressTypes is None or address in addressTypes):
                    resolutionReceiver.addressResolved(address(protocol, *target))
            resolutionReceiver.resolutionComplete()

        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        threading.Thread(target=look_up, daemon=True).start()
        return resolution


@implementer(IHostResolution)
class _Resolution:
    """A question that cannot be cancelled."""

    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """Do nothing, as Twisted's."""


def use_patient_resolver(reactor: Any) -> None:
    """Let a reactor look up names by a :class:`PatientResolver`."""
    reactor.installNameResolver(PatientResolver(reactor))
