"""The options of subcommands that read a configuration."""

from __future__ import annotations

import argparse

from fakedev.config.overrides import SHARD_HELP, shard_override


def add_configuration_options(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """Add ``--config``, ``--set`` and ``--shard``.

    :param otherwise: what is read when no file is named.
    """
    parser.add_argument("--config", "-c", metavar="FILE", help=f"configuration; {otherwise}")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a value of the configuration")
    parser.add_argument("--shard", action="append", dest="set", type=_shard, metavar="I/N", help=SHARD_HELP)


def _shard(text: str) -> str:
    try:
        return shard_override(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
