"""Which devices the labels of an alert mean, from what labels of an identity say of devices and their nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from fakedev.exposition.identity import Identity, LabelSpec
from fakedev.exposition.labels import Template
from fakedev.scenario.alerts import LabelSet
from fakedev.scenario.scrapes import Target
from fakedev.sim.entities.naming import device_facts
from fakedev.sim.entities.roster import Roster

#: How Prometheus renames labels of rows that the target has as well.
_EXPORTED: Final = "exported_"


class DeviceLabels:
    """Devices by their labels. Devices are written ``dgx-0/1``.

    Labels that work changes, as those of pods, do not count: they are not the device's own.

    :ivar nodes: the devices of each node.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, frozenset[str]] = {}
        self._devices: dict[tuple[str, str], set[str]] = {}

    def add(self, roster: Roster, seed: int, identities: Mapping[str, Identity], targets: Iterable[Target]) -> None:
        """Learn the devices of a fleet; again after each reload.

        :param identities: of the pools, by their names.
        :param targets: whose labels mean all devices of a node.
        """
        specs = {name: _labels(identity) for name, identity in identities.items()}
        for node in roster.shown:
            names = [f"{node.name}/{index}" for index in range(node.pool.devices_per_node)]
            self.nodes[node.name] = self.nodes.get(node.name, frozenset()).union(names)
            for index, name in enumerate(names):
                facts = device_facts(seed, node.pool, node.spec, index)
                for spec, template in specs[node.pool.name]:
                    if not any(fact not in facts for fact in template.facts) and (text := _text(spec, template, facts)):
                        self._devices.setdefault((spec.name, text), set()).add(name)
        for target in targets:
            for label in target.labels.items():
                self._devices.setdefault(label, set()).update(self.nodes.get(target.node, ()))

    def devices(self, labels: LabelSet) -> frozenset[str] | None:
        """The devices that an alert means; None: its labels tell none apart from others."""
        found: set[str] | None = None
        for name, text in labels:
            of_label = self._devices.get((name, text))
            if of_label is None and name.startswith(_EXPORTED):
                of_label = self._devices.get((name.removeprefix(_EXPORTED), text))
            if of_label is not None:
                found = of_label if found is None else found & of_label
        is_every = found is None or all(found >= devices for devices in self.nodes.values())
        return None if found is None or is_every else frozenset(found)

    def owners(self, units: Collection[str]) -> frozenset[str]:
        """The devices of some units: of a part its device, of a node all that it has."""
        found: set[str] = set()
        for unit in units:
            node, *rest = unit.split("/")
            found.update([f"{node}/{rest[0]}"] if rest else self.nodes.get(node, ()))
        return frozenset(found)


def _labels(identity: Identity) -> list[tuple[LabelSpec, Template]]:
    """The labels of an identity that depend on facts, each once."""
    specs = dict.fromkeys(identity.labels)
    for _, labels in identity.labels_of_levels:
        specs |= dict.fromkeys(labels)
    for family in identity.families:
        for row in family.rows:
            specs |= dict.fromkeys(row.labels)
    parsed = [(spec, Template.parse(spec.value)) for spec in specs]
    return [(spec, template) for spec, template in parsed if template.facts]


def _text(spec: LabelSpec, template: Template, facts: Mapping[str, str]) -> str:
    text = template.value(facts)
    texts = dict(spec.texts)
    return texts.get(text, spec.otherwise) if texts else text
