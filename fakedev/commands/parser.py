"""The parser of the subcommands' options; apart from the console, because drop-ins must start fast without argparse."""

from __future__ import annotations

import argparse
from typing import Any

from fakedev import __version__


class Parser(argparse.ArgumentParser):
    """The options of a subcommand: ``--help``, ``--version`` and no abbreviations, everywhere.

    :param program: as the user types it, ``fakedev sd``.
    :param is_formatted: whether the description keeps its lines.
    """

    def __init__(self, program: str, *, description: str | None, is_formatted: bool = False, **options: Any) -> None:
        if is_formatted:
            options["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(program, description=description, allow_abbrev=False, **options)
        self.add_argument("--version", action="version", version=f"fakedev {__version__}", help="print the version")

    def error(self, message: str) -> Any:
        """Print one line, and end with 2."""
        self.exit(2, f"{self.prog}: {message}; --help lists the options\n")
