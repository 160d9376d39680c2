"""The ``fakedev`` command and its table of subcommands."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Final

from fakedev import __version__
from fakedev.commands.control.verbs import VERBS, relay, summary_of
from fakedev.commands.parser import Parser, unknown_subcommand
from fakedev.config.schema.nodes import ConfigurationError


def serve(arguments: Sequence[str]) -> int:
    """Serve until a signal.

    :returns: 0 after a clean end.
    """
    from fakedev.app.configuration_options import SERVE, add_options  # noqa: PLC0415 - as in SUBCOMMANDS

    parser = Parser("fakedev serve", description="Serves simulated devices until a signal.")
    add_options(parser, SERVE)
    given = vars(parser.parse_args(list(arguments)))
    from fakedev.app.options import order_of  # noqa: PLC0415 - a usage error does not need Twisted
    from fakedev.app.service import run_program  # noqa: PLC0415

    order = order_of({name.replace("_", "-"): value for name, value in given.items()})
    run_program(order.configuration, order.run)
    return 0


#: By group: module and function of each subcommand, which is only imported when it runs, and its line of help.
SUBCOMMANDS: Final = {
    "Simulate": {
        "serve": ("fakedev.commands.main:serve", "start the service; twistd -n fakedev does the same, with a pid file"),
        "render": ("fakedev.commands.render:render", "print pages of a simulated time span, without any socket"),
        "scenario": (
            "fakedev.commands.scenario.main:scenario", "run timelines: their history and truth, marks for alert rules",
        ),
        "replay": ("fakedev.commands.replay.command:replay", "replay a trace of a cluster"),
    },
    "Watch and control a running service": {
        "status": ("fakedev.commands.control.status:status", "print what it does"),
        "top": ("fakedev.commands.control.status:top", "show it live on the terminal"),
        **{command: ("", summary_of(command)) for command in VERBS},
    },
    "What there is": {
        "devices": ("fakedev.commands.catalogs:devices", "device types; --active: the devices of a running service"),
        "identities": ("fakedev.commands.catalogs:identities", "exporters that pages can imitate"),
        "faults": ("fakedev.commands.catalogs:faults", "kinds of faults; --for RULES: those that alert rules find"),
    },
    "Tools": {
        "prometheus": ("fakedev.commands.prometheus:prometheus", "print a configuration of Prometheus that scrapes it"),
        "schema": ("fakedev.commands.catalogs:schema", "print the JSON Schema of a configuration, for editors"),
        "conform": ("fakedev.commands.conform:conform", "compare a page with a captured scrape of the real exporter"),
        "clone": (
            "fakedev.commands.clone.command:clone", "write the configuration of a fleet like that of scraped pages",
        ),
        "diff": ("fakedev.commands.diff:diff", "list the differences between two identities"),
        "sd": ("fakedev.commands.sd:discover", "print the nodes as targets, for Prometheus' file_sd_configs"),
        "scale-test": (
            "fakedev.commands.scale_test:scale_test", "double the backends of a queue, and measure the throughput",
        ),
        "calibrate": (
            "fakedev.commands.calibrate:calibrate", "fit a device type to a recorded run of a real board",
        ),
        "nvml": ("fakedev.commands.nvml:nvml", "let nvitop, nvtop and others see boards: build and set up a library"),
        "completion": ("fakedev.commands.completion:completion", "print what makes bash, zsh or fish complete these"),
        "kube": ("fakedev.commands.kube:kube", "plan what a Kubernetes cluster would get, or clean it"),
    },
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    :returns: the exit code: 0 success, 1 run-time failure, 2 usage or configuration, 3 a requirement that is not met,
        130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--version"]:
        print(f"fakedev {__version__}")
        return 0
    if given[:1] in ([], ["--help"], ["-h"], ["help"]):
        print(_help())
        return 0 if given else 2
    every = {name: target for group in SUBCOMMANDS.values() for name, (target, _) in group.items()}
    name, *rest = given
    if name not in every:
        return unknown_subcommand("fakedev", name, every)
    try:
        return _function(name, every[name])(rest)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of the output has gone; what is still buffered has no reader either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _function(name: str, target: str) -> Callable[[Sequence[str]], int]:
    if not target:
        return partial(relay, name)
    module, _, function = target.partition(":")
    found: Callable[[Sequence[str]], int] = getattr(import_module(module), function)
    return found


def _help() -> str:
    lines = ["usage: fakedev SUBCOMMAND [OPTIONS]; each subcommand has --help, and fakedev has --version"]
    for title, group in SUBCOMMANDS.items():
        lines += ["", f"{title}:", *(f"  {name:10}  {text}" for name, (_, text) in group.items())]
    return "\n".join(lines)
