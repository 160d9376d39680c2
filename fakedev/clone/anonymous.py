"""Pages without the names of a real fleet: each text that may tell something has the same other text everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from fakedev.clone.source_pages import PageGroup, SourcePage
from fakedev.exposition.captured import CapturedFamily, CapturedPage, Sample

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
#: Texts that tell nothing of whose fleet it is: numbers, PCI addresses, device files, names of links.
_HARMLESS: Final = re.compile(
    r"[-+]?[0-9]{1,6}(?:\.[0-9]{1,6}){0,4}|0x[0-9a-fA-F]{1,8}|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]|"
    r"(?:nvidia|card|renderD|accel|nvswitch)[0-9]{1,4}|"
)
#: Labels of boards and their software, and of the kind of a row: of exporters, not of users.
_LABELS_THAT_STAY: Final = re.compile(
    r"(?:DCGM_FI_(?:DRIVER|CUDA|NVML|PROCESS|DEV_BRAND|DEV_NAME)_?\w*+|modelName|model_?name|card_(?:model|series|vendor)|"
    r"GPU_I_\w++|gpu_\w*+version|driver_\w++|cuda_\w++|vbios_version|err_\w++|type|brand|name|vendor|src|dev_name|"
    r"hw_\w++|reason|state|mode|location|window\w*+|health_\w++|clock_event|link_status|device_brand|le|quantile)",
    re.IGNORECASE,
)
#: Of these the texts are names in the cluster, though the form of the label is that of a label that stays.
_WORDS: Final = {"Hostname": "node", "hostname": "node", "node": "node", "pod": "pod", "instance": "node"}


class _Names:
    """The other texts, by kind and text, numbered in the order in which they are first met."""

    def __init__(self) -> None:
        self._of_kind: dict[str, dict[str, str]] = {}
        self._uuids: dict[str, str] = {}

    def other(self, label: str, value: str) -> str:
        """The text in the place of a label's value."""
        if _UUID.search(value):
            return _UUID.sub(lambda found: self._uuid(found[0]), value)
        if _HARMLESS.fullmatch(value) and "serial" not in label.lower():
            return value
        if _LABELS_THAT_STAY.fullmatch(label):
            return value
        return self.name(_WORDS.get(label, label.replace("_", "-")), value)

    def name(self, kind: str, value: str) -> str:
        """The name in the place of one of some kind."""
        known = self._of_kind.setdefault(kind, {})
        return known.setdefault(value, f"{kind}-{len(known) + 1}")

    def _uuid(self, text: str) -> str:
        number = len(self._uuids)
        return self._uuids.setdefault(text, str(uuid5(NAMESPACE_URL, f"urn:fakedev:clone:{number}")))


def anonymous_groups(groups: Iterable[PageGroup]) -> list[PageGroup]:
    """The same pages with other names, UUIDs and serial numbers; equal texts of a kind stay equal.

    Kept are numbers, PCI addresses, models of boards, versions, and labels that exporters fill with words of their own.
    """
    names = _Names()
    return [replace(group, pages=tuple(_page(source, names) for source in group.pages)) for group in groups]


def _page(source: SourcePage, names: _Names) -> SourcePage:
    families = {name: _family(family, names) for name, family in source.page.families.items()}
    page = CapturedPage(families, source.page.is_declared_first)
    return SourcePage(names.name("page", source.name), page)


def _family(family: CapturedFamily, names: _Names) -> CapturedFamily:
    samples = tuple(
        Sample(
            tuple((name, names.other(name, value)) for name, value in sample.labels),
            sample.number,
            sample.has_timestamp,
        )
        for sample in family.samples
    )
    return replace(family, samples=samples)
