"""The options ``--config``, ``--set`` and ``--shard``, declared once for all programs that read a configuration.

``fakedev serve`` and twistd parse them with Twisted's usage.Options, the other subcommands with argparse.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fakedev.config.overrides import SHARD_HELP, shard_override

CONFIG_HELP: Final = "configuration file"


@dataclass(frozen=True)
class Assignment:
    """An option that sets values of the configuration, and may be repeated.

    :param parse: the assignments, KEY=VALUE, that an argument stands for; raises ValueError.
    """

    name: str
    kind: str
    help: str
    parse: Callable[[str], str]


ASSIGNMENTS: Final = (
    Assignment("set", "KEY=VALUE", "a value of the configuration, as fleet.seed=7; may be repeated", str),
    Assignment("shard", "I/N", SHARD_HELP, shard_override),
)


def add_configuration_options(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """Add the options to a parser; all assignments are in ``set``.

    :param otherwise: what is read when no file is named, for the help.
    """
    parser.add_argument("--config", "-c", metavar="FILE", help=f"{CONFIG_HELP}; {otherwise}")
    for option in ASSIGNMENTS:
        parser.add_argument(
            f"--{option.name}", action="append", dest="set", default=[], type=_argument_type(option),
            metavar=option.kind, help=option.help,
        )  # fmt: skip


def _argument_type(option: Assignment) -> Callable[[str], str]:
    def parse(text: str) -> str:
        try:
            return option.parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse
