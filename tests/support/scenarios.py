"""Scenarios of tests: texts to files, and runs of them in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fakedev.scenario.run import Run
from fakedev.scenario.settings import LoadedScenario, load_scenario
from fakedev.scenario.start import make_run
from tests.support.application import BEGIN

#: One node of four boards.
FLEET = """
config:
  fleet:
    seed: 3
    pools: [{name: dgx, nodes: [dgx-0], device: h100, devices-per-node: 4}]
  workloads: {listen: [{listen: "127.0.0.1:9500", allow: [workloads, faults, clock]}]}
  web: ["127.0.0.1:9400"]
"""


def written(folder: Path, timeline: str, head: str = "{for: 10m, scrape: 15s, seed: 7}", fleet: str = FLEET) -> str:
    """The file of a scenario.

    :param timeline: the lines of its entries.
    """
    path = folder / "scenario.yaml"
    path.write_text(f"scenario: {head}\n{fleet}\ntimeline:\n{timeline}")
    return str(path)


def loaded(folder: Path, timeline: str, **others: str) -> LoadedScenario:
    """A scenario that was read; parameters as of :func:`written`."""
    return load_scenario(written(folder, timeline, **others), {})


def started(scenario: LoadedScenario, **others: Any) -> Run:
    """A run of a scenario that begins at BEGIN; parameters as of Run."""
    return make_run(scenario, BEGIN, **others)[0]


def finished(scenario: LoadedScenario, **others: Any) -> Run:
    """The same at its end."""
    run = started(scenario, **others)
    for _ in run.instants():
        pass
    return run
