"""What /-/metrics shows of faults and of the journal, for annotations of dashboards."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from fakedev.fleet.events import InjectFault
from fakedev.fleet.spec.fleet_spec import FaultSpec
from tests.support.application import SMALL, MemoryApplication, application

WANTED = ("fakedev_fault_devices", "fakedev_journal_entries_total")


def shown(app: MemoryApplication) -> dict[str, dict[tuple[str, ...], float]]:
    """The values of both families by the values of their labels."""
    query = "&".join(f"name[]={name}" for name in WANTED)
    found: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in WANTED}
    for family in text_string_to_metric_families(app.get(f"/-/metrics?{query}").body.decode()):
        for sample in family.samples:
            found[sample.name][tuple(sample.labels.values())] = sample.value
    return found


def test_a_fault_comes_and_goes() -> None:
    """It has a series while it affects devices, not while it waits; the journal counts its changes."""
    with application(SMALL) as app:
        app.fleet.apply(InjectFault(FaultSpec("fan", ("a/*",), start_seconds=5, duration_seconds=5)))
        app.tick()
        before = shown(app)
        assert before["fakedev_fault_devices"] == {}
        assert before["fakedev_journal_entries_total"]["fault",] == 1
        assert before["fakedev_journal_entries_total"]["over",] == 0
        app.tick(6)
        during = shown(app)
        (labels, count), = during["fakedev_fault_devices"].items()
        assert labels == ("a/*", "f2", "fan"), "devices, fault, kind"
        assert count == 2
        assert during["fakedev_journal_entries_total"]["began",] == 1
        app.tick(6)
        after = shown(app)
        assert after["fakedev_fault_devices"] == {}
        assert after["fakedev_journal_entries_total"]["over",] == 1


def test_ends_of_workloads() -> None:
    """They are counted before they are worded."""
    with application(SMALL) as app:
        app.connect().say("run x devices=a/0 profile=50:0:2")
        app.tick(4)
        entries = shown(app)["fakedev_journal_entries_total"]
    assert (entries["start",], entries["ended",]) == (1, 1)


def test_many_faults() -> None:
    """The oldest hundred have a series; all are counted."""
    with application(SMALL) as app:
        for _ in range(105):
            app.fleet.apply(InjectFault(FaultSpec("fan", ("a/0",))))
        app.tick()
        found = shown(app)
    assert len(found["fakedev_fault_devices"]) == 100
    assert found["fakedev_journal_entries_total"]["began",] == 105
