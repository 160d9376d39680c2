"""The configuration file of a fleet that was read: pools, devices and their work as a document, after remarks."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from fakedev.base.names import driver_version, without_variables
from fakedev.clone.fleet_reader import ObservedDevice, ObservedNode, Owner, Unit
from fakedev.fleet.entities.naming import driver_facts
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.spec.quantities import metric_word

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PCI: Final = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+|^[._-]+|[._-]+$")
#: Facts of a device that have keys of their own, and the texts that these take.
_KEYS: Final = {"uuid": ("uuid", _UUID), "serial": ("serial", re.compile(r".+")), "pci_address": ("pci", _PCI)}
#: What work requests besides the load, of what was read; the other quantities follow.
_ASKED: Final = (
    "memory_bandwidth_ratio", "tensor_active_ratio", "encoder_active_ratio",
    "decoder_active_ratio", "pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second",
)  # fmt: skip
#: A smaller share is none. What is this many times the value of an idle board is of some work.
_LEAST_RATIO: Final = 0.001
_NOT_IDLE: Final = 10
#: A number up to 100 could be meant as a share, and is refused.
_LEAST_BYTES: Final = 1000.0
#: Work with a smaller share of tensor pipes of its load uses none; plain work has a fifth.
_NO_TENSOR: Final = 0.02
#: Work on a board that the hardware slows down may draw no more than the board does when idle; work has some intensity.
_LEAST_INTENSITY: Final = 0.1
#: Idle boards of a type differ by this share of their power.
_NEAR_IDLE: Final = 0.1
#: A page is a moment: how much a load fluctuates is not on it. Assumed are this share of the load and at
#: most these percent points; values stay near what was read.
_FLUCTUATION: Final = 0.1
_MOST_FLUCTUATION: Final = 5.0
_MIB: Final = 2**20
#: An address for each node, where the nodes have different exporters.
NODE_ADDRESSES: Final = "127.64.0.0/16:9400"


@dataclass(frozen=True)
class Board:
    """The device type of a node.

    :param profiles: the names of the instances that it can be divided into.
    """

    type: DeviceType
    profiles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Correction:
    """How a device is brought nearer to what was read of it, after a trial.

    :param inlet_celsius: its inlet temperature; None: the type's own.
    :param factor: of the intensity of its work.
    """

    inlet_celsius: float | None = None
    factor: float = 1.0


@dataclass(frozen=True)
class Placed:
    """A node with what it becomes.

    :param identity: as the configuration names it.
    :param corrections: by the device's index.
    """

    node: ObservedNode
    board: Board
    identity: str
    corrections: Mapping[int, Correction] = field(default_factory=dict)


def node_name(text: str) -> str:
    """A name that a node can have: what hosts' names cannot have becomes a hyphen."""
    return _NO_NAME.sub(lambda found: "-" if found.start() > 0 and found.end() < len(text) else "", text) or "node"


def pools_of(nodes: Iterable[tuple[str, Mapping[str, Any]]], word: str) -> list[dict[str, Any]]:
    """A pool for each node that differs from the one before it.

    :param nodes: their names, with what a pool of each says besides.
    :param word: what the names of the pools begin with.
    """
    pools: list[dict[str, Any]] = []
    for name, body in nodes:
        if pools and {key: value for key, value in pools[-1].items() if key not in ("name", "nodes")} == body:
            pools[-1]["nodes"].append(name)
        else:
            pools.append({"name": f"{word}-{len(pools)}", "nodes": [name], **body})
    return pools


def configuration_document(
    nodes: Iterable[Placed], *, is_steady: bool = False, is_apart: bool = False
) -> dict[str, Any]:
    """The document: pools of the nodes, and the work of their devices.

    :param is_steady: the load of the work does not fluctuate.
    :param is_apart: the pages of the nodes have the same labels, so each node needs an address of its own.
    """
    every = [*nodes]
    pools = pools_of(((node_name(placed.node.name), _pool(placed)) for placed in every), "clone")
    base = [work for placed in every for work in _work(placed, is_steady)]
    document: dict[str, Any] = {"fleet": {"pools": pools}}
    if is_apart or len({pool["identity"] for pool in pools}) > 1:
        # Pages of several exporters have families of the same names, which one page cannot show.
        document["web"] = [{"per-node": NODE_ADDRESSES}]
    return document | ({"workloads": {"base": base}} if base else {})


def _pool(placed: Placed) -> dict[str, Any]:
    devices = placed.node.devices
    driver = _driver(devices)
    known = dict(placed.board.type.facts)
    if driver:
        known |= driver_facts(driver, known)
    facts = [{name: text for name, text in device.unit.facts.items() if known.get(name) != text} for device in devices]
    common = {
        name: text
        for name, text in (facts[0] if facts else {}).items()
        if name not in _KEYS and name != "device_file" and all(fact.get(name) == text for fact in facts)
    }
    count = max((device.index for device in devices), default=0) + 1
    body: dict[str, Any] = {
        "device": placed.board.type.name, "devices-per-node": count, "identity": placed.identity,
    }  # fmt: skip
    if driver:
        body["driver"] = driver
    if common:
        body["labels"] = {name: without_variables(text) for name, text in common.items()}
    entries = [
        _device(device, {name: text for name, text in own.items() if name not in common}, placed)
        for device, own in zip(devices, facts, strict=True)
    ]
    entries = [entry for entry in entries if len(entry) > 1]
    return body | ({"devices": entries} if entries else {})


def _driver(devices: Iterable[ObservedDevice]) -> str:
    """The version of the driver of a node, as the key takes it; empty where the page shows none, or several."""
    versions = {device.unit.facts.get("driver_version", "") for device in devices}
    try:
        return driver_version(versions.pop()) if len(versions) == 1 else ""
    except ValueError:
        return ""


def _device(device: ObservedDevice, facts: dict[str, str], placed: Placed) -> dict[str, Any]:
    entry: dict[str, Any] = {"index": device.index}
    for fact, (key, form) in _KEYS.items():
        if fact in facts and form.fullmatch(facts[fact]):
            entry[key] = without_variables(facts.pop(fact))
    correction = placed.corrections.get(device.index, Correction())
    if correction.inlet_celsius is not None:
        entry["inlet"] = correction.inlet_celsius
    profiles = [part.facts.get("mig_profile", "") for part in device.parts]
    if profiles and set(profiles) <= placed.board.profiles:
        entry["mig"] = profiles
    if facts:
        entry["labels"] = {name: without_variables(text) for name, text in facts.items()}
    return entry


def _work(placed: Placed, is_steady: bool) -> Iterator[dict[str, Any]]:
    """The workloads of a node, one for each device or instance that has an owner or a load."""
    for device in placed.node.devices:
        words = f"{node_name(placed.node.name)}/{device.index}"
        profiles = {part.facts.get("mig_profile", "") for part in device.parts}
        if profiles and profiles <= placed.board.profiles:
            for number, part in enumerate(device.parts):
                yield from _workload(f"{words}/{number}", part, placed.board.type, 1.0, is_steady, is_part=True)
        else:
            factor = placed.corrections.get(device.index, Correction()).factor
            yield from _workload(words, device.unit, placed.board.type, factor, is_steady, is_part=False)


def _workload(
    words: str, unit: Unit, board: DeviceType, factor: float, is_steady: bool, *, is_part: bool
) -> Iterator[dict[str, Any]]:
    load = _load(unit.values, board)
    intensity = None if is_part else _intensity(unit.values, board, load / 100)
    if intensity is not None:
        intensity = round(min(max(intensity * factor, _LEAST_INTENSITY), 100.0), 1)
    if is_part:
        asked = _memory(unit.values.get("memory_used_bytes", 0.0))
    else:
        asked = _asked(unit, board, load, 100.0 if intensity is None else intensity)
    if not (load or asked or unit.owner != Owner()):
        return
    fluctuation = 0.0 if is_steady else round(min(_FLUCTUATION * load, _MOST_FLUCTUATION, 100.0 - load), 2)
    profile = f"{load:g}:{fluctuation:g}:0"
    workload: dict[str, Any] = {"name": words.replace("/", "-"), "devices": words, "profile": profile}
    if load and unit.values.get("tensor_active_ratio", load) < _NO_TENSOR * load / 100:
        workload["kind"] = "memory"
    if intensity is not None:
        workload["intensity"] = f"{intensity:g}"
    owner = {"pod": unit.owner.pod, "namespace": unit.owner.namespace, "container": unit.owner.container}
    workload |= {key: without_variables(text) for key, text in owner.items() if text}
    if asked:
        workload["metrics"] = asked
    if unit.owner.labels:
        workload["labels"] = {name: without_variables(text) for name, text in unit.owner.labels.items()}
    yield workload


def _load(values: Mapping[str, float], board: DeviceType) -> float:
    """The load in percent, by the usage; without it by the activity of the engines, or by the power."""
    watts, span = values.get("power_watts"), board.ranges.get("power_watts")
    by_power = 0.0
    if watts is not None and span is not None and watts > span.low * (1 + _NEAR_IDLE) and span.high > span.low:
        by_power = (watts - span.low) / (span.high - span.low)
    ratio = values.get("usage_ratio", values.get("engine_active_ratio", by_power))
    return round(100 * min(max(ratio, 0.0), 1.0), 2)


def _intensity(values: Mapping[str, float], board: DeviceType, load_ratio: float) -> float | None:
    """How much of the engines the work uses, in percent, so that the power is that which was read; None: unknown."""
    watts = values.get("power_watts")
    span = board.ranges.get("power_watts")
    if watts is None or span is None or span.high <= span.low or not load_ratio:
        return None
    percent = 100 * (watts - span.low) / (span.high - span.low) / load_ratio
    return round(min(max(percent, 0.0), 100.0), 1)


def _asked(unit: Unit, board: DeviceType, load: float, intensity: float) -> dict[str, str]:
    """What the work requests of metrics in addition to its load, so that these are as they were read."""
    values = unit.values
    asked = _memory(values.get("memory_used_bytes", 0.0)) if "memory_used_bytes" in board.ranges else {}
    for quantity in _ASKED:
        value, span = values.get(quantity, 0.0), board.ranges.get(quantity)
        if span is None or not math.isfinite(value):
            continue
        more = value - span.low - (span.high - span.low) * load * intensity / 10_000
        if not load and unit.owner == Owner() and more < _NOT_IDLE * span.low:
            continue
        if quantity.endswith("_ratio") and more >= _LEAST_RATIO:
            asked[metric_word(quantity)] = f"{round(100 * min(more, 1.0), 2):g}%"
        elif not quantity.endswith("_ratio") and more >= _LEAST_BYTES:
            asked[metric_word(quantity)] = f"{more:.0f}"
    return asked


def _memory(used_bytes: float) -> dict[str, str]:
    mib = round(used_bytes / _MIB)
    return {metric_word("memory_used_bytes"): f"{mib}MiB"} if mib else {}


#: The first line of each file, by which a clone knows its own files again.
FIRST_LINE: Final = "# Made by fakedev clone.\n"
_WIDTH: Final = 118


def file_text(document: Mapping[str, Any]) -> str:
    """A document below the first line."""
    # The dumper in C, where PyYAML was built with it, is five times as fast.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return FIRST_LINE + yaml.dump(
        dict(document), Dumper=dumper, sort_keys=False, default_flow_style=None, width=1000, allow_unicode=True
    )


def with_remarks(text: str, remarks: Iterable[str]) -> str:
    """A file's text with remarks below its first line."""
    lines: list[str] = []
    for remark in remarks:
        shown = "".join(character if character.isprintable() else " " for character in remark)
        lines += textwrap.wrap(
            shown, _WIDTH, initial_indent="# - ", subsequent_indent="#   ", break_on_hyphens=False
        )
    return FIRST_LINE + "".join(f"{line}\n" for line in lines) + text.removeprefix(FIRST_LINE)
