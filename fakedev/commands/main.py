"""The ``fakedev`` command: its subcommands, ``serve`` here, the others each in a module of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

from fakedev import __version__


def serve(arguments: Sequence[str]) -> int:
    """Serve until a signal comes.

    :returns: 0 after a clean end.
    """
    from fakedev.app.options import Options  # noqa: PLC0415 - each subcommand loads what it needs
    from fakedev.app.service import run_program  # noqa: PLC0415

    options = Options()
    options.synopsis = "Usage: fakedev serve [options]"
    options.parseOptions(list(arguments))
    run_program(options.configuration, options.run)
    return 0


def _render(arguments: Sequence[str]) -> int:
    from fakedev.commands.render import render  # noqa: PLC0415 - each subcommand loads what it needs

    return render(arguments)


def _conform(arguments: Sequence[str]) -> int:
    from fakedev.commands.conform import conform  # noqa: PLC0415 - each subcommand loads what it needs

    return conform(arguments)


def _diff(arguments: Sequence[str]) -> int:
    from fakedev.commands.diff import diff  # noqa: PLC0415 - each subcommand loads what it needs

    return diff(arguments)


def _sd(arguments: Sequence[str]) -> int:
    from fakedev.commands.sd import discover  # noqa: PLC0415 - each subcommand loads what it needs

    return discover(arguments)


def _scale_test(arguments: Sequence[str]) -> int:
    from fakedev.commands.scale_test import scale_test  # noqa: PLC0415 - each subcommand loads what it needs

    return scale_test(arguments)


SUBCOMMANDS: Final[dict[str, tuple[Callable[[Sequence[str]], int], str]]] = {
    "serve": (serve, "start the simulator; the same as twistd -n fakedev, without a pid file"),
    "render": (_render, "print pages of a simulated span of time, without any socket"),
    "conform": (_conform, "tell how faithful a page is to a captured scrape"),
    "diff": (_diff, "list what differs between two identities"),
    "sd": (_sd, "print the nodes as targets, for Prometheus' file_sd_configs"),
    "scale-test": (_scale_test, "double the backends of a queue, and measure what that brings"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    :returns: the exit code: 0 good, 1 run-time failure, 2 usage or configuration, 3 a verdict that is not met.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
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
    return SUBCOMMANDS[given[0]][0](given[1:])
