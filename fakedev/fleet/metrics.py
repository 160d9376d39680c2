"""The metrics of fakedev itself about its fleet: the clock, workloads, faults, limits, and the folder of the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fakedev.fleet.fleet import Fleet
from fakedev.fleet.ticker import Ticker
from fakedev.web.metrics import Group, histograms, labelled

if TYPE_CHECKING:
    from fakedev.fleet.journal_files import JournalFile
    from fakedev.fleet.state_folder import StateFolder

#: Faults with a series of their own, and the characters of their device words: the page stays small in a large fleet.
_SHOWN_FAULTS: Final = 100
_LONGEST_WORDS: Final = 120


def fleet_groups(
    fleet: Fleet, ticker: Ticker, state: StateFolder | None, journal: JournalFile | None,
    problems: Callable[[], Mapping[str, str]],
) -> dict[str, Group]:  # fmt: skip
    """The groups of a fleet; the parameters are those of the groups."""
    groups: dict[str, Group] = {
        "ticks": partial(tick_metrics, ticker, fleet),
        "faults": partial(fault_metrics, fleet),
        "limits": partial(limit_metrics, fleet),
        "files": partial(file_metrics, problems, journal),
    }
    return groups if state is None else groups | {"state": partial(state_metrics, state)}


def tick_metrics(ticker: Ticker, fleet: Fleet) -> Iterable[Metric]:
    """The simulated clock."""
    yield GaugeMetricFamily("fakedev_tick", "The number of the tick that is shown.", fleet.state.tick)
    yield CounterMetricFamily("fakedev_ticks", "Ticks done since the start.", ticker.ticks)
    yield CounterMetricFamily(
        "fakedev_ticks_missed", "Ticks dropped because the clock was too far behind.", ticker.missed
    )
    yield CounterMetricFamily("fakedev_tick_failures", "Ticks that failed with an internal error.", ticker.failures)
    yield GaugeMetricFamily("fakedev_tick_lag_seconds", "How late the last tick began.", ticker.lag_seconds)
    yield histograms("fakedev_tick_duration_seconds", "How long ticks took.", "", {"": ticker.durations})


def workload_metrics(fleet: Fleet, connections: Callable[[], int]) -> Iterable[Metric]:
    """Workloads and their connections.

    :param connections: returns the number of connections of the workload ports.
    """
    starting = fleet.intake.starting_count
    states = {"running": len(fleet.workloads.by_id) - starting, "starting": starting}
    yield labelled(GaugeMetricFamily, "fakedev_workloads", "Workloads by state.", "state", states)
    if fleet.cluster is not None:
        waiting, boards = fleet.cluster.waiting()
        jobs = {"running": fleet.cluster.running_count, "waiting": waiting}
        text = "Jobs of the cluster, and replicas of its services, by state."
        yield labelled(GaugeMetricFamily, "fakedev_cluster_jobs", text, "state", jobs)
        yield GaugeMetricFamily("fakedev_cluster_waiting_boards", "Boards that waiting jobs request.", boards)
        text = "Jobs of the cluster that have ended, by how; failed ones may come back."
        yield labelled(CounterMetricFamily, "fakedev_cluster_ended_jobs", text, "how", dict(fleet.cluster.ends))
    yield GaugeMetricFamily("fakedev_workload_connections", "Connections on the workload ports.", connections())


def fault_metrics(fleet: Fleet) -> Iterable[Metric]:
    """Faults that wait or last, the oldest of those that affect devices now, and the entries of the journal."""
    faults = fleet.faults.by_id.values()
    kinds = dict(sorted(Counter(fault.spec.kind for fault in faults).items()))
    yield labelled(GaugeMetricFamily, "fakedev_faults", "Faults that wait or last, by kind.", "kind", kinds)
    text = f"Devices and parts that a fault affects now; the oldest {_SHOWN_FAULTS} faults that affect any."
    family = GaugeMetricFamily("fakedev_fault_devices", text, labels=["fault", "kind", "devices"])
    acting = (fault for fault in faults if fault.period >= 0 and len(fault.concerned))
    for fault in islice(acting, _SHOWN_FAULTS):
        words = fault.spec.name or ",".join(fault.spec.devices) or fault.spec.node
        family.add_metric([fault.fault_id, fault.spec.kind, words[:_LONGEST_WORDS]], len(fault.concerned))
    yield family
    text = "Entries of the journal, by kind: events, changes of faults and of devices, ends of workloads."
    yield labelled(CounterMetricFamily, "fakedev_journal_entries", text, "kind", fleet.journal.counts)


def limit_metrics(fleet: Fleet) -> Iterable[Metric]:
    """The limits of workloads and faults."""
    text = "What is used of each of the limits; of a peer's limit what the largest peer uses."
    limits = fleet.limits()
    used = {key: limit[0] for key, limit in limits.items()}
    yield labelled(GaugeMetricFamily, "fakedev_limit_used", text, "limit", used)
    allowed = {key: limit[1] for key, limit in limits.items()}
    yield labelled(
        GaugeMetricFamily, "fakedev_limit_allowed", "What each of the limits allows, as configured.", "limit", allowed
    )


def state_metrics(state: StateFolder) -> Iterable[Metric]:
    """The folder of the fleet's state."""
    counts = {"complete": state.snapshots[True], "failed": state.snapshots[False]}
    yield labelled(
        CounterMetricFamily, "fakedev_state_snapshots", "Snapshots of the fleet's state since the start.",
        "result", counts,
    )  # fmt: skip
    yield GaugeMetricFamily(
        "fakedev_state_snapshot_timestamp_seconds", "When the last snapshot of the state was begun.", state.saved_at
    )


def file_metrics(problems: Callable[[], Mapping[str, str]], journal: JournalFile | None) -> Iterable[Metric]:
    """The files that are written while the program runs.

    :param problems: returns why each has ended; empty texts for those that have not.
    """
    text = "1: the file cannot be written, and its lines wait or it has ended; /health and the log say why."
    failed = {name: int(bool(problem)) for name, problem in problems().items()}
    yield labelled(GaugeMetricFamily, "fakedev_file_failed", text, "file", failed)
    text = "Entries that wait to be written to the journal's file; an event is in the record at once."
    yield GaugeMetricFamily("fakedev_journal_waiting", text, journal.waiting_count if journal else 0)
