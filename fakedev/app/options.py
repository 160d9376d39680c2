"""What the service is told: options, and what is read for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import time
from typing import Any, ClassVar

from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError

from fakedev import __version__
from fakedev.app.reload import ReadAgain
from fakedev.config.configuration import Configuration
from fakedev.config.export import effective_text
from fakedev.config.load import load
from fakedev.config.overrides import shard_override
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import ConfigurationError
from fakedev.spec.record_head import RecordHead


class Options(UsageOptions):
    """What ``twistd fakedev`` and ``fakedev serve`` are told; loads the configuration."""

    optParameters: ClassVar[list[list[Any]]] = [
        ["config", "c", None, "configuration file; without one the built-in demo starts"],
        ["record", None, "", "write seed, configuration and events to this file, to be run again"],
        ["ready-file", None, "", "write the real addresses to this file, as JSON, when all is ready"],
    ]
    optFlags: ClassVar[list[list[Any]]] = [
        ["check", None, "only check the configuration: exit 0 or 2"],
        ["print-config", None, "only print the effective configuration, with where each value comes from"],
    ]

    configuration: Configuration
    run: Run

    def __init__(self) -> None:
        super().__init__()
        self["set"] = []

    def opt_set(self, assignment: str) -> None:
        """KEY=VALUE: a value of the configuration, as fleet.seed=7; may be repeated"""
        self["set"].append(assignment)

    def opt_shard(self, shard: str) -> None:
        """I/N: simulate one slice of the nodes, counted from 0; hostname/N: its number ends this host's name"""
        try:
            self["set"].append(shard_override(shard))
        except ValueError as error:
            raise UsageError(f"--shard: {error}") from None

    def opt_version(self) -> None:
        """print the version"""
        sys.stdout.write(f"fakedev {__version__}\n")
        raise SystemExit(0)

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse; a mistake is one line and exit code 2."""
        try:
            super().parseOptions(options)
        except UsageError as error:
            sys.stderr.write(f"fakedev: {error}; --help tells what there is\n")
            raise SystemExit(2) from None

    def parseArgs(self, *operands: str) -> None:
        """There are none."""
        if operands:
            raise UsageError(f"unexpected {operands[0]!r}")

    def postOptions(self) -> None:
        """Load the configuration; whatever is wrong with it is told at once, and ends the program with 2."""
        files = Files(environ=os.environ)
        try:
            self.configuration = load(self["config"], files, self["set"])
        except ConfigurationError as error:
            sys.stderr.write(f"{error}\n")
            raise SystemExit(2) from None
        if self["print-config"]:
            sys.stdout.write(effective_text(self.configuration))
            raise SystemExit(0)
        if self["check"]:
            for note in self.configuration.notes:
                sys.stderr.write(f"note: {note}\n")
            sys.stdout.write(f"{self['config'] or 'the built-in demo'}: good\n")
            raise SystemExit(0)
        head = record_head(self.configuration, files, config=self["config"], overrides=self["set"])
        # twistd changes the folder when it becomes a daemon.
        record, ready_file = (self[option] and os.path.abspath(self[option]) for option in ("record", "ready-file"))
        path = self["config"] and os.path.abspath(self["config"])
        self.run = Run(head, record, ready_file, read_again=partial(read_again, path, tuple(self["set"])))


def record_head(
    configuration: Configuration,
    files: Files,
    *,
    config: str | None = None,
    text: str | None = None,
    overrides: Sequence[str] = (),
) -> RecordHead:
    """What a record of a run of this configuration begins with; the run begins now, unless the file says when."""
    epoch = time() if configuration.epoch_is_start else configuration.fleet.epoch_seconds
    path = None if config is None else os.path.abspath(config)
    return RecordHead(__version__, epoch, path, text, dict(files.texts), dict(files.variables), list(overrides))


def read_again(path: str | None, overrides: Sequence[str]) -> tuple[Configuration, RecordHead]:
    """The configuration as it is now where it was read at the start, and what it was read from.

    :raises ConfigurationError: with every problem.
    """
    files = Files(environ=os.environ)
    configuration = load(path, files, overrides)
    return configuration, record_head(configuration, files, config=path, overrides=overrides)


@dataclass(frozen=True)
class Run:
    """What one run of the program is told beyond its configuration.

    :param record: where the events are written; empty for nowhere.
    :param drop_in: behave as the original ``fakedev-exporter``: its pages alone, its impatience with
        peers, and SIGHUP ends it.
    :param read_again: reads the configuration for a reload; None: there is nothing to read it from.
    """

    head: RecordHead
    record: str = ""
    ready_file: str = ""
    drop_in: bool = False
    read_again: ReadAgain | None = None
