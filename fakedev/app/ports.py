"""Parts of the program that a reload changes, and the first of them: the services of one kind of address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from fakedev.net.system.listening import Listeners, ListeningService
from fakedev.spec.listen_address import ListenAddress

if TYPE_CHECKING:
    from fakedev.config.configuration import Configuration
    from fakedev.config.web_config import WebConfigSource

Entry = TypeVar("Entry")
#: The TLS of a line port, for its factory; None for plain text.
TlsOf = Callable[["WebConfigSource | None"], Any]
Place = tuple[ListenAddress, int]


class Reloadable(Protocol):
    """A part of the program that a reload changes: ports, queues."""

    def begin(self, configuration: Configuration, listeners: Listeners) -> None:
        """Prepare for a new configuration, and listen on its new addresses.

        :raises CannotListen: or ``workqueue.spec.Refused``; :meth:`undo` follows then.
        """

    def undo(self) -> None:
        """Drop what :meth:`begin` has prepared."""

    def finish(self, configuration: Configuration) -> None:
        """Apply the new configuration, which :meth:`begin` has prepared."""


@dataclass(frozen=True)
class Remedies:
    """How a user changes the addresses of a program.

    :param options: the option that gives an address, by its key in the configuration; for programs of which the user
        sees no configuration.
    """

    options: Mapping[str, str] = field(default_factory=dict)

    def of(self, key: str) -> str:
        """What to do when the address with this key cannot be listened on."""
        if key in self.options:
            return f"give another address with {self.options[key]}"
        port = "--port N, or " if key == "web.0.listen" else ""
        return f"change {key} ({port}--set {key}=ADDRESS)"


class Ports(Reloadable, Generic[Entry]):
    """The services of some entries of the configuration, found by their address.

    :param first: the entries at the start.
    :param entries: the entries of a later configuration.
    :param address: the address of an entry.
    :param make: makes the service of an entry.
    :param change: gives a service the entry that its address has now.
    :param key: of the entries in the configuration, as ``web``.
    :param remedies: for addresses that cannot be listened on.
    :ivar services: the services in use, each with its entry, in the order of the configuration.
    """

    def __init__(
        self,
        first: Sequence[Entry],
        entries: Callable[[Configuration], Sequence[Entry]],
        address: Callable[[Entry], ListenAddress],
        make: Callable[[Entry], ListeningService],
        change: Callable[[ListeningService, Entry, Configuration], None],
        key: str,
        remedies: Remedies,
    ) -> None:
        self._entries = entries
        self._address = address
        self._make_service = make
        self._change = change
        self._key = key
        self._remedies = remedies
        placed = self._placed(first)
        self._by_place = {place: self._make(entry, index) for index, (place, entry) in enumerate(placed)}
        self._new: dict[Place, ListeningService] = {}
        self.services = [(self._by_place[place], entry) for place, entry in placed]

    def begin(self, configuration: Configuration, listeners: Listeners) -> None:
        for index, (place, entry) in enumerate(self._placed(self._entries(configuration))):
            if place not in self._by_place:
                self._new[place] = service = self._make(entry, index)
                service.setServiceParent(listeners)

    def undo(self) -> None:
        for service in self._new.values():
            service.disownServiceParent()
        self._new = {}

    def finish(self, configuration: Configuration) -> None:
        """Use the new entries; stop listening on addresses that have none, and close their connections."""
        services = self._by_place | self._new
        placed = self._placed(self._entries(configuration))
        self._by_place = {place: services[place] for place, _ in placed}
        self._new = {}
        self.services = [(services[place], entry) for place, entry in placed]
        for service, entry in self.services:
            self._change(service, entry, configuration)
        for place, service in services.items():
            if place not in self._by_place:
                service.disownServiceParent()

    def refresh(self, configuration: Configuration) -> None:
        """Give all services in use their entries again, because the fleet has other nodes."""
        for service, entry in self.services:
            self._change(service, entry, configuration)

    def _make(self, entry: Entry, index: int) -> ListeningService:
        service = self._make_service(entry)
        service.remedy = self._remedies.of(f"{self._key}.{index}.listen")
        return service

    def _placed(self, entries: Sequence[Entry]) -> list[tuple[Place, Entry]]:
        """The entries by address; a number tells equal addresses apart (port 0 may occur several times)."""
        seen: Counter[ListenAddress] = Counter()
        placed = []
        for entry in entries:
            address = self._address(entry)
            placed.append(((address, seen[address]), entry))
            seen[address] += 1
        return placed
