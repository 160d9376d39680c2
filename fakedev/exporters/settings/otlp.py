"""The section ``otlp``: where the boards are sent as OpenTelemetry's metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fakedev.schema.declare import described, setting
from fakedev.schema.sections import Section
from fakedev.schema.types import keys_from


def _url(text: str) -> str:
    """
    :raises ValueError: for a text that is no URL of a collector.
    """
    try:
        parts = urlsplit(text)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not parts.username
    except ValueError:
        is_right = False
    if not is_right or not text.isascii() or not text.isprintable() or set(" #@") & set(text):
        raise ValueError(f"{text[:200]!r} is no URL of a collector: give one as http://localhost:4318/v1/metrics")
    return text


@dataclass(frozen=True)
class Otlp:
    """A collector of OpenTelemetry's metrics."""

    url: str = field(metadata=described(
        "Metrics are posted there, as http://localhost:4318/v1/metrics.", words="URL", check=_url
    ))  # fmt: skip
    every_seconds: float = setting("How often, in real time.", default=60.0, low=0.1, high=86400.0)


OTLP = Section(
    "otlp",
    keys_from(Otlp),
    doc="The boards as OpenTelemetry's metrics (`hw.gpu.*` of its conventions for hardware), by OTLP over HTTP, besides"
    " the pages ([identities.md](identities.md#opentelemetry)).",
)
