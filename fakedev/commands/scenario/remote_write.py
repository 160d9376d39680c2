"""Options of ``fakedev scenario run`` for remote write, and how far a history has been sent."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import orjson

from fakedev import __version__
from fakedev.commands.console import Progress, write_text
from fakedev.config.scenarios import LoadedScenario
from fakedev.scenario.samples import Stored
from fakedev.spec.os_errors import plain_reason
from fakedev.spec.units import format_duration

#: The waits that are told: shorter ones are over before they are read.
_TOLD_SECONDS: Final = 1.0


def add_remote_write_options(parser: argparse.ArgumentParser) -> None:
    """Options of a subcommand that sends a history."""
    parser.add_argument(
        "--remote-write", metavar="URL", default="",
        help="send the history to a server, as http://127.0.0.1:9090/api/v1/write; needs fakedev[scenario]",
    )  # fmt: skip
    parser.add_argument("--token-file", metavar="FILE", default="", help="its Bearer token for --remote-write")
    parser.add_argument(
        "--resume", metavar="FILE", default="",
        help="note in FILE how far --remote-write has got; a run that was interrupted goes on from there",
    )  # fmt: skip


def remote_progress(options: argparse.Namespace, loaded: LoadedScenario, begin_seconds: float) -> Any:
    """How far the history has been sent; None without remote write. A run that goes on has the beginning of the first.

    :param begin_seconds: of a run that begins, since 1970.
    :raises ValueError: when the options cannot be used.
    """
    if not options.remote_write:
        for name in ("token_file", "resume"):
            if getattr(options, name):
                raise ValueError(f"--{name.replace('_', '-')} goes with --remote-write URL")
        return None
    from fakedev.app.remote_write import send_progress  # noqa: PLC0415 - virtual time alone needs no Twisted

    return send_progress(options.resume, _digest(options, loaded), options.remote_write, begin_seconds)


def send(
    options: argparse.Namespace, history: Iterable[Stored | None], remote: Any, progress: Progress, program: str
) -> int:
    """Send the history.

    :param remote: what :func:`remote_progress` has returned.
    :returns: the exit code: 0, or 130 after a signal.
    :raises ValueError: when it cannot be sent.
    """
    from fakedev.app.remote_write import send_history  # noqa: PLC0415 - virtual time alone needs no Twisted

    def tell(problem: str, seconds: float) -> None:
        if seconds >= _TOLD_SECONDS:
            progress.clear()
            write_text(sys.stderr, f"{program}: {problem}: again in {format_duration(round(seconds))}\n")

    end = send_history(history, remote, options.remote_write, token=_token(options.token_file), on_wait=tell)
    progress.clear()
    if end.signal_name:
        if options.resume:
            write_text(sys.stderr, f"{program}: interrupted: the same command goes on from {options.resume}\n")
        return 130
    if end.problem:
        raise ValueError(end.problem)
    write_text(sys.stderr, f"{program}: {end.samples} samples sent\n")
    return 0


def _token(path: str) -> str:
    try:
        token = Path(path).read_text(encoding="ascii").strip() if path else ""
    except OSError as error:
        raise ValueError(f"{path}: {plain_reason(error)}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: has no token in ASCII") from None
    if path and (not token or not token.isprintable() or " " in token):
        raise ValueError(f"{path}: must have one token, on one line")
    return token


def _digest(options: argparse.Namespace, loaded: LoadedScenario) -> str:
    """A word that differs for histories of other files, options or versions."""
    texts = [sorted(each.files.texts.items()) for each in loaded.configurations]
    own = Path(options.file).read_text(encoding="utf-8")
    values = [__version__, own, texts, [list(each.overrides) for each in loaded.configurations]]
    return hashlib.sha256(orjson.dumps(values)).hexdigest()
