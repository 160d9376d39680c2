"""Accept and Accept-Encoding, by their qualities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.web.encoding import OPENMETRICS, TEXT, accepts_gzip, choose_exposition

OPEN = "application/openmetrics-text;version=1.0.0"
PLAIN = "text/plain;version=0.0.4"


GZIP = ("gzip", "GZIP", "x-gzip", "deflate, gzip;q=1.0, *;q=0.5", "gzip; q=0.001", "*",
        "identity;q=0.5, gzip;q=1.0", "identity;q=0, *", ",,gzip,")  # fmt: skip
NO_GZIP = (None, "", "gzip;q=0", "gzip;q=0.0", "*;q=0", "*, gzip;q=0", "identity", "identity;q=1, gzip;q=0.5",
           "br, zstd", "notgzip", "gzip;q=high", "gzip;q=1.0.0")  # fmt: skip


@pytest.mark.parametrize(("header", "wanted"), [*((h, True) for h in GZIP), *((h, False) for h in NO_GZIP)])
def test_gzip(header: str | None, wanted: bool) -> None:
    """gzip is used when the client wants it at least as much as no coding."""
    assert accepts_gzip(None if header is None else header.encode()) is wanted
    assert accepts_gzip(b"identity;q=0.5, gzip;q=0.5")


PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;"
    "q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


WANT_OPENMETRICS = (
    PROMETHEUS_3, "application/openmetrics-text", f"{PLAIN};q=0.3,{OPEN};q=0.5", f"{OPEN},{PLAIN}",
    f"{OPEN};q=0.5,*/*;q=0.9,{PLAIN};q=0.1",
)  # fmt: skip
WANT_TEXT = (
    None, "*/*", BROWSER, "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5",
    "application/*", f"{OPEN};q=0", f"{OPEN};q=0,*/*", f"{OPEN};q=0.3,{PLAIN};q=0.5", f"{PLAIN},{OPEN}",
    f"{OPEN};q=0.5,*/*;q=0.9", f"{OPEN};q=0.5,text/plain;q=0.9,text/*;q=0.1", "application/json",
)  # fmt: skip


@pytest.mark.parametrize(
    ("header", "openmetrics"), [*((h, True) for h in WANT_OPENMETRICS), *((h, False) for h in WANT_TEXT)]
)
def test_format(header: str | None, openmetrics: bool) -> None:
    """OpenMetrics only by name; the most exact range says how much text is wanted; text when nothing fits."""
    assert choose_exposition(None if header is None else header.encode()).openmetrics is openmetrics


def test_escaping() -> None:
    """An escaping that does not change our names is confirmed, another one is not."""
    for escaping in ("allow-utf-8", "underscores", "values"):
        chosen = choose_exposition(f"{OPEN};escaping={escaping}".encode())
        assert chosen.content_type == f"{OPENMETRICS.content_type}; escaping={escaping}"
        chosen = choose_exposition(f"{PLAIN};escaping={escaping}".encode())
        assert chosen.content_type == f"{TEXT.content_type}; escaping={escaping}"
    assert choose_exposition(f"{OPEN};escaping=dots".encode()) == OPENMETRICS
    assert choose_exposition(f"{OPEN};escaping=x\ty".encode()) == OPENMETRICS


@given(st.binary(max_size=60) | st.text("text/plain,;q=.01*application-openmetrics ", max_size=60).map(str.encode))
def test_any_header_gets_an_answer(header: bytes) -> None:
    """No header makes negotiation fail, and text is the answer unless OpenMetrics is named."""
    accepts_gzip(header)
    chosen = choose_exposition(header)
    assert chosen.content_type.isprintable()
    assert not chosen.openmetrics or b"openmetrics" in header.lower()
