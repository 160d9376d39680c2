"""Every target of ``make fuzz``."""

from __future__ import annotations

from typing import Final

from tests.fuzz import file_targets, node_targets, nvml_targets, page_targets, port_targets, text_targets, trace_targets
from tests.fuzz.engine import Target

TARGETS: Final[tuple[Target, ...]] = (
    *text_targets.TARGETS, *port_targets.TARGETS, *node_targets.TARGETS, *file_targets.TARGETS,
    *nvml_targets.TARGETS, *page_targets.TARGETS, *trace_targets.TARGETS,
)  # fmt: skip
