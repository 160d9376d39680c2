"""``fakedev serve``: the service as a program of its own, ended by SIGTERM or SIGINT with 0."""

from __future__ import annotations

from collections.abc import Sequence

from fakedev.app.options import Options
from fakedev.app.service import run_program


def serve(arguments: Sequence[str]) -> int:
    """Serve until a signal comes.

    :returns: 0 after a clean end.
    """
    options = Options()
    options.synopsis = "Usage: fakedev serve [options]"
    options.parseOptions(list(arguments))
    run_program(options.configuration, options.run)
    return 0
