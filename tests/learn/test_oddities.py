"""What goes wrong with boards and exporters becomes faults of the configuration."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.exporters.settings.catalog import Catalog, named_identity
from fakedev.fleet.entities.randomness import Floats
from fakedev.learn.oddities import ENERGY, Counters, gaps, lacking, missing, resets, stuck
from fakedev.learn.tracks import POWER, USAGE, Owner, Seen, Track
from fakedev.learn.usage_fit import Window
from fakedev.schema.files import Files
from fakedev.schema.places import Report

STEP = 60.0
HOUR = 60


def track(node: str, minutes: Floats, **numbers: Floats) -> Track:
    shown = numbers or {USAGE: np.zeros(len(minutes))}
    return Track((node, "0"), Owner(), (STEP * minutes).astype(np.uint32),
                 {name: values.astype(np.float32) for name, values in shown.items()}, "0")  # fmt: skip


def test_an_exporter_that_is_away_now_and_then() -> None:
    """Two nodes for ten hours; one is away for eight minutes twice; an hour in which nobody scraped does not count."""
    minutes = np.concatenate([np.arange(5 * HOUR), np.arange(6 * HOUR, 11 * HOUR)])
    away = np.concatenate([minutes[:100], minutes[108:400], minutes[408:]])
    window = Window(0, 11 * 3600, STEP)
    (fault,) = gaps([track("a", minutes), track("b", away)], window)
    assert (fault["kind"], fault["every"]) == ("error-page", "480s")
    assert fault["probability"] == pytest.approx(2 / 22 * 480 / 3600, rel=0.02)
    assert gaps([track("a", minutes), track("b", minutes)], window) == []


def test_resets() -> None:
    """But for those that follow an XID."""
    (fault,) = resets(10, 1000.0, 2)
    assert (fault["kind"], fault["every"], fault["probability"]) == ("reset", "3600s", 0.008)
    assert resets(10, 1000.0, 9) == resets(0, 1000.0, 0) == resets(0, 0.0, 0) == []


def test_a_value_that_is_stuck() -> None:
    """Power that is always the same while the board works and rests; idle boards may have it."""
    minutes = np.arange(100.0)
    works, same = np.tile([0.0, 0.9], 50), np.full(100, 61.25)
    tracks = [track("a", minutes, usage_ratio=works, power_watts=same),
              track("b", minutes, usage_ratio=np.zeros(100), power_watts=same)]  # fmt: skip
    assert stuck(tracks, lambda found: found.device[0]) == [
        {"kind": "sentinel", "metric": POWER, "devices": ["a"], "value": 61.25}
    ]


def test_families_that_nodes_do_not_have() -> None:
    """Of nodes with the same boards; what few nodes have is missing nowhere."""
    shown = {"power": {"a", "b", "x"}, "heat": {"a", "b", "c", "x"}, "xid": {"a"}}
    alike = {"a": "h100", "b": "h100", "c": "h100", "x": "l4", "y": "t4"}
    assert missing(shown, alike) == [{"kind": "absent", "metric": "power", "devices": ["c/*"]}]


def test_counters() -> None:
    """A series goes on with the next owner of its board; of two values at a time the higher one is newer.

    A fall after a gap is none: a node that was down counts from 0.
    """
    report = Report()
    identity = named_identity("dcgm@4.8.2", Catalog(Files(environ={}), report), report)
    counters = Counters([identity], {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_UTIL"})
    (name,) = counters.names
    first, second = ("a", [0, 1, 2], [1000, 3000, 5000]), ("b", [2, 3, 4, 24], [6000, 500, 1500, 100])
    for pod, minutes, millijoules in (first, second):
        labels = (("UUID", "GPU-1"), ("pod", pod))
        counters.take(Seen(name, labels, STEP * np.array(minutes), np.array(millijoules, dtype=np.float64)))
    risen, fallen, seconds = counters.watched(ENERGY)
    assert (fallen, seconds) == (1, 24 * STEP)
    assert risen == pytest.approx(6)
    assert counters.watched("throttled_power_seconds") == (0.0, 0, 0.0)


def test_labels_that_nodes_lack() -> None:
    """What half of an exporter's nodes have; what only some boards have, as a pod or an instance, says nothing."""
    usual = {"node", "uuid", "driver_version", "pod", "mig_id"}
    shown = {"dcgm": {"a": usual, "b": usual, "c": {"node", "index", "label_rack"}}, "amd": {"d": {"node"}}}
    assert lacking(shown) == {"c": {"driver_version": ""}}
