"""The keys of ``churn`` of a pool."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from fakedev.config.names import MAX_DEVICES_PER_NODE
from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.types import DURATION_UNITS, Choice, Duration, Integer, ListOf, Number, OneOf, Text
from fakedev.config.workloads import BASE

_SECONDS_OF: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)/([smhd])", re.ASCII)
_COUNT: Final = Integer(1, MAX_DEVICES_PER_NODE)
_LASTS: Final = Duration(0.001, 1e8)
#: Keys of a kind that are those of workloads.base.
_SHARED: Final = ("profile", "metrics", "kind", "seconds-of", "measured-frequency", "measured-capability", "limits")


def _rate(text: str) -> float:
    """Arrivals per second of ``6/h``."""
    found = _RATE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise ValueError(f"{text[:60]!r} is no rate: give a number above 0 with /s, /m, /h or /d, as 6/h")
    return float(found[1]) / _SECONDS_OF[found[2]]


CHURN_WORKLOAD = Section(
    "fleet.pools.churn.workloads",
    (
        Key("name", Text(), "What its pods' names begin with.", required=True),
        Key("weight", Number(0), "How often it comes, beside the others.", default=1.0, default_words="1"),
        Key(
            "devices",
            OneOf((_COUNT, ListOf(_COUNT, 1, words="list of numbers"))),
            "How many devices it wants, or the numbers that it may want.",
            default=1,
        ),
        Key(
            "lasts",
            OneOf((_LASTS, ListOf(_LASTS, 2, words="list of the shortest and the longest"))),
            "How long it lasts: always so long, or drawn between the shortest and the longest, as [10m, 4h].",
            required=True,
            unit=DURATION_UNITS,
        ),
        Key("pods", Choice(("deployment", "job")), "How its pods are named: as those of one deployment, or each of "
            "a job of its own.", default="deployment"),
        *(replace(key, required=key.name == "profile") for key in BASE.keys if key.name in _SHARED),
        Key("namespace", Text(), "Namespace of its pods.", default="default"),
        Key("container", Text(), "Container of its pods.", default_words="the name"),
    ),
    doc="One kind of workload that comes and goes.",
)  # fmt: skip

CHURN = Section(
    "fleet.pools.churn",
    (
        Key("rate", Text("rate", _rate), "How many come to each node, on the average, as 6/h.", required=True),
        Key(
            "workloads",
            ListOf(CHURN_WORKLOAD, 1, words="list of workloads"),
            "What comes.",
            default_yaml='[{name: train, profile: training, devices: [4, 8], lasts: [30m, 8h], pods: job}, '
            '{name: serve, weight: 3, profile: inference, devices: [1, 2], lasts: [10m, 4h]}, '
            '{name: notebook, weight: 2, profile: notebook, lasts: [15m, 2h]}]',
            default_words="train on 4 or 8 devices, and more often serve and notebook on 1 or 2",
        ),
    ),
    doc="Workloads that come to each node by themselves, and go again ([churn.md](churn.md)).",
)
