"""Writes all generated parts of the documents: ``PYTHONPATH=. python -m tests.support.documents``."""

from __future__ import annotations

import runpy
import shutil
import sys

from tests.support.kube.manifests import program

_WRITERS = (
    "clone_scores", "configuration", "days", "differences", "fault_table", "field_table", "held_out",
    "identity_scores", "prepared",
)  # fmt: skip

for name in _WRITERS:
    runpy.run_module(f"tests.support.documents.{name}", run_name="__main__")
if shutil.which("promtool"):
    for name in ("promtool_remarks", "alert_rules"):
        runpy.run_module(f"tests.support.documents.{name}", run_name="__main__")
else:
    sys.stderr.write("promtool is not installed: its remarks in identities.md and alert-rules.md stay as they are\n")
if shutil.which("prometheus"):
    runpy.run_module("tests.support.documents.scenario_scores", run_name="__main__")
else:
    sys.stderr.write("prometheus is not installed: the scores in scenarios.md stay as they are\n")
if program("kubectl"):
    runpy.run_module("tests.support.documents.manifests", run_name="__main__")
else:
    sys.stderr.write("kubectl is not installed: its manifests and the chart's schema stay as they are\n")
