"""Checks that an identity and the devices that it shows fit each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from fakedev.base.names import COMPUTED_FACTS
from fakedev.exporters.identity import Identity, LabelSpec
from fakedev.exporters.labels import Template
from fakedev.exporters.row_levels import NODE, PAGE_QUANTITIES, POD, PROCESS, PROCESS_PART, WORK_LEVELS
from fakedev.exporters.settings.loaded import LoadedIdentity
from fakedev.fleet.devices.relations import Relations
from fakedev.fleet.entities.naming import device_facts
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.spec.fleet_spec import NodeSpec, PoolSpec
from fakedev.fleet.spec.quantities import FACT_ALIASES, FILE_ALIASES, KNOWN_QUANTITIES, tally_of
from fakedev.schema.places import Place, Report
from fakedev.schema.sections import did_you_mean

#: Facts that differ from node to node unless they are set.
_OF_A_NODE: Final = ("node", "uuid", "serial")

#: Levels of rows that devices have.
_OF_DEVICES: Final = ("device", "unit", "unit/bare", "repeated", "whole", "whole/bare", "tiled", "single", "held")
#: Levels of rows of processes and containers.
_OF_HOLDERS: Final = (*WORK_LEVELS, f"{POD}/whole")
#: Levels of rows that no device has.
_OF_OTHERS: Final = (*PAGE_QUANTITIES, *_OF_HOLDERS)
#: Levels of rows that each instance of a divided device has.
_OF_INSTANCES: Final = ("part", "unit", "unit/bare", "repeated", "xid")


def check_identity(loaded: LoadedIdentity, pool: PoolSpec, place: Place, report: Report) -> None:
    """Reports labels and quantities that a pool's devices lack, and rows that would be the same series."""
    _check_facts(loaded, pool, place, report)
    _check_quantities(loaded, pool, place, report)
    _check_unique(loaded.identity, pool, place, report)
    _check_unique_parts(loaded.identity, pool, place, report)


def check_unique_nodes(identity: Identity, pools: Sequence[PoolSpec], place: Place, report: Report) -> None:
    """Reports when nodes shown on one page would have the same series."""
    nodes = sum(len(pool.nodes) for pool in pools)
    if nodes < 2:
        return
    own = {name for pool in pools for node in pool.nodes for name in node.facts}
    fixed = {name for pool in pools for source in (pool.device_type.facts, pool.facts) for name in source}
    # A fact of a device is that of each node of the pool: it tells nodes apart if no other device has it.
    seen: set[tuple[str, str]] = set()
    for pool in pools:
        for facts in (item for device in pool.devices.values() for item in device.facts.items()):
            if len(pool.nodes) > 1 or facts in seen:
                fixed.add(facts[0])
            seen.add(facts)
    distinguishing = (set(_OF_A_NODE) - _with_aliases(fixed)) | _with_aliases(own)
    if len({pool.name for pool in pools}) == nodes:
        distinguishing.add("pool")
    of_nodes = {
        (*identity.labels_on(NODE), *row.labels)
        for family in identity.families
        for row in family.rows
        if row.level == NODE
    }
    for labels in (identity.labels, *sorted(of_nodes, key=str)):
        if not facts_shown(labels) & distinguishing:
            report.problem(
                place,
                f"{identity.title} has no label that distinguishes its {nodes} nodes: their series would be the same "
                "on /metrics; give it a label with {node}",
            )
            return


def facts_shown(labels: Iterable[LabelSpec]) -> frozenset[str]:
    """The facts in the templates of labels, with their aliases."""
    return frozenset(_with_aliases({fact for label in labels for fact in _facts_of(label)}))


def note_unused_labels(labels: Mapping[str, Place], identity: Identity, report: Report) -> None:
    """Notes labels that are given and that the identity does not show."""
    shown = facts_shown(_all_labels(identity))
    shown |= facts_shown(LabelSpec("", row.fact) for family in identity.families for row in family.rows)
    for label, place in labels.items():
        if label not in shown:
            report.note(place, f"the label {label!r} is left out: {identity.title} does not show it")


def _check_facts(loaded: LoadedIdentity, pool: PoolSpec, place: Place, report: Report) -> None:
    representatives = [_facts_by_name(pool, node) for node in _distinct_nodes(pool)]
    everyone = set.intersection(*chain.from_iterable(representatives))
    someone = set.union(*chain.from_iterable(representatives))
    identity = loaded.identity
    for label in dict.fromkeys(_all_labels(identity)):
        for fact in _facts_of(label):
            if loaded.strict:
                if fact not in someone:
                    hint = did_you_mean(fact, someone) or "give it in DeviceLabels, or leave the mapping out"
                    text = f"DeviceLabelMap.{fact}: no device of pool {pool.name} has the label {fact!r}; {hint}"
                    report.problem(loaded.label_places.get(fact, place), text)
            elif not (label.optional or label.only_with) and fact not in everyone:
                report.problem(
                    place,
                    f"{identity.title} shows the fact {fact!r} in its label {label.name}, and the devices of pool "
                    f"{pool.name} ({pool.device_type.name}) lack it: add it to the pool, as labels: {{{fact}: ...}}",
                )


def _check_quantities(loaded: LoadedIdentity, pool: PoolSpec, place: Place, report: Report) -> None:
    rows = [(family.name, row) for family in loaded.identity.families for row in family.rows]
    shown = [(family, row.named) for family, row in rows if row.level in (*_OF_DEVICES, "tile", *_OF_HOLDERS)]
    doubtful = dict.fromkeys(
        (family, quantity)
        for family, named in shown
        for quantity in named
        if loaded.strict or (quantity not in KNOWN_QUANTITIES and tally_of(quantity) is None)
    )
    if not doubtful:
        return  # as for nearly all identities: to find what devices have takes milliseconds for each pool
    has = frozenset(Relations(Roster([replace(pool, nodes=pool.nodes[:1])]), 0.0, 0).quantities)
    for family, quantity in doubtful:
        if quantity in has:
            continue
        at = loaded.quantity_places.get(quantity, place)
        if loaded.strict:
            hint = did_you_mean(quantity, has) or f"it has {', '.join(sorted(has))}"
            owner = f"{pool.device_type.name} of pool {pool.name}"
            report.problem(at, f"MetricMap: {owner} has no {quantity!r}; {hint}")
        else:
            hint = did_you_mean(quantity, {*has, *KNOWN_QUANTITIES, *FILE_ALIASES}, "; ")
            hint = hint or ": not computed, and in no range of a device type"
            report.problem(at, f"{family}: unknown quantity {quantity!r}{hint}")


def _check_unique(identity: Identity, pool: PoolSpec, place: Place, report: Report) -> None:
    """Reports when two devices of a node would have the same labels, or two processes of a device."""
    for family in identity.families:
        for row in family.rows:
            is_of_process = row.level in (PROCESS, PROCESS_PART)
            if is_of_process and "pid" not in facts_shown((*identity.labels_on(row.level), *row.labels)):
                report.problem(
                    place,
                    f"{family.name}: processes of a device would have the same series: {identity.title} has no label "
                    "that distinguishes them; give it a label with {pid}",
                )
                return
    if pool.devices_per_node < 2:
        return
    for node in _distinct_nodes(pool)[:1]:
        every = [device_facts(0, pool, node, index) for index in range(pool.devices_per_node)]
        rows = [row for family in identity.families for row in family.rows if row.level not in _OF_OTHERS]
        own = dict.fromkeys(row.labels for row in rows)
        for labels in [(*identity.labels, *label_set) for label_set in own]:
            same = _first_same(labels, every)
            if same is not None:
                names = ", ".join(label.name for label in identity.labels) or "none"
                report.problem(
                    place,
                    f"devices {same[0]} and {same[1]} of a node of pool {pool.name} would have the same series: "
                    f"{identity.title} has no label that distinguishes them (labels: {names})",
                )
                return


def _check_unique_parts(identity: Identity, pool: PoolSpec, place: Place, report: Report) -> None:
    """Reports when two parts of a device would have the same labels, in families that have lines of parts."""
    if not pool.has_parts:
        return
    roster = Roster([replace(pool, nodes=pool.nodes[:1])])
    node = roster.nodes[0]
    facts = roster.part_facts(0, node, roster.facts(0, node))
    for family in identity.families:
        for row in family.rows:
            of_level = [fact for fact, part in zip(facts, roster.parts.specs, strict=True)
                        if row.level in (("tile",) if part.is_tile else _OF_INSTANCES)]  # fmt: skip
            if _first_same((*identity.labels, *row.labels), of_level) is not None:
                report.problem(
                    place,
                    f"{family.name}: parts of a device of pool {pool.name} would have the same series: "
                    f"{identity.title} has no label that distinguishes them; give it a label with {{part}}",
                )
                return


def _first_same(labels: Sequence[LabelSpec], devices: Sequence[Mapping[str, str]]) -> tuple[int, int] | None:
    """The first two devices whose labels are the same; None when all differ."""
    templates = [Template.parse(label.value) for label in labels if _is_good(label)]
    seen: dict[tuple[str, ...], int] = {}
    for index, facts in enumerate(devices):
        first = seen.setdefault(tuple(template.value(facts) for template in templates), index)
        if first != index:
            return first, index
    return None


def _facts_by_name(pool: PoolSpec, node: NodeSpec) -> list[set[str]]:
    """The names of the facts that each kind of device of a node has."""
    plain = next((index for index in range(pool.devices_per_node) if index not in pool.devices), None)
    indices = [index for index in pool.devices if index < pool.devices_per_node]
    if plain is not None:
        indices.append(plain)
    return [{*device_facts(0, pool, node, index), *COMPUTED_FACTS} for index in indices]


def _distinct_nodes(pool: PoolSpec) -> list[NodeSpec]:
    """One node for each set of labels that nodes have."""
    return list({frozenset(node.facts): node for node in pool.nodes}.values())


def _all_labels(identity: Identity) -> Iterable[LabelSpec]:
    yield from identity.labels
    for family in identity.families:
        for row in family.rows:
            if row.level in _OF_DEVICES:
                yield from row.labels


def _facts_of(label: LabelSpec) -> tuple[str, ...]:
    return Template.parse(label.value).facts if _is_good(label) else ()


def _is_good(label: LabelSpec) -> bool:
    """Whether the template can be parsed; a bad one has been reported."""
    try:
        Template.parse(label.value)
    except ValueError:
        return False
    return True


def _with_aliases(facts: set[str]) -> set[str]:
    result = set(facts)
    for short, long in FACT_ALIASES.items():
        if short in facts or long in facts:
            result |= {short, long}
    return result
