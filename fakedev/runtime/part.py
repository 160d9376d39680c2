"""The shape of a program's parts: what each listens on, shows and waits for, and how it takes a new configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from twisted.application.service import IService, MultiService
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface, implementer

from fakedev.runtime.listening import Announced, Listeners, ListeningService
from fakedev.runtime.reactor import IReactor
from fakedev.schema.addresses import ListenAddress

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Listens(Protocol):
    """An entry of the configuration with an address."""

    @property
    def listen(self) -> ListenAddress: ...


Entry = TypeVar("Entry", bound=Listens)
#: Returns the TLS of a line port, for its factory, from where its configuration says that it is; None for plain text.
TlsOf = Callable[[Any], Any]
Place = tuple[ListenAddress, int]


def plain(_: object) -> None:
    """No TLS: see TlsOf."""


class IPart(IService):
    """A part of a program, which finds the others in its parent."""

    closed = Attribute("Connections that its line ports have closed: their numbers by reason, by port.")

    def listeners() -> Iterable[ListeningService]:
        """The services of its addresses, in the order of the configuration."""

    def metrics() -> Mapping[str, Callable[[], Iterable[Metric]]]:
        """Its groups of the page of fakedev's own metrics."""

    def problems() -> Mapping[str, str]:
        """Why each of its outputs (``record``, ``otlp``) has failed, by its name; empty text: it works."""

    def unready_reason() -> str | None:
        """Why the program takes no new work, for ``/readyz``; None when it does."""

    def before_tick() -> None:
        """A tick of the fleet begins."""

    def ticked() -> None:
        """A tick of the fleet has ended."""

    def refresh() -> None:
        """Give the addresses their entries again, because certificates, passwords or nodes have changed."""

    def abandon() -> None:
        """Remove sockets and files that only a running program has, when it ends and its reactor has not run."""

    def drain() -> Deferred[None] | None:
        """Stop accepting work, before anything stops; fires when the work in progress is over."""

    def hurry(signal_name: str) -> None:
        """End the work that :meth:`drain` waits for, because of another signal."""


class IReloadable(Interface):
    """A part that a reload changes; each step is called with the part's section of the configuration."""

    def begin(section: Any, listeners: Listeners) -> None:
        """Prepare for a new configuration, and listen on its new addresses.

        :raises CannotListen: or ``Refused``; :meth:`undo` follows then.
        """

    def undo() -> None:
        """Drop what :meth:`begin` has prepared."""

    def finish(section: Any) -> None:
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


class Ports(Generic[Entry]):
    """The services of some entries of the configuration, found by their address.

    :param section: of the configuration at the start.
    :param entries: returns the entries of a section.
    :param make: makes the factory of an entry.
    :param change: gives a service the entry that its address has now, and the section.
    :param key: of the entries in the configuration, as ``web``.
    :param remedies: for addresses that cannot be listened on.
    :ivar services: the services in use, each with its entry, in the order of the configuration.
    """

    def __init__(
        self, section: Any, entries: Callable[[Any], Sequence[Entry]], make: Callable[[Entry], Any],
        change: Callable[[ListeningService, Entry, Any], None], key: str, remedies: Remedies, reactor: IReactor,
    ) -> None:  # fmt: skip
        self._section = section
        self._entries = entries
        self._make_factory = make
        self._change = change
        self._key = key
        self._remedies = remedies
        self._reactor = reactor
        placed = self._placed(section)
        self._by_place = {place: self._make(entry, index) for index, (place, entry) in enumerate(placed)}
        self._new: dict[Place, ListeningService] = {}
        self.services = [(self._by_place[place], entry) for place, entry in placed]

    def __iter__(self) -> Iterator[ListeningService]:
        return (service for service, _ in self.services)

    def begin(self, section: Any, listeners: Listeners) -> None:
        """Listen on addresses that are new in a section.

        :raises CannotListen: when one cannot be used.
        """
        for index, (place, entry) in enumerate(self._placed(section)):
            if place not in self._by_place:
                self._new[place] = service = self._make(entry, index)
                service.setServiceParent(listeners)

    def undo(self) -> None:
        """Stop listening on the new addresses."""
        for service in self._new.values():
            service.disownServiceParent()
        self._new = {}

    def finish(self, section: Any) -> None:
        """Use the new entries; stop listening on addresses that have none, and close their connections."""
        services = self._by_place | self._new
        placed = self._placed(section)
        self._section = section
        self._by_place = {place: services[place] for place, _ in placed}
        self._new = {}
        self.services = [(services[place], entry) for place, entry in placed]
        self.refresh()
        for place, service in services.items():
            if place not in self._by_place:
                service.disownServiceParent()

    def refresh(self) -> None:
        """Give all services in use their entries again."""
        for service, entry in self.services:
            self._apply(service, entry)

    def _apply(self, service: ListeningService, entry: Entry) -> None:
        self._change(service, entry, self._section)

    def _make(self, entry: Entry, index: int) -> ListeningService:
        service = ListeningService(entry.listen, self._make_factory(entry), self._reactor, make_folder=True)
        service.remedy = self._remedies.of(f"{self._key}.{index}.listen")
        return service

    def _placed(self, section: Any) -> list[tuple[Place, Entry]]:
        """The entries by address; a number distinguishes equal addresses (port 0 may occur several times)."""
        seen: Counter[ListenAddress] = Counter()
        placed = []
        for entry in self._entries(section):
            placed.append(((entry.listen, seen[entry.listen]), entry))
            seen[entry.listen] += 1
        return placed


class LinePorts(Ports[Any]):
    """The same of a line protocol, whose entries have tokens and TLS, which new addresses have at once.

    :param tls_of: the TLS of an address.
    :param announced: how each is announced.
    """

    def __init__(self, *arguments: Any, tls_of: TlsOf, announced: Announced) -> None:
        self._tls_of = tls_of
        self._announced = announced
        super().__init__(*arguments)

    def _make(self, entry: Any, index: int) -> ListeningService:
        service = super()._make(entry, index)
        self._apply(service, entry)
        return service

    def _apply(self, service: ListeningService, entry: Any) -> None:
        factory: Any = service.factory
        factory.gate.change(entry.tokens)
        factory.use_tls(self._tls_of(entry.tls))
        service.announced = self._announced._replace(token_file=entry.token_file)
        super()._apply(service, entry)


@implementer(IPart)
class Part(MultiService):
    """A part that has nothing of all this, but for its ports; see IPart, and IReloadable for those with ports.

    :param services: that run while it does, in the order in which they start; None for one that it does not have.
    :param listening: addresses that no reload changes.
    :ivar ports: those that reloads change.
    """

    parent: Any
    name: str
    ports: Sequence[Ports[Any]] = ()
    closed: Mapping[str, Mapping[str, int]] = MappingProxyType({})

    def __init__(
        self, name: str, services: Iterable[IService | None] = (), listening: Sequence[ListeningService] = ()
    ) -> None:
        super().__init__()
        self._listening = listening
        self.setName(name)
        for service in services:
            if service is not None:
                service.setServiceParent(self)

    def listeners(self) -> Iterable[ListeningService]:
        return [*self._listening, *(service for ports in self.ports for service in ports)]

    def metrics(self) -> Mapping[str, Callable[[], Iterable[Metric]]]:
        return {}

    def problems(self) -> Mapping[str, str]:
        return {}

    def unready_reason(self) -> str | None:
        return None

    def before_tick(self) -> None: ...

    def ticked(self) -> None: ...

    def abandon(self) -> None:
        for service in self.listeners():
            service.abandon()

    def drain(self) -> Deferred[None] | None:
        return None

    def hurry(self, signal_name: str) -> None: ...

    def refresh(self) -> None:
        for ports in self.ports:
            ports.refresh()

    def begin(self, section: Any, listeners: Listeners) -> None:
        """See IReloadable."""
        for ports in self.ports:
            ports.begin(section, listeners)

    def undo(self) -> None:
        """See IReloadable."""
        for ports in self.ports:
            ports.undo()

    def finish(self, section: Any) -> None:
        """See IReloadable."""
        for ports in self.ports:
            ports.finish(section)


def parts_of(services: Iterable[object]) -> list[IPart]:
    """The parts among the services of a program, in the order in which they start."""
    return [service for service in services if IPart.providedBy(service)]
