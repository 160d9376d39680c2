"""How near the parameters of a learnt cluster are to the ones of the cluster whose pages it was learnt from.

``PYTHONPATH=. python benchmarks/closed_loop.py benchmarks/known_cluster.yaml [DAYS]``: simulates the cluster for some
days (7) with a value a minute, learns it from its pages, and prints the parameters of both, and what the learnt one
shows. The jobs of a week are a draw: 300 of a kind have a median that is known to some 5 %; so the table also has what
was drawn, and errors are compared with it where it is known.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fakedev.base.console import table
from fakedev.clone.cloning import Wanted
from fakedev.clone.scraped import SourcePage
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.samples import Labels, read_page
from fakedev.exporters.sources import DeviceSource, by_identity
from fakedev.fleet.cluster.jobs import Arrivals
from fakedev.fleet.cluster.scheduler import Nodes
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.cluster_spec import THURSDAY, ClusterSpec, JobKind
from fakedev.learn.learnt import Learnt, learn
from fakedev.learn.tracks import Seen
from fakedev.learn.usage_fit import DAY, Window
from fakedev.schema.files import Files

STEP = 60
READ = (
    "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_TEMP",
)  # fmt: skip
WANTED = Wanted(Path("/made/fleet.yaml"), Path("/made/fleet-identity.yaml"), "", "")


class History:
    """The series of a fleet's pages, minute by minute, the last page, and the fleet after that time."""

    def __init__(self, configuration: Configuration, minutes: int) -> None:
        self.fleet = fleet = Fleet(configuration.fleet)
        ((identity, nodes),) = by_identity(fleet.roster.shown, configuration.identities)
        source = DeviceSource.of(fleet, identity)
        # Most of the page is read by nobody.
        read = replace(identity, families=tuple(family for family in identity.families if family.name in READ))
        page = Page(LabelCache(read, source), nodes)
        self._points: dict[tuple[str, Labels], list[tuple[float, float]]] = {}
        self.begin = configuration.fleet.epoch_seconds + STEP
        self.end = configuration.fleet.epoch_seconds + STEP * minutes
        for minute in range(minutes):
            for _ in range(round(STEP / configuration.fleet.tick_seconds)):
                fleet.advance()
            for name, family in read_page(page.render(fleet.shown)).families.items():
                for sample in family.samples:
                    points = self._points.setdefault((name, sample.labels), [])
                    points.append((self.begin + STEP * minute, float(sample.number)))
        self.page = SourcePage("page", read_page(Page(LabelCache(identity, source), nodes).render(fleet.shown)))

    def learnt(self) -> Learnt:
        """What `fakedev learn` makes of them."""

        def series(names: Sequence[str], _every: int) -> Iterable[Seen]:
            for (name, labels), points in self._points.items():
                if name in names:
                    yield Seen(name, labels, *np.array(points).T)

        window = Window(self.begin, self.end, STEP)
        return learn([self.page], series, lambda name: (), window, WANTED, lambda share: None)


def drawn(
    configuration: Configuration, fleet: Fleet, minutes: int
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The parameters of the jobs that came in these minutes: of the cluster, and of its kinds by name."""
    spec, nodes = configuration.fleet, Nodes(fleet.roster)
    assert spec.cluster is not None
    arrivals = Arrivals(spec.seed, spec.cluster, nodes.boards, nodes.largest)
    jobs = [job for slot in range(minutes) for job in arrivals.in_slot(slot, spec.epoch_seconds)]
    came = spec.epoch_seconds + np.array([job.arrived_seconds for job in jobs])
    wave = 2.0 * np.exp(2j * math.pi * came / DAY).mean()
    every = spec.epoch_seconds + 60.0 * np.arange(minutes)
    jobs_of_weekends, weekends = (float(((each // DAY + THURSDAY) % 7 >= 5).mean()) for each in (came, every))
    asked = sum(job.size * job.left_seconds for job in jobs)
    whole = {
        "load": asked / (nodes.boards * 60.0 * minutes), "day": abs(wave),
        "busiest hour": float(np.angle(wave)) % (2.0 * math.pi) * 12.0 / math.pi,
        "weekend": jobs_of_weekends / (1.0 - jobs_of_weekends) * (1.0 - weekends) / weekends,
    }  # fmt: skip
    kinds = {}
    for name in {job.kind for job in jobs}:
        logs = np.log([job.left_seconds for job in jobs if job.kind == name])
        kinds[name] = {
            "median length, s": math.exp(float(np.median(logs))), "spread": math.exp(float(logs.std())),
            "boards": float(np.mean([job.size for job in jobs if job.kind == name])),
        }  # fmt: skip
    return whole, kinds


def of_cluster(spec: ClusterSpec) -> dict[str, float]:
    """The parameters of a cluster."""
    return {
        "load": spec.load, "day": spec.day, "busiest hour": spec.busiest, "weekend": spec.weekend,
        "failure hours": spec.failure_hours,
    }  # fmt: skip


def of_kind(kind: JobKind) -> dict[str, float]:
    """The parameters of a kind of jobs; of the sizes and the memory the means."""
    weights = sum(weight for _, weight in kind.sizes)
    usage = kind.workload.activities
    seconds = sum(activity.seconds for activity in usage)
    means = [activity.value for activity in usage if isinstance(activity.value, float)]
    shares = [activity.seconds / seconds if math.isfinite(seconds) else 1.0 for activity in usage]
    return {
        "median length, s": kind.lasts_seconds,
        "spread": kind.spread,
        "boards": sum(size * weight for size, weight in kind.sizes) / weights,
        "memory, %": 100 * sum((one + other) / 2 for one, other in zip(kind.memory, kind.memory[1:], strict=False))
        / (len(kind.memory) - 1),
        "usage, %": sum(mean * share for mean, share in zip(means, shares, strict=True)),
    }


def main(path: str, days: float) -> None:
    """Print the table."""
    configuration = load(path, Files(environ={}), [f"fleet.tick={STEP}s", "fleet.seed=1"])
    minutes = round(24 * 60 * days)
    history = History(configuration, minutes)
    learnt = history.learnt()
    made = {str(name): text for name, text in {WANTED.path: learnt.text, **learnt.identities}.items()}
    truth, found = configuration.fleet.cluster, load(str(WANTED.path), Files(environ={}, made=made)).fleet.cluster
    assert truth is not None
    assert found is not None
    came, of_kinds = drawn(configuration, history.fleet, minutes)
    rows = [("", of_cluster(truth), came, of_cluster(found))]
    kinds = {kind.workload.name: kind for kind in found.jobs}
    for kind in truth.jobs:
        own = kind.workload.name
        name = f"{kind.workload.namespace}-{own}"
        rows.append((own, of_kind(kind), of_kinds.get(own, {}), of_kind(kinds[name]) if name in kinds else {}))
    print(table([
        {"": name, "parameter": what, "truth": f"{value:.4g}", "drawn": f"{came[what]:.4g}" if what in came else "",
         "learnt": f"{other[what]:.4g}" if other else "-",
         "error": f"{100 * (other[what] / came.get(what, value) - 1):+.0f} %" if other and value else ""}
        for name, own, came, other in rows for what, value in own.items()
    ]))  # fmt: skip
    print("\n".join(f"{row.what}: distance {row.distance:.3f}" for row in learnt.rows))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 7.0)
