"""Brings what is generated from the configuration's definitions, and the table of quantities, up to date.

Run it at the root of the project: ``PYTHONPATH=. python tests/support/documents/configuration.py``.
"""

from __future__ import annotations

import json
import re

from fakedev.config.export import SCHEMA_ID, chapter, json_schema, reference_text, with_reference
from fakedev.fleet.spec.quantities import KNOWN_QUANTITIES
from fakedev.scenario.settings import FILE
from tests.support.paths import ROOT

REFERENCE = ROOT / "doc" / "configuration.md"
IDENTITIES = ROOT / "doc" / "identities.md"
SCENARIOS = ROOT / "doc" / "scenarios.md"
SCHEMA = ROOT / "fakedev" / "config" / "fakedev.schema.json"
SCENARIO_SCHEMA = ROOT / "fakedev" / "config" / "scenario.schema.json"
#: The tables of scenarios that the documentation shows.
_OWN = ("### ", "Top level\n", "scenario\n", "timeline\n", "timeline.reload\n", "rules\n")
HOW = "is out of date: run PYTHONPATH=. python tests/support/documents/configuration.py"


def current_reference() -> str:
    """The documentation with the tables that belong into it."""
    return with_reference(REFERENCE.read_text(encoding="utf-8"), reference_text())


def current_scenarios() -> str:
    """The documentation of scenarios with the table of their keys; those of runs and faults are elsewhere."""
    tables = chapter("Scenario file", FILE)
    own = [each for each in tables.split("\n\n#### ") if each.startswith(_OWN)]
    return with_reference(SCENARIOS.read_text(encoding="utf-8"), "\n\n#### ".join(own))


def current_identities() -> str:
    """The documentation of identities with the table of all quantities, in the program's words."""
    rows = "".join(f"| `{name}` | {words} |\n" for name, words in KNOWN_QUANTITIES.items())
    text = IDENTITIES.read_text(encoding="utf-8")
    return re.sub(r"(?<=\| quantity \| what \|\n\|---\|---\|\n)(\|.*\n)*", rows.replace("\\", "\\\\"), text, count=1)


def current_schema() -> str:
    """The JSON Schema as it should be."""
    return json.dumps(json_schema(), indent=2) + "\n"


def current_scenario_schema() -> str:
    """The JSON Schema of scenarios as it should be."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID.replace("configuration", "scenario"),
        "title": "fakedev scenario",
    }
    return json.dumps({**head, **FILE.schema()}, indent=2) + "\n"


if __name__ == "__main__":
    REFERENCE.write_text(current_reference(), encoding="utf-8")
    IDENTITIES.write_text(current_identities(), encoding="utf-8")
    SCENARIOS.write_text(current_scenarios(), encoding="utf-8")
    SCHEMA.write_text(current_schema(), encoding="utf-8")
    SCENARIO_SCHEMA.write_text(current_scenario_schema(), encoding="utf-8")
