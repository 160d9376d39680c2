"""The options of subcommands that read a configuration."""

from __future__ import annotations

import argparse


def add_configuration_options(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """Add ``--config`` and ``--set``.

    :param otherwise: what is read when no file is named.
    """
    parser.add_argument("--config", "-c", metavar="FILE", help=f"configuration; {otherwise}")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a value of the configuration")
