"""Brings what is generated from the configuration's definitions, and the table of quantities, up to date.

Run it at the root of the project: ``PYTHONPATH=. python tests/support/documents/configuration.py``.
"""

from __future__ import annotations

import json
import re

from fakedev.config.export import json_schema, with_reference
from fakedev.spec.quantities import KNOWN_QUANTITIES
from tests.support.paths import ROOT

REFERENCE = ROOT / "doc" / "configuration.md"
IDENTITIES = ROOT / "doc" / "identities.md"
SCHEMA = ROOT / "fakedev" / "config" / "fakedev.schema.json"
HOW = "is out of date: run PYTHONPATH=. python tests/support/documents/configuration.py"


def current_reference() -> str:
    """The documentation with the tables that belong into it."""
    return with_reference(REFERENCE.read_text(encoding="utf-8"))


def current_identities() -> str:
    """The documentation of identities with the table of all quantities, in the program's words."""
    rows = "".join(f"| `{name}` | {words} |\n" for name, words in KNOWN_QUANTITIES.items())
    text = IDENTITIES.read_text(encoding="utf-8")
    return re.sub(r"(?<=\| quantity \| what \|\n\|---\|---\|\n)(\|.*\n)*", rows.replace("\\", "\\\\"), text, count=1)


def current_schema() -> str:
    """The JSON Schema as it should be."""
    return json.dumps(json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    REFERENCE.write_text(current_reference(), encoding="utf-8")
    IDENTITIES.write_text(current_identities(), encoding="utf-8")
    SCHEMA.write_text(current_schema(), encoding="utf-8")
