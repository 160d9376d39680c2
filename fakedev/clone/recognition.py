"""What a captured page shows: likely exporters, the device type of its boards, their instances and facts."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from fakedev.base.names import COMPUTED_FACTS, version_number
from fakedev.clone.fleet_reader import OF_PARTS, TELLING, facts_of, is_of_owner, row_of
from fakedev.clone.scraped import plain_number
from fakedev.exporters.identity import UNITS, Identity
from fakedev.exporters.samples import CapturedPage, Sample
from fakedev.exporters.settings.catalog import Catalog, named_identity
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.spec.known_boards import Board, KnownBoard, nearest_board
from fakedev.schema.places import Place, Report

#: The device of a page from which none can be recognized.
DEFAULT_DEVICE: Final = "h100-sxm5-80gb"

#: Facts of a device type by which it is recognized.
_TELLING: Final = ("product_name", "chip_name", "card_model", "pci_device_id")

#: Labels with the name of the board.
_NAME_LABELS: Final = ("modelName", "model_name", "name", "card_series", "card_model", "dev_name", "model")

#: Labels with the version of the driver.
_DRIVER_LABELS: Final = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION", "driver_version")

#: An identity is likely if it has at least this share of the families that the likeliest has.
_LIKELY: Final = 0.8


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
    types = _types(catalog)
    return next((each.name for each in types if any(each.facts.get(fact) in values for fact in _TELLING)), None)


def device_of_model(product: str, catalog: Catalog) -> str | None:
    """The device type of the model that a product name has, perhaps in another form or with other memory."""
    known = [
        KnownBoard(each.name, each.facts.get("product_name", ""), 0.0, each.facts.get("vendor", ""))
        for each in _types(catalog)
    ]
    nearest = nearest_board(Board(product), known)
    return nearest.board.name if nearest.is_model else None


def usual_device(identities: Iterable[str], catalog: Catalog, report: Report) -> str:
    """The device type that one of some identities names for its pages; else the default one."""
    boards = (named_identity(name, catalog, report).board for name in identities)
    loaded = catalog.device(next(filter(None, boards), DEFAULT_DEVICE), Place("device"))
    return loaded.type.name if loaded else DEFAULT_DEVICE


def alike_devices(device: str, catalog: Catalog) -> list[str]:
    """The names of the device types of the vendor of one, itself first."""
    types = {device_type.name: device_type.facts.get("vendor") for device_type in _types(catalog)}
    return [device, *(name for name, vendor in types.items() if vendor == types.get(device) and name != device)]


def _types(catalog: Catalog) -> Iterator[DeviceType]:
    """The device types of the catalog: each as often as it has names, for which it is read once."""
    loaded = (catalog.device(name, Place("device")) for name in catalog.device_names())
    return (loaded_device.type for loaded_device in loaded if loaded_device is not None)


def shown_board(page: CapturedPage) -> str:
    """The name of a page's boards, as its labels have it; empty without."""
    return next(filter(None, map(board_of, (each for family in page.families.values() for each in family.samples))), "")


def board_of(sample: Sample) -> str:
    """The name of the board of a sample, as its labels have it; empty without."""
    return next((value for name, value in sample.labels if name in _NAME_LABELS and value), "")


def by_board(page: CapturedPage) -> dict[str, CapturedPage]:
    """The lines of a page by the name of their board; empty: the lines that name none."""
    families: dict[str, dict[str, list[Sample]]] = {}
    for name, family in page.families.items():
        for sample in family.samples:
            families.setdefault(board_of(sample), {}).setdefault(name, []).append(sample)
    return {
        board: CapturedPage(
            {name: replace(page.families[name], samples=tuple(lines)) for name, lines in found.items()},
            page.is_declared_first,
        )
        for board, found in families.items()
    }


def recognized_instances(page: CapturedPage, device: str, catalog: Catalog) -> tuple[str, ...]:
    """The profiles of the instances of the first divided board on a page; empty for none.

    :param device: the type of its boards; profiles that it does not have are left out.
    """
    loaded = catalog.device(device, Place("device"))
    known = [profile.name for profile in loaded.mig.profiles] if loaded and loaded.mig else []
    boards: dict[str | None, dict[str | None, str]] = {}
    for family in page.families.values():
        for sample in family.samples:
            labels = dict(sample.labels)
            if labels.get("GPU_I_PROFILE") in known:
                boards.setdefault(labels.get("gpu"), {})[labels.get("GPU_I_ID")] = labels["GPU_I_PROFILE"]
    return tuple(next(iter(boards.values()), {}).values())


#: Facts of a single board, instance or page; and levels whose labels do not describe boards.
_OF_ONE: Final = frozenset((*TELLING, *OF_PARTS, *COMPUTED_FACTS, "addr", "file", "vgpu"))
_NOT_OF_BOARDS: Final = ("link", "port", "switch", "xid", "peer")
#: The most boards of a node that a page to compare has.
_MOST_BOARDS: Final = 16
#: Of longer texts the beginning does: labels are compared by their names.
_LONGEST: Final = 256
#: The template of a number that is a fact.
_FACT: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class ShownFacts:
    """What a page shows of a fleet, and device types do not have.

    :ivar boards: facts of all its boards, or of their nodes: the driver's version, the topology, the host's memory.
    :ivar owner: facts of the work that has a board: its UID, its job.
    :ivar devices: how many boards the largest node has, from 2 to 16.
    """

    boards: Mapping[str, str]
    owner: Mapping[str, str]
    devices: int


def shown_facts(page: CapturedPage, identity: Identity, known: Collection[str]) -> ShownFacts:
    """The facts that a page shows in labels and as numbers, read by the labels and rows of its identity.

    :param known: facts of the device type, which numbers do not replace; but the driver's version, where it is one.
    """
    boards: dict[str, str] = {}
    owner: dict[str, str] = {}
    devices: dict[str, set[str]] = {}
    for family in identity.families:
        captured = page.families.get(family.name)
        for sample in captured.samples if captured else ():
            labels = dict(sample.labels)
            row = row_of(family, labels, identity)
            if row is None or row.state_level in _NOT_OF_BOARDS:
                continue
            shown = facts_of(labels, (*identity.labels_on(row.level), *row.labels))
            device = next((shown[name] for name in TELLING if name in shown), "")
            devices.setdefault(shown.get("node", ""), set()).add(device)
            number = _FACT.fullmatch(row.fact)
            is_shown = number and not row.is_per_fact and math.isfinite(float(sample.number))
            if number and is_shown and number[1] not in {*known} - {"driver_version"}:
                shown.setdefault(number[1], plain_number(str(float(sample.number) / UNITS[row.unit])))
            for name, text in shown.items():
                if is_of_owner(name):
                    owner.setdefault(name, text[:_LONGEST])
                elif name not in _OF_ONE:
                    boards.setdefault(name, text[:_LONGEST])
    count = max((len(units) for units in devices.values()), default=0)
    facts = {**boards, **recognized_facts(page)}
    return ShownFacts(facts, owner, min(max(count, 2), _MOST_BOARDS))


def recognized_facts(page: CapturedPage) -> dict[str, str]:
    """Facts of a page's boards on which it depends what an exporter prints: the version of their driver."""
    samples = (sample for family in page.families.values() for sample in family.samples)
    versions = (value for sample in samples for name, value in sample.labels if name in _DRIVER_LABELS)
    found = next(filter(version_number, versions), "")
    return {"driver_version": found} if found else {}
