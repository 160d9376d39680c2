"""What was read of a fleet: nodes, their devices and instances, and who has them. Frozen values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Owner:
    """Who has a device: a pod of Kubernetes, or nobody.

    :param labels: further facts that only owned devices have, as ``pod_uid``.
    """

    pod: str = ""
    namespace: str = ""
    container: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unit:
    """A device or an instance of it.

    :param facts: by name, as label templates have them; without those of its node and its owner.
    :param values: by quantity, in the quantity's unit.
    """

    facts: Mapping[str, str]
    values: Mapping[str, float]
    owner: Owner = Owner()


@dataclass(frozen=True)
class ObservedDevice:
    """A device of a node.

    :param parts: its instances in order of their ids; empty for an undivided one.
    """

    index: int
    unit: Unit
    parts: tuple[Unit, ...] = ()


@dataclass(frozen=True)
class ObservedNode:
    """A node with its devices in order of their indices."""

    name: str
    devices: tuple[ObservedDevice, ...]
