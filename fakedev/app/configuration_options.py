"""The options of all programs that read a configuration, declared once.

twistd parses them with Twisted's usage.Options, our own programs with argparse.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fakedev.config.overrides import (
    SHARD_HELP,
    context_override,
    kubeconfig_override,
    port_override,
    shard_override,
    topology_override,
    web_config_override,
)


@dataclass(frozen=True)
class Option:
    """An option.

    :param kind: the placeholder of its value in the help; empty for an option without a value.
    :param assigns: the option may be repeated, and each argument stands for what this returns: an assignment to a
        value of the configuration, KEY=VALUE. It raises ValueError for an argument that cannot be used.
    """

    name: str
    kind: str
    help: str
    short: str = ""
    assigns: Callable[[str], str] | None = None


_CONFIG: Final = Option("config", "FILE", "configuration file", "c")
_SET: Final = Option("set", "KEY=VALUE", "a value of the configuration, as fleet.seed=7; may be repeated", assigns=str)
_SHARD: Final = Option("shard", "I/N", SHARD_HELP, assigns=shard_override)

#: The options of ``fakedev serve`` and ``twistd fakedev``.
SERVE: Final = (
    Option("config", "FILE", f"{_CONFIG.help}; without one the built-in demo starts", _CONFIG.short),
    _SET,
    Option("port", "N", "the port of the first HTTP address, whose host stays", assigns=port_override),
    _SHARD,
    Option(
        "topology",
        "FILE",
        "nodes and GPUs of a topology of fake-gpu-operator, in place of the configuration's pools and workloads",
        assigns=topology_override,
    ),
    Option("kubeconfig", "FILE", "the cluster that gives the nodes, outside of a pod", assigns=kubeconfig_override),
    Option("context", "NAME", "the context of the kubeconfig", assigns=context_override),
    Option(
        "web-config-file", "FILE", "TLS, passwords and headers of all HTTP addresses, as exporters of Prometheus take "
        "them", assigns=web_config_override,
    ),
    Option("scenario", "FILE", "play this scenario; its configuration is used, unless --config is given"),
    Option("record", "FILE", "write seed, configuration and events to this file, to be run again"),
    Option("ready-file", "FILE", "write the real addresses to this file, as JSON, when all is ready"),
    Option("check", "", "only check the configuration: exit 0 or 2"),
    Option("print-config", "", "only print the effective configuration, with where each value comes from"),
)


def add_configuration_options(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """Add ``--config``, ``--set`` and ``--shard`` to a parser; all assignments are in ``set``.

    :param otherwise: what is read when no file is named, for the help.
    """
    add_options(parser, (Option(_CONFIG.name, _CONFIG.kind, f"{_CONFIG.help}; {otherwise}", "c"), _SET, _SHARD))


def add_options(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    """Add options to a parser; all assignments are in ``set``."""
    for option in options:
        names = [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]
        kind: dict[str, Any] = {"metavar": option.kind}
        if option.assigns is not None:
            kind |= {"action": "append", "dest": "set", "default": [], "type": argument_type(option.assigns)}
        elif not option.kind:
            kind = {"action": "store_true"}
        parser.add_argument(*names, help=option.help, **kind)


def argument_type(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A ``type`` of argparse that shows the text of a ValueError, which argparse itself does not."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed
