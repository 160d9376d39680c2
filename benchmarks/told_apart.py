"""Whether a classifier tells a learnt fleet, or a clone, from the fleet that it was made from; needs scikit-learn.

``PYTHONPATH=. python benchmarks/told_apart.py FLEET.yaml [HOURS]``: simulates the fleet, learns it from its own pages
(`fakedev learn`), clones its last page (`fakedev clone`), and simulates both. A random forest is trained with windows
of ten minutes of half of the boards of each, and is tried on the other half: on boards that it has never seen. A coin
would be right in half of the cases.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-not-found]

from fakedev.clone.cloning import Cloning, Wanted
from fakedev.clone.scraped import SourcePage, grouped
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.samples import read_page
from fakedev.exporters.sources import DeviceSource, by_identity
from fakedev.fleet.fleet import Fleet
from fakedev.learn.learnt import learn
from fakedev.learn.tracks import Seen
from fakedev.learn.usage_fit import Window
from fakedev.schema.files import Files

STEP = 60
WINDOW = 10
QUANTITIES = ("usage_ratio", "power_watts", "memory_used_bytes", "temperature_celsius", "core_frequency_mhz")
READ = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_XID_ERRORS")
Values = NDArray[np.float64]


class Watched:
    """A fleet, simulated minute by minute.

    :ivar values: shape (minutes, boards, quantities), rounded as exporters do.
    :ivar series: of its pages, where they are kept.
    :ivar page: the last one.
    """

    def __init__(self, configuration: Configuration, minutes: int, *, are_pages_kept: bool) -> None:
        fleet = Fleet(configuration.fleet)
        ((identity, nodes),) = by_identity(fleet.roster.shown, configuration.identities)
        page = Page(LabelCache(identity, DeviceSource.of(fleet, identity)), nodes)
        self.series: list[Seen] = []
        values = []
        for minute in range(minutes):
            for _ in range(round(STEP / configuration.fleet.tick_seconds)):
                fleet.advance()
            shown = [np.round(getattr(fleet, name), 2 if name == "usage_ratio" else 0) for name in QUANTITIES]
            values.append(np.stack(shown, axis=1))
            if are_pages_kept:
                time = np.array([configuration.fleet.epoch_seconds + STEP * (minute + 1.0)])
                families = read_page(page.render(fleet.shown)).families
                self.series += [
                    Seen(name, sample.labels, time, np.array([float(sample.number)]))
                    for name in READ if name in families for sample in families[name].samples
                ]  # fmt: skip
        self.values: Values = np.array(values)
        self.page = SourcePage("page", read_page(page.render(fleet.shown)))

    def windows(self) -> tuple[Values, NDArray[np.int64]]:
        """What a classifier sees of windows, and their boards."""
        minutes = len(self.values) // WINDOW * WINDOW
        parts = self.values[:minutes].reshape(-1, WINDOW, *self.values.shape[1:])
        steps = np.abs(np.diff(parts, axis=1))
        summary = np.concatenate(
            [parts.mean(1), parts.std(1), parts.min(1), parts.max(1), steps.mean(1), steps.max(1)], axis=2
        )
        boards = np.tile(np.arange(summary.shape[1]), summary.shape[0])
        return summary.reshape(-1, summary.shape[2]), boards


def told_apart(one: Watched, other: Watched) -> float:
    """The share of windows of strange boards of which a forest says rightly whose they are."""
    (first, boards), (second, others) = one.windows(), other.windows()
    seen = np.concatenate([boards, others]) % 2 == 0
    features, whose = np.concatenate([first, second]), np.repeat([0, 1], [len(first), len(second)])
    forest = RandomForestClassifier(200, min_samples_leaf=3, class_weight="balanced", random_state=1)
    forest.fit(features[seen], whose[seen])
    right = forest.predict(features[~seen]) == whose[~seen]
    return float(np.mean([right[whose[~seen] == each].mean() for each in (0, 1)]))


def main(path: str, hours: float) -> None:
    """Print the table."""
    minutes = round(60 * hours)
    tick = [f"fleet.tick={STEP}s"]
    original = Watched(load(path, Files(environ={}), tick), minutes, are_pages_kept=True)
    start = original.series[0].seconds[0]
    wanted = Wanted(Path("/made/fleet.yaml"), Path("/made/fleet-identity.yaml"), "", "")

    def series(names: Sequence[str], _every: int) -> Iterable[Seen]:
        return (each for each in original.series if each.name in names)

    window = Window(float(start), float(start + STEP * (minutes - 1)), STEP)
    learnt = learn([original.page], series, lambda name: (), window, wanted, lambda share: None)
    cloned = Cloning(wanted, lambda share: None).run(grouped([original.page]))
    for title, text, identities in (
        ("fakedev learn", learnt.text, learnt.identities), ("fakedev clone", cloned.text, cloned.identities)
    ):
        made = {str(name): content for name, content in {wanted.path: text, **identities}.items()}
        again = load(str(wanted.path), Files(environ={}, made=made), [*tick, f"fleet.epoch={round(start) - STEP}"])
        print(f"{title}: {100 * told_apart(original, Watched(again, minutes, are_pages_kept=False)):.1f} %")
    seed = load(path, Files(environ={}), [*tick, "fleet.seed=12345"])
    other = Watched(seed, minutes, are_pages_kept=False)
    print(f"the same fleet with another seed: {100 * told_apart(original, other):.1f} %")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 24.0)
