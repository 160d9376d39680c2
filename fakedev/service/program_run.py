"""The options of one run of the program, besides its configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fakedev.config.configuration import Configuration
from fakedev.fleet.spec.limits import RecordHead

if TYPE_CHECKING:
    from fakedev.scenario.settings import LoadedScenario

#: Reads the configuration again from where it was read at the start; blocks; raises ConfigurationError.
ReadAgain = Callable[[], tuple[Configuration, RecordHead]]


@dataclass(frozen=True)
class Run:
    """The options of one run of the program, besides its configuration.

    :param record: the file for the events; empty for none.
    :param read_again: None: there is no file to read again.
    :param option_of: the options that give addresses; see Remedies.
    :param program: its name, of one that has options and no file.
    :param scenario: played from the start on; None for none.
    :param owns_process: False: the process belongs to somebody else, e.g. a test; its signals, its limits and its
        garbage collector stay as they are, and systemd is not notified.
    """

    head: RecordHead
    record: str = ""
    ready_file: str = ""
    read_again: ReadAgain | None = None
    option_of: Mapping[str, str] = field(default_factory=dict)
    program: str = ""
    scenario: LoadedScenario | None = None
    owns_process: bool = True
