"""How well a classifier distinguishes a learnt fleet, or a clone, from its original; needs scikit-learn.

``PYTHONPATH=. python benchmarks/told_apart.py FLEET.yaml [HOURS [SEEDS]]``: simulates the fleet for two days, learns it
from its own pages (`fakedev learn`), and clones its last page (`fakedev clone`). All three are then simulated for some
hours (6) with some seeds (4), which are other ones for each. A random forest is trained with windows of ten minutes of
half of the seeds and half of the boards, and is tested on the other boards with the other seeds. Each board has its own
idle power, and each seed its own large jobs: a forest that has seen them would recognize boards or days, not fleets.
The control compares the fleet with itself under other seeds. It must be near 50 %, as a coin would be.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from closed_loop import STEP, WANTED, History
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-not-found]

from fakedev.clone.cloning import Cloning
from fakedev.clone.scraped import grouped
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files

WINDOW = 10
LEARNT_MINUTES = 2 * 24 * 60
QUANTITIES = ("usage_ratio", "power_watts", "memory_used_bytes", "temperature_celsius", "core_frequency_mhz")
SUMMARY = ("mean", "deviation", "least", "most", "mean step", "largest step")
Values = NDArray[np.float32]


def shown(configuration: Configuration, minutes: int) -> Values:
    """What the boards of a fleet show, rounded as exporters do: shape (minutes, boards, quantities)."""
    fleet = Fleet(configuration.fleet)
    values = []
    for _ in range(minutes):
        for _ in range(round(STEP / configuration.fleet.tick_seconds)):
            fleet.advance()
        own = [np.round(getattr(fleet, name), 2 if name == "usage_ratio" else 0) for name in QUANTITIES]
        values.append(np.stack(own, axis=1))
    return np.array(values, dtype=np.float32)


def windows(days: Sequence[Values], odd: int) -> Values:
    """What a classifier sees of the windows of every second board: a row for each."""
    rows = []
    for values in days:
        minutes = len(values) // WINDOW * WINDOW
        parts = values[:minutes, odd::2].reshape(-1, WINDOW, len(values[0, odd::2]), len(QUANTITIES))
        steps = np.abs(np.diff(parts, axis=1))
        every = [parts.mean(1), parts.std(1), parts.min(1), parts.max(1), steps.mean(1), steps.max(1)]
        rows.append(np.concatenate(every, axis=2).reshape(-1, len(every) * len(QUANTITIES)))
    return np.concatenate(rows)


def told_apart(one: Sequence[Values], other: Sequence[Values]) -> tuple[float, str]:
    """The share of windows of unseen boards and seeds that a forest assigns to their fleet, and its main features."""
    half = len(one) // 2
    known = windows(one[:half], 0), windows(other[:half], 0)
    strange = windows(one[half:], 1), windows(other[half:], 1)
    forest = RandomForestClassifier(100, min_samples_leaf=5, class_weight="balanced", random_state=1)
    forest.fit(np.concatenate(known), np.repeat([0, 1], [len(known[0]), len(known[1])]))
    right = [float((forest.predict(rows) == whose).mean()) for whose, rows in enumerate(strange)]
    names = [f"{summary} of {name.split('_')[0]}" for summary in SUMMARY for name in QUANTITIES]
    weights = sorted(zip(forest.feature_importances_, names, strict=True), reverse=True)[:4]
    return sum(right) / 2, ", ".join(f"{name} {100 * weight:.0f} %" for weight, name in weights)


def main(path: str, hours: float, seeds: int) -> None:
    """Print the table."""
    minutes = round(60 * hours)
    tick = f"fleet.tick={STEP}s"
    history = History(load(path, Files(environ={}), [tick]), LEARNT_MINUTES)
    epoch = f"fleet.epoch={round(history.begin) - STEP}"
    learnt = history.learnt()
    cloned = Cloning(WANTED, lambda share: None).run(grouped([history.page]))
    made = {
        title: {str(name): content for name, content in {WANTED.path: text, **identities}.items()}
        for title, text, identities in (
            ("fakedev learn", learnt.text, learnt.identities), ("fakedev clone", cloned.text, cloned.identities)
        )
    }  # fmt: skip

    def days(path: str, first: int, made: dict[str, str]) -> list[Values]:
        return [
            shown(load(path, Files(environ={}, made=made), [tick, epoch, f"fleet.seed={seed}"]), minutes)
            for seed in range(first, first + seeds)
        ]

    original = days(path, 100, {})
    others = {title: days(str(WANTED.path), 200, files) for title, files in made.items()}
    for title, other in {**others, "the same fleet": days(path, 300, {})}.items():
        share, by = told_apart(original, other)
        print(f"{title}: {100 * share:.1f} % ({by})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:3] or ["6"]), *map(int, sys.argv[3:4] or ["4"]))
