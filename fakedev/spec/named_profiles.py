"""Named profiles of workloads, such as ``training`` and ``faulty``. Imports no NumPy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fakedev.spec.errors import FieldError, did_you_mean
from fakedev.spec.profiles import OPTIONAL
from fakedev.spec.quantities import quantity_name

#: A profile that can only be a name: letters, but not those of a number.
_NAME: Final = re.compile(r"(?!(?:nan|inf|infinity)$)[a-z][a-z-]{0,40}")


@dataclass(frozen=True)
class NamedProfile:
    """A profile with a name.

    :param summary: a description.
    :param fields: of the workload, as for :func:`~fakedev.spec.workload_fields.workload_from_fields`.
    :param metrics: its demand for metrics, if the devices have them.
    :param faults: on its devices, as for :func:`~fakedev.spec.fault_fields.fault_from_fields`.
    """

    summary: str
    fields: Mapping[str, Any]
    metrics: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Mapping[str, Any], ...] = ()


def _training() -> str:
    """Ten minutes: steps of ten seconds that end in an all-reduce of two, then a checkpoint of twenty seconds."""
    return ",".join(["97:2:8,45:5:2"] * 58 + ["8:4:20"])


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
        "busy, in air that gets warmer by 3 degrees every 10 minutes, ten times, with single-bit errors",
        {"profile": "80:3"},
        faults=(
            *_warmer(600, 3, 10),
            {"kind": "ecc-single", "every": 600, "probability": 0.8, "start": 300},
        ),
    ),
    "faulty": NamedProfile(
        "busy, with errors and with series that are missing or NaN now and then",
        {"profile": "60:5"},
        faults=(
            {"kind": "nan", "every": 30, "probability": 0.2},
            {"kind": "absent", "every": 60, "probability": 0.1},
            {"kind": "ecc-single", "every": 300, "probability": 0.5, "rows": 1},
            {"kind": "xid", "code": 63, "every": 1800, "probability": 0.3},
            {"kind": "power-brake", "every": 120, "probability": 0.05},
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
    "idle": NamedProfile("no work", {"profile": "0"}),
    "training": NamedProfile(
        "steps of 10 s that end in an all-reduce, a checkpoint every 10 minutes",
        {"profile": _training(), "kind": "tensor"},
        {"memory": "85%", "fabric-tx": "4%:1%:8,45%:5%:2", "fabric-rx": "4%:1%:8,45%:5%:2"},
    ),
    "inference": NamedProfile(
        "requests that follow the day: one wave in 24 hours",
        {"profile": "sine(45,30,86400):15"},
        {"memory": "60%"},
    ),
    "notebook": NamedProfile(
        "bursts of work, and long pauses in which memory is held",
        {"profile": "0:0:300,60:30:45,3:3:240,90:8:90,0:0:600"},
        {"memory": "20%"},
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
