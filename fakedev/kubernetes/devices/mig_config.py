"""The label ``nvidia.com/mig.config`` of a node: what its value means, and the states that follow.

NVIDIA's MIG manager divides all boards of a node when this label changes, and answers with ``mig.config.state``:

- an unknown configuration, or one that its boards cannot have: ``failed``, and nothing changes;
- one that the boards have already: ``success``;
- others: ``pending``; the labels of its clients (device plugin, feature discovery, DCGM) are ``paused-for-mig-change``
  meanwhile, so that nothing is allocatable; then ``success``, or ``failed`` when a pod has one of the boards that
  would change.

``rebooting`` is there only where a change of the mode fails and the manager may reboot, which does not happen here. A
label that is removed changes nothing. Sources: NVIDIA/mig-parted, pkg/mig/reconfigure/reconfigure.go (the order),
pkg/mig/builder (the configurations that are made from the profiles of the boards), cmd/nvidia-mig-manager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fakedev.base.errors import did_you_mean
from fakedev.fleet.parts.mig import Instance, Mig, instance_of, instances, mig_of
from fakedev.fleet.spec.device_types import MigProfile
from fakedev.fleet.spec.fleet_spec import Layout, PoolSpec
from fakedev.fleet.spec.offers import MigEntry
from fakedev.kubernetes.devices.offered_devices import NodeDevices

#: The label that asks, the label that answers, and the annotation with the instances of the boards for the next
#: fakedev.
MIG_CONFIG: Final = "nvidia.com/mig.config"
MIG_STATE: Final = "nvidia.com/mig.config.state"
APPLIED: Final = "fakedev/mig-config"
PENDING: Final = "pending"
SUCCESS: Final = "success"
FAILED: Final = "failed"
#: The API has ``pending``, and the fleet divides the boards.
DIVIDING: Final = "dividing"
#: Labels of clients that are stopped while boards are divided, and their value then.
CLIENTS: Final = tuple(
    f"nvidia.com/gpu.deploy.{name}" for name in ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm")
)
PAUSED: Final = "paused-for-mig-change"
#: NVIDIA's number as a vendor of PCI devices, at the end of identities in filters.
_NVIDIA: Final = "10de"
#: Instances of ``all-balanced``, by the slices of the board: slices of an instance to how many.
_BALANCED: Final[Mapping[int, Mapping[int, int]]] = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}


def layout_of(
    devices: NodeDevices, name: str, configs: Mapping[str, Sequence[MigEntry]]
) -> Layout:  # fmt: skip
    """The instances of each board of a node with a configuration; boards that it does not name are as they are.

    :param configs: of the user; empty: those that the MIG manager makes.
    :raises ValueError: for an unknown name, and for instances that a board cannot have, in words.
    """
    mig = mig_of(devices.pool.device_type)
    if mig is None:
        raise ValueError(f"{devices.pool.device_type.name} has no MIG")
    made = {} if configs else _configurations(mig)
    if name not in (configs or made):
        known = (*configs, *made)
        hint = did_you_mean(name, known, f"; there are {', '.join(known)}")
        raise ValueError(f"no configuration {name!r} for {devices.pool.device_type.name}{hint}")
    if made:
        return (made[name],) * len(devices.boards)
    layout = list(layout_now(devices))
    for entry in configs[name]:
        for index, board in enumerate(devices.boards):
            if _is_of(entry, index, board):
                layout[index] = _wanted(mig, entry)
    return tuple(layout)


def layout_now(devices: NodeDevices) -> Layout:
    """The instances of each board of a node as it is."""
    mig = mig_of(devices.pool.device_type)
    return tuple(
        tuple(instance_of(mig, part) for part in devices.pool.parts_of(index))
        if mig is not None and devices.is_mig_on(index) else None
        for index in range(len(devices.boards))
    )  # fmt: skip


def layout_text(layout: Layout) -> str:
    """A layout as the annotation has it: ``1g.10gb@0,3g.40gb@4;off``, a board each; boards that are alike only once."""
    texts = ["off" if each is None else ",".join(f"{one[0]}@{one[1]}" for one in each) for each in layout]
    return texts[0] if len({*texts}) == 1 else ";".join(texts)


def layout_from(text: str, count: int) -> Layout:
    """The layout of such a text.

    :param count: of boards.
    :raises ValueError: for another text, as everybody may write an annotation.
    """
    boards = [
        None if board == "off" else tuple(map(_instance, filter(None, board.split(",")))) for board in text.split(";")
    ]
    return tuple(boards) * (count if len(boards) == 1 else 1)


def applied_to(item: Mapping[str, Any], pool: PoolSpec) -> Layout:
    """How the boards of a node were divided, as its annotation says; empty if it has none that can be read."""
    text = (item["metadata"].get("annotations") or {}).get(APPLIED, "")
    try:
        return layout_from(text, pool.devices_per_node) if text else ()
    except ValueError:  # everybody may write an annotation
        return ()


def _instance(word: str) -> Instance:
    profile, _, begin = word.partition("@")
    return Instance(profile, int(begin))


def _is_of(entry: MigEntry, index: int, board: Mapping[str, str]) -> bool:
    identity = f"{board.get('pci_device_id', '')}{_NVIDIA}".lower()
    is_listed = entry.devices is None or index in entry.devices
    return is_listed and (not entry.filter or identity in map(str.lower, entry.filter))


def _wanted(mig: Mig, entry: MigEntry) -> tuple[Instance, ...] | None:
    """:raises ValueError: when a board cannot have the instances."""
    if not entry.is_enabled:
        return None
    profiles = []
    for name, count in entry.instances.items():
        profile = mig.profile(name)
        if profile is None:
            known = [profile.name for profile in mig.profiles]
            raise ValueError(f"no profile {name!r}{did_you_mean(name, known, f'; there are {known}')}")
        profiles += [profile] * count
    return tuple(instance_of(mig, part) for part in instances(mig, profiles))


def shape(layout: Layout) -> Sequence[tuple[str, ...] | None]:
    """The profiles of each board of a layout; None: MIG mode is off."""
    return [None if each is None else tuple(sorted(one[0] for one in each)) for each in layout]


def _configurations(mig: Mig) -> dict[str, tuple[Instance, ...] | None]:
    """The instances of a board by the names of the MIG manager's configurations."""
    found: dict[str, tuple[Instance, ...] | None] = {"all-disabled": None, "all-enabled": ()}
    balanced = _balanced(mig)
    if balanced:
        found["all-balanced"] = _filled(mig, balanced)
    for profile in mig.profiles:
        count = profile.count_beside(mig.slices, ())
        found[f"all-{profile.name.replace('+', '.')}"] = _filled(mig, [profile] * count)
    return found


def _balanced(mig: Mig) -> list[MigProfile]:
    """The profiles of ``all-balanced``; of several with as many slices the one that fits most often."""
    chosen: list[MigProfile] = []
    for slices, count in _BALANCED.get(mig.slices, {}).items():
        plain = [profile for profile in mig.profiles if profile.slices == slices and not {*profile.name} & {*"+-"}]
        if not plain:
            return []
        chosen += [max(plain, key=lambda each: each.count_beside(mig.slices, ()))] * count
    return chosen


def _filled(mig: Mig, profiles: Sequence[MigProfile]) -> tuple[Instance, ...]:
    return tuple(instance_of(mig, part) for part in instances(mig, profiles))
