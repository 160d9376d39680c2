"""The site of a drop-in: one page of metrics at its addresses, perhaps with TLS and passwords."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fakedev.runtime.listening import Announced, ListeningService
from fakedev.runtime.part import Part, Remedies
from fakedev.runtime.turns import FairShare
from fakedev.schema.addresses import ListenAddress
from fakedev.web.http_limits import DROP_IN_LIMITS
from fakedev.web.paths import METRICS
from fakedev.web.resource import Resource, make_tree
from fakedev.web.site import Site

if TYPE_CHECKING:
    from fakedev.web.settings import WebConfigSource
    from fakedev.web.web_configs import WebConfigs


class MetricsSite(Part):
    """The page of a drop-in.

    :param web_configs: None: no address has a web configuration.
    :param source: of the web configuration; None for plain text.
    """

    def __init__(
        self, page: Resource, addresses: Iterable[ListenAddress], reactor: Any, remedies: Remedies,
        web_configs: WebConfigs | None, source: WebConfigSource | None, fair_share: FairShare | None = None,
    ) -> None:  # fmt: skip
        tree = make_tree({METRICS.template: page})
        self._site = Site(tree, reactor, limits=DROP_IN_LIMITS, fair_share=fair_share)
        listening = [ListeningService(address, self._site, reactor) for address in addresses]
        for index, service in enumerate(listening):
            service.announced = Announced("web", "metrics only", METRICS.template)
            service.remedy = remedies.of(f"web.{index}.listen")
        super().__init__("web", listening=listening)
        self._web_configs, self._source = web_configs, source
        self.refresh()

    def refresh(self) -> None:
        """Use the certificates and passwords that the files have now."""
        if self._web_configs is not None and self._source is not None:
            self._web_configs.secure(self._site, self._source)
