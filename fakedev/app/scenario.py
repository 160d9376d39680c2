"""Composition of scenarios in virtual time: files and options to a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fakedev.app.run import Run as ProgramRun
from fakedev.app.run import record_head
from fakedev.config.scenarios import LoadedScenario
from fakedev.scenario.player import Played
from fakedev.scenario.run import Run, Setup
from fakedev.sim.events import Stamped
from fakedev.sim.fleet import Fleet, discard_record
from fakedev.sim.journal_entries import JournalEntry
from fakedev.spec.record_head import RecordHead

if TYPE_CHECKING:
    from fakedev.app.reload import Reloader
    from fakedev.net.scenario.live import LiveScenario


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


def live_scenario(
    run: ProgramRun, fleet: Fleet, reloader: Reloader, set_speed: Callable[[float], None]
) -> LiveScenario | None:
    """The scenario that a service plays; None without one."""
    if run.scenario is None:
        return None
    from fakedev.net.scenario.live import LiveScenario  # noqa: PLC0415 - virtual time needs no Twisted

    configurations = run.scenario.configurations

    def use(number: int) -> None:
        configuration, files, path, overrides = configurations[number]
        reloader.use(configuration, record_head(configuration, files, config=path, overrides=overrides))

    return LiveScenario(run.scenario.scenario, fleet, set_speed, use)


def make_run(
    loaded: LoadedScenario,
    epoch_seconds: float,
    record: Callable[[Stamped], None] = discard_record,
    tell: Callable[[Sequence[JournalEntry]], None] = lambda entries: None,
    on_played: Callable[[Played], None] = lambda played: None,
) -> tuple[Run, RecordHead]:
    """The run of a scenario, and the head of its record; the parameters are those of Run."""
    setups = setups_of(loaded, epoch_seconds)
    return Run(loaded.scenario, setups, record, tell, on_played), setups[0].source
