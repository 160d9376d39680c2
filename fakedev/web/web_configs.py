"""Web configurations of HTTP addresses, and TLS of line ports: read at the start, by reloads, and when they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from zope.interface import implementer

from fakedev.runtime.disk import FileFollower
from fakedev.runtime.listening import Listeners
from fakedev.runtime.part import IReloadable, Part, parts_of
from fakedev.runtime.tls import CannotUseTls, tls_context
from fakedev.runtime.tls_settings import WebConfig
from fakedev.schema.places import ConfigurationError, Problem
from fakedev.web.guard import AccessGuard, check_passwords_can_be_used
from fakedev.web.settings import WebConfigSource
from fakedev.web.site import Site

_PLAIN = WebConfig()


def read_web_configs(sources: Iterable[WebConfigSource]) -> dict[WebConfigSource, WebConfig]:
    """The web configurations of addresses, and TLS of line ports, by their sources; each can be used.

    :raises ConfigurationError: for the first that cannot be used, with every problem of it.
    """
    return {source: _usable(source) for source in dict.fromkeys(sources)}


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


@implementer(IReloadable)
class WebConfigs(Part):
    """The web configurations in use; their files are read again when one of them, or a certificate, changes.

    :param sources: the addresses' web configurations at the start.
    """

    log = Logger()

    def __init__(self, sources: Iterable[WebConfigSource], reactor: Any) -> None:
        super().__init__("web-configs")
        self._by_source: Mapping[WebConfigSource, WebConfig] = read_web_configs(sources)
        self._next: Mapping[WebConfigSource, WebConfig] | None = None
        self._reactor = reactor
        self._followed: list[str] = []
        self._follow()

    def of(self, source: WebConfigSource | None) -> WebConfig:
        """The web configuration of an address; without a source nothing is asked for."""
        return _PLAIN if source is None else self._by_source[source]

    def secure(self, site: Site, source: WebConfigSource | None) -> None:
        """Serve a page that changes nothing as the web configuration of its address says now."""
        config = self.of(source)
        site.use(config, AccessGuard(has_passwords=bool(config.users)))

    def tls_of(self, source: WebConfigSource | None) -> Any:
        """TLS of a line port, for its factory; None for plain text. A reload opens new addresses before it ends."""
        if source is None:
            return None
        tls = ((self._next or {}).get(source) or self._by_source[source]).tls
        return None if tls is None else tls_context(tls)

    def begin(self, section: Iterable[WebConfigSource], listeners: Listeners) -> None:
        self._next = read_web_configs(section)

    def undo(self) -> None:
        self._next = None

    def finish(self, section: Iterable[WebConfigSource]) -> None:
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
            for part in parts_of(self.parent):
                part.refresh()
            self.log.info("the web configuration was read again")
        return succeed(None)
