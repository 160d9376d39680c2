"""``fakedev scenario blocks HISTORY DATA``: makes blocks for Prometheus of OpenMetrics files, by promtool."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Final

from fakedev.app.promtool import BlockMaker, PromtoolError
from fakedev.commands.console import Progress, restored_after_interrupt
from fakedev.commands.parser import Parser
from fakedev.scenario.openmetrics import SUFFIX, window_seconds
from fakedev.spec.os_errors import plain_reason

_PROGRAM: Final = "fakedev scenario blocks"
_DAY_SECONDS: Final = 86_400
#: How long a Prometheus keeps samples unless it is told otherwise.
_USUAL_RETENTION_DAYS: Final = 15


def blocks(arguments: Sequence[str]) -> int:
    """Make the blocks.

    :returns: 0; 1 when promtool is missing or refuses a file, or something cannot be read or written; 2 for a DATA
        that is no folder, or a HISTORY without files; 130.
    """
    parser = Parser(_PROGRAM, description=__doc__)
    parser.add_argument("history", metavar="HISTORY", help=f"a folder with files of a history (*{SUFFIX}), or one file")
    parser.add_argument("data", metavar="DATA", help="the data folder of a Prometheus; it is created")
    options = parser.parse_args(list(arguments))
    history, data = Path(options.history), Path(options.data)
    try:
        problem = _problem(history, data)
        files = sorted(history.glob(f"*{SUFFIX}")) if history.is_dir() else [history]
        if problem or not files:
            print(f"{_PROGRAM}: {problem or f'{history}: has no files *{SUFFIX}'}", file=sys.stderr)
            return 2
        _make(files, data)
    except PromtoolError as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{_PROGRAM}: {error.filename or data}: {plain_reason(error)}", file=sys.stderr)
        return 1
    print(advice(data, [window_seconds(file.name) for file in files], time()))
    return 0


def _problem(history: Path, data: Path) -> str:
    if not history.exists():
        return f"{history}: no such file or folder: write one with fakedev scenario run FILE --openmetrics {history}"
    if data.exists() and not data.is_dir():
        return f"{data}: is a file: give a folder, which gets the blocks"
    return ""


def _make(files: Sequence[Path], data: Path) -> None:
    maker = BlockMaker(data)
    data.mkdir(parents=True, exist_ok=True)
    try:
        with Progress(_PROGRAM, sys.stderr) as progress, restored_after_interrupt():
            for file in files:
                maker.add(file)
                progress.show(maker.made / len(files))
            maker.finish()
    finally:
        maker.stop()


def advice(data: Path, begins: Sequence[float | None], now_seconds: float) -> str:
    """What to do with blocks.

    :param begins: when the windows begin, in seconds since 1970; None where that is not known.
    """
    lines = [
        f"{data} has the blocks. Start a Prometheus with --storage.tsdb.path={data}, or move them into the data folder",
        "of one that runs; it does not take the last three hours, which are still in its memory.",
    ]
    known = [each for each in begins if each is not None]
    days = math.ceil((now_seconds - min(known)) / _DAY_SECONDS) if known else 0
    if days >= _USUAL_RETENTION_DAYS:
        lines.append(
            f"They are up to {days} days old, and it deletes what is older than {_USUAL_RETENTION_DAYS} days: give it"
            f" --storage.tsdb.retention.time={days + 1}d or more."
        )
    return "\n".join(lines)
