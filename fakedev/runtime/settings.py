"""The section ``log``: which messages are logged, and how."""

from __future__ import annotations

from dataclasses import dataclass

from fakedev.schema.declare import setting
from fakedev.schema.sections import Section
from fakedev.schema.types import keys_from


@dataclass(frozen=True)
class Logging:
    """Which messages are logged, and how."""

    level: str = setting(
        "The least important messages that are logged.", default="info", choices=("debug", "info", "warn", "error")
    )
    format: str = setting(
        "Lines of text, or JSON objects; for systemd's journal its fields.", default="text", choices=("text", "json")
    )


LOG = Section("log", keys_from(Logging), doc="Logging, to standard error.")
