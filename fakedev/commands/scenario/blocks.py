"""Turns the OpenMetrics files of a history into blocks for Prometheus, with promtool."""

from __future__ import annotations

import math
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Final

from fakedev.base.console import Progress, restored_after_interrupt, write_text
from fakedev.base.errors import plain_reason
from fakedev.scenario.rules.promtool import BlockMaker, PromtoolError
from fakedev.scenario.samples.openmetrics import SUFFIX, window_seconds
from fakedev.schema.options import Failed, Operand, command

_PROGRAM: Final = "fakedev scenario blocks"
_DAY_SECONDS: Final = 86_400
#: How long a Prometheus keeps samples by default.
_USUAL_RETENTION_DAYS: Final = 15


@command(
    _PROGRAM,
    __doc__,
    Operand("history", "HISTORY", f"a folder with files of a history (*{SUFFIX}), or one file"),
    Operand("data", "DATA", "the data folder of a Prometheus; it is created"),
    failures={PromtoolError: 1},
)
def blocks(options: Namespace) -> None:
    """Make the blocks; promtool is needed."""
    history, data = Path(options.history), Path(options.data)
    try:
        problem = _problem(history, data)
        files = sorted(history.glob(f"*{SUFFIX}")) if history.is_dir() else [history]
        if problem or not files:
            raise Failed(problem or f"{history}: has no files *{SUFFIX}", 2)
        _make(files, data)
    except OSError as error:
        raise Failed(f"{error.filename or data}: {plain_reason(error)}") from None
    write_text(sys.stdout, f"{advice(data, [window_seconds(file.name) for file in files], time())}\n")


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
    known = [begin for begin in begins if begin is not None]
    days = math.ceil((now_seconds - min(known)) / _DAY_SECONDS) if known else 0
    if days >= _USUAL_RETENTION_DAYS:
        lines.append(
            f"They are up to {days} days old, and it deletes what is older than {_USUAL_RETENTION_DAYS} days: give it"
            f" --storage.tsdb.retention.time={days + 1}d or more."
        )
    return "\n".join(lines)
