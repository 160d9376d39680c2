"""How well a classifier distinguishes a learnt fleet, or a clone, from its original; needs the extra ``classifier``.

``PYTHONPATH=. python benchmarks/told_apart.py FLEET.yaml [DAYS [TICK]]``: simulates the fleet for a week, with ticks of
some seconds (10) and a value a minute, learns it from its own pages (`fakedev learn`), and clones its last page
(`fakedev clone`). Then all three go on for some days (8). A random forest is trained with windows of ten minutes of the
first half of these days, and of half of the boards; it is tested on the other boards in the other half: a forest that
has seen them would recognize boards by their idle power, and days by their few large jobs.
The control compares the fleet with itself in as many days after these, on the same boards: what it has over 50 %, which
a coin would have, is how much some days of this fleet differ from others.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from closed_loop import STEP, WANTED, History
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-not-found]

from fakedev.clone.cloning import Cloning
from fakedev.clone.scraped import grouped
from fakedev.config.load import load
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files

WINDOW = 10
DAY_MINUTES = 24 * 60
LEARNT_DAYS = 7
QUANTITIES = ("usage_ratio", "power_watts", "memory_used_bytes", "temperature_celsius", "core_frequency_mhz")
#: The mean usage of a window in which a board works: idle ones are alike.
AT_WORK = 0.05
SUMMARY = ("mean", "deviation", "least", "most", "mean step", "largest step")
Values = NDArray[np.float32]


def shown(fleet: Fleet, days: float, tick: float) -> Values:
    """What the boards of a fleet show from now on, rounded as exporters do: shape (minutes, boards, quantities)."""
    values = []
    for _ in range(round(days * DAY_MINUTES)):
        for _ in range(round(STEP / tick)):
            fleet.advance()
        own = [np.round(getattr(fleet, name), 2 if name == "usage_ratio" else 0) for name in QUANTITIES]
        values.append(np.stack(own, axis=1))
    return np.array(values, dtype=np.float32)


def windows(values: Values, odd: int, least_usage: float) -> Values:
    """What a classifier sees of the windows of every second board: a row for each with at least this mean usage."""
    minutes = len(values) // WINDOW * WINDOW
    parts = values[:minutes, odd::2].reshape(-1, WINDOW, len(values[0, odd::2]), len(QUANTITIES))
    steps = np.abs(np.diff(parts, axis=1))
    every = [parts.mean(1), parts.std(1), parts.min(1), parts.max(1), steps.mean(1), steps.max(1)]
    rows = np.concatenate(every, axis=2).reshape(-1, len(every) * len(QUANTITIES))
    return rows[rows[:, QUANTITIES.index("usage_ratio")] >= least_usage]


def told_apart(one: Values, other: Values, least_usage: float = 0.0) -> tuple[float, str]:
    """The share of windows of unseen boards and days that a forest assigns to their fleet, and its main features."""
    half = len(one) // 2
    known = windows(one[:half], 0, least_usage), windows(other[:half], 0, least_usage)
    strange = windows(one[half:], 1, least_usage), windows(other[half:], 1, least_usage)
    forest = RandomForestClassifier(100, min_samples_leaf=5, class_weight="balanced", random_state=1)
    forest.fit(np.concatenate(known), np.repeat([0, 1], [len(known[0]), len(known[1])]))
    right = [float((forest.predict(rows) == whose).mean()) for whose, rows in enumerate(strange)]
    names = [f"{summary} of {name.split('_')[0]}" for summary in SUMMARY for name in QUANTITIES]
    weights = sorted(zip(forest.feature_importances_, names, strict=True), reverse=True)[:4]
    return sum(right) / 2, ", ".join(f"{name} {100 * weight:.0f} %" for weight, name in weights)


def main(path: str, days: float, tick: float) -> None:
    """Print the table."""
    ticks = f"fleet.tick={tick:g}s"
    history = History(load(path, Files(environ={}), [ticks]), LEARNT_DAYS * DAY_MINUTES)
    original, later = shown(history.fleet, days, tick), shown(history.fleet, days, tick)
    learnt = history.learnt()
    cloned = Cloning(WANTED, lambda share: None).run(grouped([history.page]))

    def of_text(text: str, identities: Mapping[Path, str]) -> Values:
        made = {str(name): content for name, content in {WANTED.path: text, **identities}.items()}
        changes = [ticks, f"fleet.epoch={round(history.end)}", "fleet.seed=2"]
        return shown(Fleet(load(str(WANTED.path), Files(environ={}, made=made), changes).fleet), days, tick)

    for title, other in (
        ("fakedev learn", of_text(learnt.text, learnt.identities)),
        ("fakedev clone", of_text(cloned.text, cloned.identities)),
        ("the same fleet", later),
    ):
        share, by = told_apart(original, other)
        at_work, _ = told_apart(original, other, AT_WORK)
        print(f"{title}: {100 * share:.1f} % ({by}); where boards work {100 * at_work:.1f} %", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:3] or ["8"]), *map(float, sys.argv[3:4] or ["10"]))
