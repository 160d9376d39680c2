"""How claims share their devices: GpuConfig and MigDeviceConfig (``resource.nvidia.com/v1beta1``) of NVIDIA's driver.

A DeviceClass or a claim has them as opaque parameters; the allocation repeats them, those of the class first. For each
device the last one that names its request counts, else the last one that names none and fits its type. What the driver
would refuse when it prepares the claim is refused: unknown fields and strategies, numbers out of range, a
configuration of instances for a board. Strategies are taken as with the driver's feature gates TimeSlicingSettings and
MPSSupport; by default it has neither.

Time slices change nothing that can be seen: containers of one device share its time anyway. With MPS the share of
active threads bounds how busy the engines get (the intensity of the work), and the pinned memory what a process takes.
Sources: NVIDIA/k8s-dra-driver-gpu (kubernetes-sigs/dra-driver-nvidia-gpu), api/nvidia.com/resource/v1beta1
(gpuconfig.go, migconfig.go, sharing.go, validate.go) and cmd/gpu-kubelet-plugin/device_state.go (which one counts).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fakedev.base.errors import FieldError, did_you_mean

_VERSION: Final = "resource.nvidia.com/v1beta1"
_OF_BOARDS: Final = "GpuConfig"
_OF_INSTANCES: Final = "MigDeviceConfig"
_TIME, _MPS = "TimeSlicing", "MPS"
_INTERVALS: Final = ("Default", "Short", "Medium", "Long")
_QUANTITY: Final = re.compile(r"([0-9]{1,15})([kMGT]|[KMGT]i)?")
_SUFFIXES: Final = {"": 1, **{f"{unit}{'i' * (base == 1024)}": base**power for base in (1000, 1024)
                              for power, unit in enumerate("kMGT" if base == 1000 else "KMGT", 1)}}  # fmt: skip
#: Bytes of the least memory that a share has.
MIB: Final = 1 << 20


class ClaimConfig(NamedTuple):
    """Opaque parameters of a claim for the driver.

    :ivar requests: that they are for; empty: all.
    """

    requests: tuple[str, ...]
    parameters: object


class Sharing(NamedTuple):
    """What a container may use of a device.

    :ivar percent: of its engines.
    :ivar memory_bytes: None: all.
    """

    percent: float = 100.0
    memory_bytes: int | None = None


WHOLE: Final = Sharing()


def sharing_of(configs: Sequence[ClaimConfig], request: str, device_id: str, *, is_instance: bool) -> Sharing:
    """What containers may use of a claimed device.

    :param request: ``NAME``, or ``NAME/SUBREQUEST``.
    :param device_id: its UUID, with which limits of single devices name it.
    :raises FieldError: when the driver refuses to prepare the claim.
    """
    kind = _OF_INSTANCES if is_instance else _OF_BOARDS
    names = {request, request.partition("/")[0]}
    for config in reversed(configs):
        of_kind = config.parameters.get("kind") if isinstance(config.parameters, Mapping) else None
        if (names & {*config.requests}) or (not config.requests and of_kind in (kind, None)):
            return _read(config.parameters, kind, device_id)
    return WHOLE


def _read(parameters: object, kind: str, device_id: str) -> Sharing:
    given = _object("parameters", parameters, "apiVersion", "kind", "sharing")
    _one_of("parameters.apiVersion", given.get("apiVersion"), (_VERSION,))
    _one_of("parameters.kind", given.get("kind"), (kind,))
    if given.get("sharing") is None:
        return WHOLE
    has_slices = ("timeSlicingConfig",) if kind == _OF_BOARDS else ()
    sharing = _object("sharing", given["sharing"], "strategy", "mpsConfig", *has_slices)
    _one_of("sharing.strategy", sharing.get("strategy"), (_TIME, _MPS))
    slices, mps = sharing.get("timeSlicingConfig"), sharing.get("mpsConfig")
    if sharing["strategy"] == _TIME:
        if mps is not None:
            raise FieldError("sharing.mpsConfig", f"cannot be used with the strategy {_TIME}")
        if slices is not None:
            interval = _object("timeSlicingConfig", slices, "interval").get("interval")
            _one_of("timeSlicingConfig.interval", interval, _INTERVALS)
        return WHOLE
    if slices is not None:
        raise FieldError("sharing.timeSlicingConfig", f"cannot be used with the strategy {_MPS}")
    return _of_mps(mps or {}, device_id)


def _of_mps(value: object, device_id: str) -> Sharing:
    names = "defaultActiveThreadPercentage", "defaultPinnedDeviceMemoryLimit", "defaultPerDevicePinnedMemoryLimit"
    mps = _object("mpsConfig", value, *names)
    percent, of_all, of_each = (mps.get(name) for name in names)
    if percent is not None and not (type(percent) is int and 0 <= percent <= 100):
        raise FieldError(f"mpsConfig.{names[0]}", "must be a whole number from 0 to 100")
    memory = None if of_all is None else _bytes(f"mpsConfig.{names[1]}", of_all)
    for key, text in _object(f"mpsConfig.{names[2]}", of_each or {}).items():
        limit = _bytes(f"mpsConfig.{names[2]}.{key[:60]}", text)
        # A number is a place among the devices of the group; a claim here has each device for itself.
        memory = limit if key in (device_id, "0") else memory
    return Sharing(100.0 if percent is None else float(percent), memory)


def quantity_bytes(value: object) -> int:
    """A quantity of memory; 0 for what is none."""
    match = _QUANTITY.fullmatch(str(value))
    return int(match[1]) * _SUFFIXES[match[2] or ""] if match else 0


def _bytes(where: str, value: object) -> int:
    found = quantity_bytes(value)
    if found < MIB:
        raise FieldError(where, "must be a quantity of at least 1Mi, as 10Gi")
    return found


def _object(where: str, value: object, *known: str) -> Mapping[str, Any]:
    """A mapping; without names all names are known."""
    if not isinstance(value, Mapping):
        raise FieldError(where, "must be an object")
    for key in value if known else ():
        if key not in known:
            raise FieldError(f"{where}.{key[:60]}", f"unknown{did_you_mean(key, known, f'; there are {known}')}")
    return value


def _one_of(where: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise FieldError(where, f"must be {' or '.join(known)}")
