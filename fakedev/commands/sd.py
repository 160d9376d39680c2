"""``fakedev sd``: prints the nodes of a configuration as targets, for Prometheus' file_sd_configs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fakedev.app.configuration_options import add_configuration_options
from fakedev.commands.console import restored_after_interrupt, tell_notes
from fakedev.commands.parser import Parser
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.exposition.discovery import targets_of
from fakedev.nvml.files import replace_file
from fakedev.sim.entities.roster import Roster
from fakedev.spec.errors import did_you_mean
from fakedev.spec.os_errors import CannotWrite

_SHOWN_POOLS: Final = 10


def discover(arguments: Sequence[str]) -> int:
    """Print the targets, or write them to a file.

    :returns: 0; 1 when the file cannot be written; 2 when options cannot be used.
    :raises ConfigurationError: when the configuration cannot be used.
    """
    options = _parser().parse_args(list(arguments))
    configuration = load(options.config, Files(environ=os.environ), options.set)
    tell_notes(configuration.notes)
    fleet = configuration.fleet
    if options.pool is not None and options.pool not in {pool.name for pool in fleet.pools}:
        names = [pool.name for pool in fleet.pools]
        hint = did_you_mean(options.pool, names, f"; there is {', '.join(names[:_SHOWN_POOLS])}")
        print(f"fakedev sd: no pool {options.pool!r}{hint}", file=sys.stderr)
        return 2
    targets = targets_of(Roster(fleet.pools), options.pool or "", fleet.shard, options.target)
    text = json.dumps(list(targets), indent=1) + "\n"
    if options.output is None:
        sys.stdout.write(text)
        return 0
    try:
        with restored_after_interrupt():
            # Prometheus watches the file, and must not read a part of it. It may run as another user.
            replace_file(Path(options.output), text.encode("utf-8"), 0o644)
    except CannotWrite as reason:
        print(f"fakedev sd: {reason}", file=sys.stderr)
        return 1
    return 0


def target_of_option(text: str) -> str:
    """A target as Prometheus takes it.

    :raises argparse.ArgumentTypeError: for one for which Prometheus would refuse the whole file.
    """
    if not text or "/" in text or not text.isprintable() or " " in text:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is no HOST:PORT: without http:// and without a path")
    _, colon, port = text.rpartition(":")
    if colon and not text.endswith("]") and not (port.isdecimal() and 1 <= int(port) <= 65535):
        raise argparse.ArgumentTypeError(f"{text[:60]!r}: {port[:20]!r} is no port: from 1 to 65535")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = Parser("fakedev sd", description=__doc__)
    add_configuration_options(parser, "without one the demo")
    parser.add_argument("--pool", metavar="NAME", help="only the nodes of this pool")
    parser.add_argument(
        "--target", default="127.0.0.1:9400", type=target_of_option, metavar="HOST:PORT",
        help="the address of fakedev, default 127.0.0.1:9400",
    )  # fmt: skip
    parser.add_argument("--output", "-o", metavar="FILE", help="write to this file, in one step, instead of printing")
    return parser
