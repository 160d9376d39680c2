"""Identities and devices by name, or recognized from a captured page."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fakedev.config.catalog import Catalog
from fakedev.config.schema.nodes import Place, Report
from fakedev.exposition.captured import CapturedPage
from fakedev.exposition.identity import Identity
from fakedev.exposition.numbers import version_number

#: The device of a page from which none can be recognized.
DEFAULT_DEVICE: Final = "h100-sxm5-80gb"
#: Facts of a device type by which it is recognized.
_TELLING: Final = ("product_name", "card_model", "pci_device_id")
#: Labels with the name of the board.
_NAME_LABELS: Final = ("modelName", "model_name", "name", "card_series", "card_model", "dev_name", "model")
#: Labels with the version of the driver.
_DRIVER_LABELS: Final = ("DCGM_FI_DRIVER_VERSION", "driver_version")
#: An identity is likely if it has at least this share of the families that the likeliest has.
_LIKELY: Final = 0.8


def named_identity(name: str, catalog: Catalog, report: Report, where: str = "identity") -> Identity:
    """An identity of the catalog or of a file.

    :param where: the user has named it, for problems.
    :raises ConfigurationError: when it does not exist or has problems.
    """
    loaded = catalog.identity(name, Place(where))
    report.raise_if_any()
    if loaded is None:
        raise ValueError(f"no identity {name!r}")
    return loaded.identity


def likely_identities(families: Collection[str], catalog: Catalog, report: Report) -> list[str]:
    """The names of the catalog's identities that have most of some families; none where none has any."""
    shared = {}
    for name in catalog.identity_names():
        if "@" in name:
            identity = named_identity(name, catalog, report)
            shared[name] = len({family.name for family in identity.families} & set(families))
    most = max(shared.values(), default=0)
    return [name for name, count in shared.items() if count and count >= most * _LIKELY]


def recognized_device(values: Collection[str], catalog: Catalog) -> str | None:
    """The device type of the catalog that one of a page's label values names; None when none does."""
    for name in catalog.device_names():
        loaded = catalog.device(name, Place("device"))
        if loaded and any(loaded.type.facts.get(fact) in values for fact in _TELLING):
            return loaded.type.name
    return None


def alike_devices(device: str, catalog: Catalog) -> list[str]:
    """The names of the device types of the vendor of one, itself first."""
    types = {}
    for name in catalog.device_names():
        loaded = catalog.device(name, Place("device"))
        if loaded is not None:
            types[loaded.type.name] = loaded.type.facts.get("vendor")
    return [device, *(name for name, vendor in types.items() if vendor == types.get(device) and name != device)]


def shown_board(page: CapturedPage) -> str:
    """The name of a page's boards, as its labels have it; empty without."""
    labels = (label for family in page.families.values() for sample in family.samples for label in sample.labels)
    return next((value for name, value in labels if name in _NAME_LABELS), "")


def recognized_instances(page: CapturedPage, device: str, catalog: Catalog) -> tuple[str, ...]:
    """The profiles of the instances of the first divided board on a page; empty for none.

    :param device: the type of its boards; profiles that it does not have are left out.
    """
    loaded = catalog.device(device, Place("device"))
    known = [each.name for each in loaded.mig.profiles] if loaded and loaded.mig else []
    boards: dict[str | None, dict[str | None, str]] = {}
    for family in page.families.values():
        for sample in family.samples:
            labels = dict(sample.labels)
            if labels.get("GPU_I_PROFILE") in known:
                boards.setdefault(labels.get("gpu"), {})[labels.get("GPU_I_ID")] = labels["GPU_I_PROFILE"]
    return tuple(next(iter(boards.values()), {}).values())


def recognized_facts(page: CapturedPage) -> dict[str, str]:
    """Facts of a page's boards on which it depends what an exporter prints: the version of their driver."""
    samples = (sample for family in page.families.values() for sample in family.samples)
    versions = (value for sample in samples for name, value in sample.labels if name in _DRIVER_LABELS)
    found = next(filter(version_number, versions), "")
    return {"driver_version": found} if found else {}
