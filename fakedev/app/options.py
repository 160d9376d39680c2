"""The options of the service, and the configuration that they name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError

from fakedev import __version__
from fakedev.app.configuration_options import ASSIGNMENTS, CONFIG_HELP, Assignment
from fakedev.app.run import Run, read_again, record_head
from fakedev.config.configuration import Configuration
from fakedev.config.export import effective_text
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import ConfigurationError


def _opt_method(option: Assignment) -> Callable[[Options, str], None]:
    def opt(options: Options, text: str) -> None:
        try:
            options["set"].append(option.parse(text))
        except ValueError as error:
            raise UsageError(f"--{option.name}: {error}") from None

    opt.__doc__ = f"{option.kind}: {option.help}"
    return opt


class Options(UsageOptions):
    """The options of ``twistd fakedev`` and ``fakedev serve``; they load the configuration."""

    optParameters: ClassVar[list[list[Any]]] = [
        ["config", "c", None, f"{CONFIG_HELP}; without one the built-in demo starts"],
        ["record", None, "", "write seed, configuration and events to this file, to be run again"],
        ["ready-file", None, "", "write the real addresses to this file, as JSON, when all is ready"],
    ]
    optFlags: ClassVar[list[list[Any]]] = [
        ["check", None, "only check the configuration: exit 0 or 2"],
        ["print-config", None, "only print the effective configuration, with where each value comes from"],
    ]

    #: Twisted finds options by the names of these methods, and takes their help from the docstrings.
    opt_set, opt_shard = (_opt_method(option) for option in ASSIGNMENTS)

    configuration: Configuration
    run: Run
    synopsis: str

    def __init__(self) -> None:
        super().__init__()
        self["set"] = []

    def opt_version(self) -> None:
        """print the version"""
        sys.stdout.write(f"fakedev {__version__}\n")
        raise SystemExit(0)

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse; an error is one line and exit code 2."""
        try:
            super().parseOptions(options)
        except UsageError as error:
            sys.stderr.write(f"fakedev: {error}; --help lists the options\n")
            raise SystemExit(2) from None

    def parseArgs(self, *operands: str) -> None:
        """Refuse operands: there are none."""
        if operands:
            raise UsageError(f"unexpected {operands[0]!r}")

    def postOptions(self) -> None:
        """Load the configuration; its errors are all printed, and end the program with 2."""
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
        # twistd changes the working directory when it becomes a daemon.
        record, ready_file = (self[option] and os.path.abspath(self[option]) for option in ("record", "ready-file"))
        path = self["config"] and os.path.abspath(self["config"])
        self.run = Run(head, record, ready_file, read_again=partial(read_again, path, tuple(self["set"])))
