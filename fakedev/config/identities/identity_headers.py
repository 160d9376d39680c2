"""Headers that an identity's file gives: they go out as they are, so they must be headers."""

from __future__ import annotations

import re
from typing import Final

from fakedev.config.schema.problems import Place, Report
from fakedev.config.schema.values import Values

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,79}")
_VALUE: Final = re.compile(r"[ -~]{0,400}")
#: What the server says itself.
_OURS: Final = frozenset((
    "connection", "content-encoding", "content-length", "content-type", "date", "server", "transfer-encoding", "vary",
    "x-fakedev-tick",
))  # fmt: skip


def read_headers(values: Values, key: str, report: Report) -> tuple[tuple[str, str], ...]:
    """The headers of a mapping, (name, value) each; those that cannot be are reported."""
    headers: dict[str, str] = values[key]
    place = values.place_of(key)
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            report.problem(place, f"{key}: {name[:80]}: {value[:80]!r} is no header")
        elif name.lower() in _OURS:
            report.problem(place, f"{key}: {name} is the server's own and cannot be given")
    return tuple(headers.items())


def check_content_type(text: str, place: Place, report: Report) -> None:
    """Reports what is no Content-Type."""
    if not re.fullmatch(r"[ -~]+/[ -~]+", text):
        report.problem(place, f"content-type: {text[:80]!r} is no Content-Type, as text/plain; version=0.0.4")
