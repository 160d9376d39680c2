"""Writes all generated parts of the documents: ``PYTHONPATH=. python -m tests.support.documents``."""

from __future__ import annotations

import runpy
import shutil
import sys

_WRITERS = ("configuration", "fault_table", "field_table", "identity_scores")

for name in _WRITERS:
    runpy.run_module(f"tests.support.documents.{name}", run_name="__main__")
if shutil.which("promtool"):
    runpy.run_module("tests.support.documents.promtool_remarks", run_name="__main__")
else:
    sys.stderr.write("promtool is not installed: its remarks in identities.md stay as they are\n")
