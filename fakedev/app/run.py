"""One run of the program: its options beside the configuration, the head of its record, and its fleet."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import time
from typing import TYPE_CHECKING

from fakedev import __version__
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.fleet import Fleet, discard_record
from fakedev.sim.journal import no_op
from fakedev.spec.record_head import RecordHead

if TYPE_CHECKING:
    from fakedev.config.scenarios import LoadedScenario
    from fakedev.net.fleet.journal import JournalFile
    from fakedev.net.fleet.record_continuation import HistoryKeeper
    from fakedev.net.fleet.recorder import Recorder

#: Reads the configuration again from where it was read at the start; blocks; raises ConfigurationError.
ReadAgain = Callable[[], tuple[Configuration, RecordHead]]


@dataclass(frozen=True)
class Run:
    """The options of one run of the program, besides its configuration.

    :param record: the file for the events; empty for none.
    :param read_again: None: there is no file to read again.
    :param option_of: the options that give addresses; see Remedies.
    :param scenario: played from the start on; None for none.
    :param owns_process: False: the process is that of somebody else, as of a test; its signals, its limits and its
        garbage collector stay as they are, and no manager of services is told.
    """

    head: RecordHead
    record: str = ""
    ready_file: str = ""
    read_again: ReadAgain | None = None
    option_of: Mapping[str, str] = field(default_factory=dict)
    scenario: LoadedScenario | None = None
    owns_process: bool = True


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
    return Fleet(spec, record, wall_per_tick, journal.write if journal else no_op)


def compiled_source(source: RecordHead) -> CompiledFleet:
    """The fleet of the configuration that a reload has read.

    :raises ConfigurationError: when it cannot be used here.
    """
    configuration = load(source.config, Files(source.files, source.environment), source.overrides, source.text)
    return CompiledFleet(replace(configuration.fleet, epoch_seconds=source.epoch_seconds))
