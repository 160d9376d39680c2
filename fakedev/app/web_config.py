"""Web configurations of HTTP addresses, and TLS of line ports: read at the start, by reloads, and when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from fakedev.app.ports import Reloadable
from fakedev.config.configuration import Configuration
from fakedev.config.schema.nodes import ConfigurationError, Problem
from fakedev.config.web_config import WebConfigSource
from fakedev.net.http.access_guard import AccessGuard
from fakedev.net.http.admission import check_passwords_can_be_used
from fakedev.net.http.site import GuardedSite
from fakedev.net.system.listening import Listeners
from fakedev.net.system.tls_context import CannotUseTls, tls_context
from fakedev.net.system.watch import FileFollower
from fakedev.spec.web_config import WebConfig

_PLAIN = WebConfig()


def read_web_configs(sources: Iterable[WebConfigSource]) -> dict[WebConfigSource, WebConfig]:
    """The web configurations of addresses, and TLS of line ports, by their sources; each can be used.

    :raises ConfigurationError: for the first that cannot be used, with every problem of it.
    """
    found: dict[WebConfigSource, WebConfig] = {}
    for source in sources:
        if source not in found:
            found[source] = _usable(source)
    return found


def sources_of(configuration: Configuration) -> Iterator[WebConfigSource]:
    """Where the web configurations of all addresses are, and TLS of line ports."""
    queues, kubernetes = configuration.queues, configuration.kubernetes
    lines = (
        configuration.workloads.listen, queues.clients if queues else (), queues.backends if queues else (),
        kubernetes.listen if kubernetes else (),
    )  # fmt: skip
    sources = [each.web_config for each in configuration.web] + [each.tls for every in lines for each in every]
    return (source for source in sources if source is not None)


def _usable(source: WebConfigSource) -> WebConfig:
    config = source.read()
    try:
        if config.tls is not None:
            tls_context(config.tls)
        if config.users:
            check_passwords_can_be_used()
    except CannotUseTls as error:
        raise ConfigurationError([Problem(*source.place, f"tls_server_config: {error}")]) from None
    except ImportError as error:
        raise ConfigurationError([Problem(*source.place, f"basic_auth_users: {error}")]) from None
    return config


class WebConfigs(MultiService, Reloadable):
    """The web configurations in use; their files are read again when one of them, or a certificate, changes.

    :param sources: those of the addresses at the start.
    :param changed: called when they have changed, so that sites use them.
    """

    log = Logger()

    def __init__(self, sources: Iterable[WebConfigSource], reactor: Any, changed: Callable[[], None]) -> None:
        super().__init__()
        self._changed = changed
        self._by_source: Mapping[WebConfigSource, WebConfig] = read_web_configs(sources)
        self._next: Mapping[WebConfigSource, WebConfig] | None = None
        self._reactor = reactor
        self._followed: list[str] = []
        self._follow()

    def of(self, source: WebConfigSource | None) -> WebConfig:
        """The web configuration of an address; without a source nothing is asked for."""
        return _PLAIN if source is None else self._by_source[source]

    def secure(self, site: GuardedSite, source: WebConfigSource | None) -> None:
        """Serve a page that changes nothing as the web configuration of its address says now."""
        config = self.of(source)
        site.use(config, AccessGuard(has_passwords=bool(config.users)))

    def tls_of(self, source: WebConfigSource | None) -> Any:
        """TLS of a line port, for its factory; None for plain text. A reload opens new addresses before it ends."""
        if source is None:
            return None
        tls = ((self._next or {}).get(source) or self._by_source[source]).tls
        return None if tls is None else tls_context(tls)

    def begin(self, configuration: Configuration, listeners: Listeners) -> None:
        self._next = read_web_configs(sources_of(configuration))

    def undo(self) -> None:
        self._next = None

    def finish(self, configuration: Configuration) -> None:
        if self._next is not None:
            self._by_source, self._next = self._next, None
            self._follow()

    def _follow(self) -> None:
        """Watch the files of the present configuration."""
        if self._files() == self._followed:
            return
        for follower in [*self.services]:
            follower.disownServiceParent()
        self._followed = self._files()
        if self._followed:
            FileFollower(self._files, self._again, self._reactor).setServiceParent(self)

    def _files(self) -> list[str]:
        return [file for config in self._by_source.values() for file in config.files]

    def _again(self) -> Deferred[None]:
        try:
            self._by_source = read_web_configs(self._by_source)
        except ConfigurationError as error:
            for line in str(error).splitlines():
                self.log.error("the web configuration stays as it is: {line}", line=line)
        else:
            self._changed()
            self.log.info("the web configuration was read again")
        return succeed(None)
