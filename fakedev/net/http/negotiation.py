"""Content negotiation by the Accept headers: content codings and exposition formats. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

_TEXT: Final = ("text/plain", "0.0.4")
_OPENMETRICS: Final = ("application/openmetrics-text", "1.0.0")
#: Escapings under which names of ASCII letters, digits, ``_`` and ``:`` stay as they are (``dots`` doubles ``_``).
_HARMLESS_ESCAPINGS: Final = frozenset({"allow-utf-8", "underscores", "values"})


@dataclass(frozen=True)
class Exposition:
    """A text format for metrics, with its Content-Type."""

    openmetrics: bool
    content_type: str


TEXT: Final = Exposition(False, "text/plain; version=0.0.4; charset=utf-8")
OPENMETRICS: Final = Exposition(True, "application/openmetrics-text; version=1.0.0; charset=utf-8")


class _Wish(NamedTuple):
    """How much a client wants a format: fit of the media range, quality, order (the first is the highest)."""

    fit: int
    quality: float
    order: int
    escaping: str


_UNWANTED: Final = _Wish(-1, 0.0, -1_000_000, "")


@lru_cache(maxsize=256)
def accepts_gzip(accept_encoding: bytes | None) -> bool:
    """Whether the client wants gzip: by name or ``*``, with a quality above 0 and not below that of identity."""
    if not accept_encoding:
        return False
    qualities: dict[str, float] = {}
    for coding, parameters in _items(accept_encoding.decode("latin-1")):
        qualities.setdefault("gzip" if coding == "x-gzip" else coding, _quality(parameters))
    gzip = qualities.get("gzip", qualities.get("*", 0.0))
    return gzip > 0 and gzip >= qualities.get("identity", 0.0)


@lru_cache(maxsize=256)
def choose_exposition(accept: bytes | None) -> Exposition:
    """The format of the answer: OpenMetrics only when it is named, and wanted at least as much as text.

    At the same quality the first in the header wins. A client that accepts neither gets text and not 406.
    """
    if not accept:
        return TEXT
    openmetrics = text = _UNWANTED
    for position, (media, parameters) in enumerate(_items(accept.decode("latin-1"))):
        version = parameters.get("version")
        if media == _OPENMETRICS[0] and version in (None, _OPENMETRICS[1]):
            wish = _Wish(3, _quality(parameters), -position, parameters.get("escaping", ""))
            openmetrics = max(openmetrics, wish, key=lambda wish: wish.quality)
        else:
            wish = _Wish(_fit(media, version), _quality(parameters), -position, parameters.get("escaping", ""))
            text = max(text, wish, key=lambda wish: wish.fit)
    if openmetrics.quality > 0 and (openmetrics.quality, openmetrics.order) > (text.quality, text.order):
        return _escaped(OPENMETRICS, openmetrics.escaping)
    return _escaped(TEXT, text.escaping)


def _fit(media: str, version: str | None) -> int:
    """How well a media range fits text 0.0.4: 3 exactly, 0 only as anything, -1 not."""
    if media == _TEXT[0]:
        return {_TEXT[1]: 3, None: 2}.get(version, -1)
    return {"text/*": 1, "*/*": 0}.get(media, -1)


def _items(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The elements of a list header with their parameters, in lower case."""
    for element in header.split(","):
        name, *rest = element.split(";")
        name = name.strip().lower()
        if name:
            pairs = (parameter.partition("=") for parameter in rest)
            yield name, {key.strip().lower(): value.strip().strip('"').lower() for key, _, value in pairs}


def _quality(parameters: dict[str, str]) -> float:
    """The q of an element; a malformed q counts as 0: not wanted."""
    text = parameters.get("q", "1")
    if not text.replace(".", "", 1).isdecimal():
        return 0.0
    return min(float(text), 1.0)


def _escaped(exposition: Exposition, escaping: str) -> Exposition:
    """``exposition`` with the requested escaping, where that changes none of our names."""
    if escaping not in _HARMLESS_ESCAPINGS:
        return exposition
    return Exposition(exposition.openmetrics, f"{exposition.content_type}; escaping={escaping}")
