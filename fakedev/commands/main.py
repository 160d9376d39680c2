"""The ``fakedev`` command and its table of subcommands."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from fakedev import __version__
from fakedev.app.early_signals import EarlySignals


def serve(arguments: Sequence[str]) -> int:
    """Serve until a signal.

    :returns: 0 after a clean end.
    """
    from fakedev.app.options import Options  # noqa: PLC0415 - the other subcommands do not need Twisted
    from fakedev.app.service import run_program  # noqa: PLC0415

    options = Options()
    options.synopsis = "Usage: fakedev serve [options]"
    options.parseOptions(list(arguments))
    run_program(options.configuration, options.run)
    return 0


#: Module and function of each subcommand, which is only imported when it runs, and its line of help.
SUBCOMMANDS: Final = {
    "serve": ("fakedev.commands.main:serve", "start the simulator; the same as twistd -n fakedev, without a pid file"),
    "render": ("fakedev.commands.render:render", "print pages of a simulated span of time, without any socket"),
    "conform": ("fakedev.commands.conform:conform", "compare a page with a captured scrape of the real exporter"),
    "diff": ("fakedev.commands.diff:diff", "list the differences between two identities"),
    "sd": ("fakedev.commands.sd:discover", "print the nodes as targets, for Prometheus' file_sd_configs"),
    "scale-test": (
        "fakedev.commands.scale_test:scale_test", "double the backends of a queue, and measure the throughput",
    ),
}  # fmt: skip

#: With these options ``serve`` has a result, and a signal must not look like success.
_ONLY_CHECKS: Final = {"--check", "--print-config"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    :returns: the exit code: 0 success, 1 run-time failure, 2 usage or configuration, 3 a requirement that is not met.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None and given[:1] == ["serve"] and not _ONLY_CHECKS & set(given):
        EarlySignals((signal.SIGTERM, signal.SIGINT)).install()
    if given[:1] == ["--version"]:
        print(f"fakedev {__version__}")
        return 0
    if given[:1] in ([], ["--help"], ["-h"], ["help"]):
        print("usage: fakedev SUBCOMMAND [OPTIONS]\n\nsubcommands (each has --help):")
        for name, (_, text) in SUBCOMMANDS.items():
            print(f"  {name:10} {text}")
        return 0 if given else 2
    if given[0] not in SUBCOMMANDS:
        print(f"fakedev: no subcommand {given[0]!r}; there are: {', '.join(SUBCOMMANDS)}", file=sys.stderr)
        return 2
    from fakedev.config.schema.nodes import ConfigurationError  # noqa: PLC0415 - after the handlers of signals

    module, _, function = SUBCOMMANDS[given[0]][0].partition(":")
    run: Callable[[Sequence[str]], int] = getattr(import_module(module), function)
    try:
        return run(given[1:])
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
