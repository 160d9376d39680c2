"""Composition of scenarios in virtual time: files and options to a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from fakedev.config.start import record_head
from fakedev.fleet.events import Stamped
from fakedev.fleet.fleet import discard_record
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.spec.limits import RecordHead
from fakedev.scenario.run import Run, Setup
from fakedev.scenario.settings import LoadedScenario
from fakedev.scenario.timeline import Played


def begin_of(loaded: LoadedScenario, end_seconds: float) -> float:
    """When a history begins: at the epoch of the configuration, or so that it ends at a time, at a whole scrape.

    :param end_seconds: since 1970.
    :returns: seconds since 1970.
    """
    configuration = loaded.configurations[0].configuration
    if not configuration.epoch_is_start:
        return configuration.fleet.epoch_seconds
    every = loaded.scenario.scraping.interval_seconds
    return math.floor((end_seconds - loaded.scenario.span_seconds) / every) * every


def setups_of(loaded: LoadedScenario, epoch_seconds: float) -> list[Setup]:
    """The configurations of a scenario, all of one epoch, with the heads of their records."""
    setups = []
    for configuration, files, path, overrides in loaded.configurations:
        head = record_head(configuration, files, config=path, overrides=overrides)
        fleet = replace(configuration.fleet, epoch_seconds=epoch_seconds)
        setups.append(Setup(fleet, configuration.identities, replace(head, epoch_seconds=epoch_seconds)))
    return setups


def make_run(
    loaded: LoadedScenario,
    epoch_seconds: float,
    record: Callable[[Stamped], None] = discard_record,
    tell: Callable[[Sequence[JournalEntry]], None] = lambda entries: None,
    on_played: Callable[[Played], None] = lambda played: None,
) -> tuple[Run, RecordHead]:
    """The run of a scenario, and the head of its record; see Run for the parameters."""
    setups = setups_of(loaded, epoch_seconds)
    return Run(loaded.scenario, setups, record, tell, on_played), setups[0].source
