"""Accept and Accept-Encoding, by their qualities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.net.http.negotiation import OPENMETRICS, TEXT, accepts_gzip, choose_exposition

OPEN = "application/openmetrics-text;version=1.0.0"
PLAIN = "text/plain;version=0.0.4"


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0.0", False),
        ("gzip; q=0.001", True),
        ("*", True),
        ("*;q=0", False),
        ("*, gzip;q=0", False),
        ("identity", False),
        ("identity;q=1, gzip;q=0.5", False),
        ("identity;q=0.5, gzip;q=1.0", True),
        ("identity;q=0, *", True),
        ("br, zstd", False),
        ("notgzip", False),
        ("gzip;q=high", False),
        (",,gzip,", True),
    ],
)
def test_gzip(header: str | None, wanted: bool) -> None:
    """gzip is used when the client wants it at least as much as no coding."""
    assert accepts_gzip(None if header is None else header.encode()) is wanted


PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;"
    "q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    ("header", "openmetrics"),
    [
        (None, False),
        ("*/*", False),
        (BROWSER, False),
        (PROMETHEUS_3, True),
        ("application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5", False),
        ("application/openmetrics-text", True),
        ("application/*", False),
        (f"{OPEN};q=0", False),
        (f"{OPEN};q=0,*/*", False),
        (f"{OPEN};q=0.3,{PLAIN};q=0.5", False),
        (f"{PLAIN};q=0.3,{OPEN};q=0.5", True),
        (f"{OPEN},{PLAIN}", True),
        (f"{PLAIN},{OPEN}", False),
        (f"{OPEN};q=0.5,*/*;q=0.9", False),
        (f"{OPEN};q=0.5,*/*;q=0.9,{PLAIN};q=0.1", True),
        (f"{OPEN};q=0.5,text/plain;q=0.9,text/*;q=0.1", False),
        ("application/json", False),
    ],
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
