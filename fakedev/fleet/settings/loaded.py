"""Device types and pools as loaded: the values, with their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fakedev.fleet.parts.mig import Mig
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.spec.fleet_spec import DeviceSpec, PoolSpec
from fakedev.schema.places import Place
from fakedev.schema.sections import Values


@dataclass(frozen=True)
class LoadedDevice:
    """A device type.

    :param labels: of the original's JSON: label to its place, for notes on unused ones.
    :param mig: how it can be divided into instances; None: it cannot.
    """

    type: DeviceType
    labels: Mapping[str, Place] = field(default_factory=dict)
    mig: Mig | None = None


@dataclass(frozen=True)
class LoadedDeviceList:
    """The original's device list."""

    devices: tuple[DeviceSpec, ...]
    labels: Mapping[str, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadedPool:
    """A pool, with the values and parts that it was built from."""

    spec: PoolSpec
    values: Values
    device: LoadedDevice
    devices: LoadedDeviceList | None
