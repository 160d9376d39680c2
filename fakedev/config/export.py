"""The configuration's YAML as JSON Schema, for editors."""

from __future__ import annotations

from typing import Any

from fakedev.config.keys import CONFIGURATION


def json_schema() -> dict[str, Any]:
    """The schema, from the same definitions that read the file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fakedev configuration",
        **CONFIGURATION.schema(),
    }
