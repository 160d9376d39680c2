"""The addresses of one kind, and what listens there: they can become others while the program runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from fakedev.config.listen import ListenAddress
from fakedev.net.system.listening import Listeners, ListeningService

Entry = TypeVar("Entry")
Place = tuple[ListenAddress, int]


class Ports(Generic[Entry]):
    """The services of some entries of the configuration, found by their address.

    :param address: where an entry listens.
    :param make: the service of an entry.
    :param change: gives the service of an address the entry that it has now.
    :ivar services: the services in use, each with its entry, in the order of the configuration.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        address: Callable[[Entry], ListenAddress],
        make: Callable[[Entry], ListeningService],
        change: Callable[[ListeningService, Entry], None],
    ) -> None:
        self._address = address
        self._make = make
        self._change = change
        self._by_place = {place: make(entry) for place, entry in self._placed(entries)}
        self._began: dict[Place, ListeningService] = {}
        self.services = list(zip(self._by_place.values(), entries, strict=True))

    def begin(self, entries: Sequence[Entry], listeners: Listeners) -> None:
        """Listen where these entries do, and those in use do not.

        :raises CannotListen: call :meth:`undo` then.
        """
        for place, entry in self._placed(entries):
            if place not in self._by_place:
                self._began[place] = service = self._make(entry)
                service.setServiceParent(listeners)

    def undo(self) -> None:
        """Stop listening where that was begun."""
        for service in self._began.values():
            service.disownServiceParent()
        self._began = {}

    def finish(self, entries: Sequence[Entry]) -> None:
        """The entries that were begun are in use: the others are not, and their connections are closed."""
        services = self._by_place | self._began
        placed = self._placed(entries)
        self._by_place = {place: services[place] for place, _ in placed}
        self._began = {}
        self.services = [(services[place], entry) for place, entry in placed]
        for service, entry in self.services:
            self._change(service, entry)
        for place, service in services.items():
            if place not in self._by_place:
                service.disownServiceParent()

    def _placed(self, entries: Sequence[Entry]) -> list[tuple[Place, Entry]]:
        """The entries by their addresses; the same address again (as port 0 may be) by how often it was there."""
        seen: Counter[ListenAddress] = Counter()
        placed = []
        for entry in entries:
            address = self._address(entry)
            placed.append(((address, seen[address]), entry))
            seen[address] += 1
        return placed
