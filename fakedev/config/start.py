"""One run of the program: its options in addition to the configuration, the head of its record, and its fleet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from time import time
from typing import TYPE_CHECKING

from fakedev import __version__
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.fleet import Fleet, discard_record
from fakedev.fleet.journal import no_op
from fakedev.fleet.spec.limits import RecordHead
from fakedev.schema.files import Files

if TYPE_CHECKING:
    from fakedev.fleet.journal_files import HistoryKeeper, JournalFile, Recorder

def record_head(
    configuration: Configuration,
    files: Files,
    *,
    config: str | None = None,
    text: str | None = None,
    overrides: Sequence[str] = (),
) -> RecordHead:
    """The head of a record of a run of this configuration; the run begins now, unless the file sets the time."""
    epoch = time() if configuration.epoch_is_start else configuration.fleet.epoch_seconds
    path = None if config is None else os.path.abspath(config)
    return RecordHead(__version__, epoch, path, text, dict(files.texts), dict(files.variables), list(overrides))


def read_again(
    path: str | None, overrides: Sequence[str], *, of_scenario: bool = False
) -> tuple[Configuration, RecordHead]:
    """See ReadAgain; called with the options of the start."""
    files = Files(environ=os.environ)
    configuration = load(path, files, overrides, of_scenario=of_scenario)
    return configuration, record_head(configuration, files, config=path, overrides=overrides)


def make_fleet(
    configuration: Configuration,
    head: RecordHead,
    recorder: Recorder | HistoryKeeper | None,
    journal: JournalFile | None = None,
) -> Fleet:
    """The fleet of a configuration, at the time of the record's head; it writes its record and its journal."""
    spec = replace(configuration.fleet, epoch_seconds=head.epoch_seconds)
    wall_per_tick = spec.tick_seconds / configuration.speed if configuration.speed else 0.0
    record = recorder.record if recorder else discard_record
    compiled = CompiledFleet.taken(spec, configuration.compiled)
    return Fleet(spec, record, wall_per_tick, journal.write if journal else no_op, compiled)


def compiled_source(source: RecordHead) -> CompiledFleet:
    """The fleet of the configuration that a reload has read.

    :raises ConfigurationError: when it cannot be used here.
    """
    configuration = load(source.config, Files(source.files, source.environment), source.overrides, source.text)
    return CompiledFleet(replace(configuration.fleet, epoch_seconds=source.epoch_seconds))
