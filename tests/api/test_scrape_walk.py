"""The files of fakedev that a scrape of a cached page enters: a reader of the code has to follow no more than these."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from twisted.internet.testing import StringTransport

from fakedev.web.site import Site
from tests.support.application import SMALL, application
from tests.support.paths import ROOT

SCRAPE = (
    b"GET /metrics HTTP/1.1\r\nHost: 10.0.0.1:9400\r\nAccept: text/plain;version=0.0.4\r\n"
    b"Accept-Encoding: gzip\r\n\r\n"
)


def test_a_cached_scrape_enters_twelve_files() -> None:
    """From the bytes of the request to those of the answer."""
    with application(SMALL) as app:
        channel = app.factories(Site)[0].buildProtocol(None)
        transport = StringTransport()
        channel.makeConnection(transport)
        for _ in range(2):
            channel.dataReceived(SCRAPE)
            app.reactor.advance(0)
            transport.producer.resumeProducing()
        entered: set[str] = set()

        def note(frame: FrameType, event: str, _: object) -> None:
            path = Path(frame.f_code.co_filename)
            if event == "call" and path.is_relative_to(ROOT / "fakedev"):
                entered.add(path.relative_to(ROOT / "fakedev").as_posix())

        before = len(transport.value())
        sys.setprofile(note)
        try:
            channel.dataReceived(SCRAPE)
        finally:
            sys.setprofile(None)
        assert transport.value()[before:].startswith(b"HTTP/1.1 200 OK\r\n")
    web = {"channel", "encoding", "heads", "request", "resource", "response", "site"}
    assert entered == {
        *(f"web/{name}.py" for name in web), "runtime/turns.py", "runtime/clock.py", "exporters/port.py",
        "exporters/cache.py", "base/histograms.py",
    }  # fmt: skip
