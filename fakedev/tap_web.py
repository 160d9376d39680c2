"""What of an HTTP address is put together by its configuration: pages of exporters."""

from __future__ import annotations

from typing import Any

from fakedev.config.configuration import WebEndpoint
from fakedev.net.metrics_page import MetricsPage
from fakedev.net.page_statistics import ScrapeStatistics
from fakedev.net.pages import Pages
from fakedev.net.ticker import Ticker
from fakedev.net.tree import add_page, make_exporter_root, make_vendor_root


def exporter_root(
    is_original: bool, endpoint: WebEndpoint, pages: Pages, scrapes: ScrapeStatistics, ticker: Ticker
) -> Any:
    """The tree of an address that has what an exporter has, and nothing of fakedev's own; None for another."""
    if is_original:
        return make_exporter_root(pages, scrapes)
    if endpoint.serve == "exporter":
        hold = endpoint.hold_seconds
        return make_vendor_root(pages, scrapes, ticker.trouble, endpoint.pool, endpoint.identity, hold)
    return None


def add_pages(root: Any, endpoint: WebEndpoint, pages: Pages, scrapes: ScrapeStatistics) -> None:
    """The pages of an endpoint at paths of their own."""
    for more in endpoint.pages:
        page = pages.fleet_page(more.pool, more.identity, more.hold_seconds)
        trouble = pages.trouble_of(more.pool)
        add_page(root, more.path, MetricsPage(page, scrapes.page(more.path), trouble=trouble))
