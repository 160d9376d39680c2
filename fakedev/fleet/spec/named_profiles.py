"""Named profiles of workloads, such as ``training`` and ``faulty``. Imports no NumPy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fakedev.base.errors import FieldError, did_you_mean
from fakedev.fleet.spec.profiles import OPTIONAL
from fakedev.fleet.spec.quantities import quantity_name

#: A profile that can only be a name: letters, but not those of a number.
_NAME: Final = re.compile(r"(?!(?:nan|inf|infinity)$)[a-z][a-z-]{0,40}")
#: The profile of devices of a pool that have no workload, and so no process that holds a context.
IDLE: Final = "idle"


@dataclass(frozen=True)
class NamedProfile:
    """A profile with a name.

    :param summary: a description.
    :param fields: of the workload, as for :func:`~fakedev.fleet.spec.workload_fields.workload_from_fields`.
    :param metrics: its demand for metrics, if the devices have them.
    :param faults: on its devices, as for :func:`~fakedev.fleet.spec.fault_kinds.fault_from_fields`.
    :param is_single: each device of a pool has a workload of its own; else the devices of a node have one together.
    """

    summary: str
    fields: Mapping[str, Any]
    metrics: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Mapping[str, Any], ...] = ()
    is_single: bool = False


@dataclass(frozen=True)
class ProfileMix:
    """A mix of named profiles over the devices of a pool.

    :param summary: a description.
    :param nodes: the share of nodes on which all devices have one profile, by its name.
    :param devices: the shares of the other devices, by the name of their profile.
    """

    summary: str
    nodes: Mapping[str, float]
    devices: Mapping[str, float]

    def drawn(self, of_node: float, of_device: float) -> str:
        """The profile of a device.

        :param of_node, of_device: a random number in 0 to 1 of its node, and one of its own.
        """
        whole = 0.0
        for name, share in self.nodes.items():
            whole += share
            if of_node < whole:
                return name
        total, name = 0.0, ""
        for name, share in self.devices.items():  # noqa: B007 - the last one, where rounding leaves a rest
            total += share
            if of_device < total:
                break
        return name


class _Phase(NamedTuple):
    """A phase of a training job; all but seconds and spread are percent, with their fluctuation behind a colon.

    :param links: of what the links to other boards carry.
    """

    load: str
    intensity: str
    links: str
    seconds: float
    spread: float

    @property
    def activity(self) -> str:
        return f"{self.load}:{self.seconds:g}:{self.spread:g}"

    @property
    def transfer(self) -> str:
        links, fluctuation = self.links.split(":")
        return f"{links}%:{fluctuation}%:{self.seconds:g}"


#: The beginning of a training job: data is read; the memory fills.
_LOADING: Final = _Phase("12:9", "25:10", "0:0", 180, 1.5)
#: A step: all ranks compute, those that are early wait for the last one with spinning kernels, and all exchange
#: gradients. The intensity of the wait varies most between ranks: some compute still, the others spin.
_STEP: Final = (
    _Phase("92:8", "80:20", "2:1", 15.5, 1.06),
    _Phase("99:1", "30:22", "4:2", 1, 2),
    _Phase("99:1", "18:7", "30:8", 3.5, 1.15),
)
#: Some ranks write, and the others wait for them.
_CHECKPOINT: Final = _Phase("45:40", "10:8", "0.5:0.2", 40, 1.6)
_TRAINING: Final = (*_STEP * 30, _CHECKPOINT)
#: To the host go figures of the steps, and the weights of each checkpoint.
_TRAINING_WRITES: Final = f"0.1%:0.1%:180:once,0.05%:0.05%:{sum(phase.seconds for phase in _STEP) * 30:g},8%:6%:40"
_TRAINING_LINKS: Final = ",".join([f"{_LOADING.transfer}:once", *(phase.transfer for phase in _TRAINING)])


def _warmer(every_seconds: float, celsius: float, times: int) -> tuple[Mapping[str, Any], ...]:
    return tuple({"kind": "inlet", "celsius": celsius, "start": step * every_seconds} for step in range(1, times + 1))


PROFILES: Final[Mapping[str, NamedProfile]] = {
    "static": NamedProfile("constant load", {"profile": "50"}),
    "stable": NamedProfile("load with small variations", {"profile": "50:5"}),
    "spike": NamedProfile(
        "30 s of full load every 5 minutes", {"profile": "spike(30,98,30,300):2"}, {"memory": "30%"}
    ),
    "wave": NamedProfile("a sine, one wave in 377 s", {"profile": "sine(50,40,377)"}),
    "degrading": NamedProfile(
        "busy, in air that gets warmer by 4 degrees every 10 minutes, ten times, with single-bit errors",
        {"profile": "80:3"},
        faults=(
            *_warmer(600, 4, 10),
            {"kind": "ecc-single", "every": 600, "probability": 0.8, "start": 300},
        ),
    ),
    "faulty": NamedProfile(
        "busy, with fans that stop, errors, and series that are missing or NaN now and then",
        {"profile": "60:5"},
        faults=(
            {"kind": "nan", "every": 30, "probability": 0.2},
            {"kind": "absent", "every": 60, "probability": 0.1},
            {"kind": "ecc-single", "every": 300, "probability": 0.5, "rows": 1},
            {"kind": "xid", "code": 63, "every": 1800, "probability": 0.3},
            {"kind": "power-brake", "every": 120, "probability": 0.05},
            # The original's boards have 85 to 95 degrees: these get to where heat holds them.
            {"kind": "fan", "resistance": 8, "every": 600, "probability": 0.5},
        ),
    ),
    "chaos": NamedProfile(
        "random load, a new one every 10 s, and anything that goes wrong without ending work",
        {"profile": "random(0,100,10)"},
        faults=(
            {"kind": "inlet", "celsius": 25, "every": 180, "probability": 0.2},
            {"kind": "power-brake", "every": 60, "probability": 0.1},
            {"kind": "hang", "every": 60, "probability": 0.05},
            {"kind": "pcie-replays", "rate": 100, "every": 30, "probability": 0.2},
            {"kind": "nan", "every": 15, "probability": 0.1},
            {"kind": "counter-reset", "every": 600, "probability": 0.1},
        ),
    ),
    IDLE: NamedProfile("no work", {"profile": "0"}),
    "training": NamedProfile(
        "data is read, then steps of about 20 s in which ranks wait for the last one and exchange gradients, with a "
        "checkpoint about every 10 minutes",
        {
            "profile": ",".join([f"{_LOADING.activity}:once", *(phase.activity for phase in _TRAINING)]),
            "intensity": ",".join(phase.intensity for phase in (_LOADING, *_TRAINING)),
            "kind": "training",
        },
        {
            "memory": "ramp(4%,82%):0:180,82%:0:0",
            "pcie-rx": "12%:8%:180,1.2%:1%:0",
            "pcie-tx": _TRAINING_WRITES,
            "fabric-tx": _TRAINING_LINKS,
            "fabric-rx": _TRAINING_LINKS,
        },
    ),
    "inference": NamedProfile(
        "replicas of one service, whose demand follows the time of day: high at 15:00 UTC, low at night",
        {
            "profile": "5:4:60:1.4:once,daily(12,80):12:0",
            "intensity": "30,35:15",
            "kind": "memory",
            "service": "inference",
        },
        {"memory": "ramp(5%,72%):0:60,72%:0:0", "tensor": "5%:5%", "pcie-rx": "8%:4%:60,0.4%:0.4%:0"},
    ),
    "notebook": NamedProfile(
        "bursts of work, and long pauses in which memory and context are held",
        {
            "profile": "0:0:300:4:once,35:30:35:2,3:3:120:2,75:20:45:2.2,0:0:360:3",
            "intensity": "100,25:15,20,40:20,100",
        },
        {"memory": "20%"},
        is_single=True,
    ),
    "light": NamedProfile(
        "a device that is held, and hardly used",
        {"profile": "0:0:120:3:once,2:1.5:600:2,6:5:60:2.5,0:0:240:3", "intensity": "100,20,30:10,100"},
        {"memory": "35%"},
        is_single=True,
    ),
    "batch": NamedProfile(
        "one job after the other, most of them short and some very long, with pauses",
        {
            "profile": "0:0:600:5:once,ramp(5,88):5:40:1.5,88:9:900:4,0:0:1200:3,"
                       "ramp(5,55):5:20:1.5,55:18:300:4,0:0:600:3",
            "intensity": "100,40:10,50:20,100,30:10,35:15,100",
        },
        {"memory": "1%:0:600:once,ramp(2%,55%):0:40,55%:0:900,1%:0:1200,ramp(2%,30%):0:20,30%:0:300,1%:0:600"},
        is_single=True,
    ),
    "failing": NamedProfile(
        "a job that starts, ramps up, dies after some minutes and starts again",
        {
            "profile": "10:8:20:1.3,ramp(10,90):4:40:1.3,88:9:240:2.5,0:0:25:1.8",
            "intensity": "30,50:10,55:20,100",
            "kind": "tensor",
        },
        {
            "memory": "ramp(0%,30%):0:20,ramp(30%,75%):0:40,75%:0:240,0%:0:25",
            "pcie-rx": "10%:5%:20,1%:0.5%:280,0%:0:25",
        },
        is_single=True,
    ),
}

#: Mixes of profiles, for pools.
MIXES: Final[Mapping[str, ProfileMix]] = {
    "cluster": ProfileMix(
        "a shared cluster: most devices are held and hardly used",
        {"training": 0.02},
        {"idle": 0.2, "light": 0.38, "notebook": 0.28, "batch": 0.07, "inference": 0.05, "failing": 0.02},
    ),
    "research": ProfileMix(
        "a busy research cluster: devices are either fully used or idle",
        {"training": 0.4},
        {"idle": 0.45, "notebook": 0.25, "batch": 0.25, "failing": 0.05},
    ),
}


def _of_profile(profile: NamedProfile, fields: Mapping[str, object]) -> Mapping[str, object]:
    """The fields of a profile, overridden by given fields; its metrics are optional."""
    own: dict[str, object] = {"repeat": 0, **profile.fields, "faults": profile.faults}
    whole = own | {name: value for name, value in fields.items() if name != "profile"}
    given = fields.get("metrics") or {}
    if isinstance(given, Mapping):
        given_names = {_quantity(str(name)) for name in given}
        own_metrics = {name: asked for name, asked in profile.metrics.items() if _quantity(name) not in given_names}
        metrics = {f"{name}{OPTIONAL}": asked for name, asked in own_metrics.items()}
        whole["metrics"] = {**metrics, **given}
    return whole


def _quantity(word: str) -> str:
    return quantity_name(word.removesuffix(OPTIONAL).replace("-", "_"))


def with_profile(fields: Mapping[str, object]) -> Mapping[str, object]:
    """The fields of a workload, where a named profile or a schedule of utilization is replaced by its fields.

    Given fields override those of the profile. The schedule is that of the GPU mock: ``{"schedule": [{"time": "1h",
    "utilization": 80}, ...], "repeat": 5}``.

    :raises FieldError: for an unknown name, or a schedule with an unknown key.
    """
    profile = fields.get("profile")
    if isinstance(profile, str) and _NAME.fullmatch(profile.strip()):
        name = profile.strip()
        if name in MIXES:
            text = f"{name} mixes profiles over the devices of a pool: give it as profile of a pool, or one of "
            raise FieldError("profile", f"{text}{', '.join(PROFILES)}")
        if name not in PROFILES:
            hint = did_you_mean(name, PROFILES, f": give one of {', '.join(PROFILES)}")
            raise FieldError("profile", f"no profile {name!r}{hint}")
        return _of_profile(PROFILES[name], fields)
    if not isinstance(profile, Mapping):
        return fields
    for key in profile:
        if key not in ("schedule", "repeat"):
            raise FieldError("profile", f"unknown {str(key)!r}: a schedule has schedule and repeat")
    rest = {"repeat": profile["repeat"]} if "repeat" in profile else {}
    return {**rest, **fields, "profile": profile.get("schedule")}
