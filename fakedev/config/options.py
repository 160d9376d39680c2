"""The options of all programs that read a configuration, declared once.

twistd parses them with Twisted's usage.Options, our own programs with argparse.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from fakedev.config.overrides import SHARD_HELP, context_override, path_override, port_override, shard_override
from fakedev.schema.options import Option

_SET: Final = Option("set", "KEY=VALUE", "a configuration value, e.g. fleet.seed=7; may be repeated", assigns=str)
_SHARD: Final = Option("shard", "I/N", SHARD_HELP, assigns=shard_override)

#: The options of ``fakedev serve`` and ``twistd fakedev``.
SERVE: Final = (
    Option("config", "FILE", "configuration file; without one the built-in demo starts", short="c"),
    _SET,
    Option("port", "N", "the port of the first HTTP address; its host stays the same", assigns=port_override),
    _SHARD,
    Option(
        "topology", "FILE",
        "nodes and GPUs of a topology of fake-gpu-operator, in place of the configuration's pools and workloads",
        assigns=partial(path_override, "topology"),
    ),
    Option(
        "kubeconfig", "FILE", "the cluster that gives the nodes, outside of a pod",
        assigns=partial(path_override, "kubernetes.kubeconfig"),
    ),
    Option("context", "NAME", "the context of the kubeconfig", assigns=context_override),
    Option(
        "web-config-file", "FILE", "TLS, passwords and headers of all HTTP addresses, in the format of Prometheus' "
        "exporters", assigns=partial(path_override, "web-config"),
    ),
    Option("scenario", "FILE", "play this scenario; its configuration is used, unless --config is given"),
    Option("record", "FILE", "write seed, configuration and events to this file; render --events runs it again"),
    Option("ready-file", "FILE", "write the real addresses to this file, as JSON, when all is ready"),
    Option("check", "", "only check the configuration: exit 0 or 2"),
    Option("print-config", "", "only print the effective configuration, with where each value comes from"),
)  # fmt: skip


def configuration_options(otherwise: str) -> tuple[Option, ...]:
    """``--config``, ``--set`` and ``--shard``; all assignments are in ``set``.

    :param otherwise: what is read when no file is named, for the help.
    """
    return (Option("config", "FILE", f"configuration file; {otherwise}", short="c"), _SET, _SHARD)


def serve_options(*names: str) -> tuple[Option, ...]:
    """The options of SERVE with these names, in its order."""
    return tuple(option for option in SERVE if option.name in names)
