"""fakedev-backend: from its command line to what it is to do."""

from __future__ import annotations

from typing import Any

import pytest

from fakedev.commands.dropins.backend import BackendOptions
from fakedev.queues.backend_start import BackendSettings
from fakedev.queues.run_reports import BackendCommand
from fakedev.schema.go_flags import FlagError
from fakedev.schema.peer_addresses import Address, parse_address


def settings(*arguments: str, **environ: str) -> BackendSettings:
    """What these arguments ask for."""
    options = BackendOptions(environ, "host")
    return options.settings(options.flags.parse(arguments))


def test_the_defaults_are_the_originals() -> None:
    """And ours where it has none."""
    given = settings("sleep")
    expected = {
        "queue": "sleep", "command": BackendCommand(("sleep",)), "pod": "host", "node": "host",
        "frontend": parse_address("localhost:9999"), "pattern": "", "folder": "",
        "null_in": False, "null_out": False, "backoff_seconds": 0.0, "max_backoff_seconds": 5.0,
        "once": False, "verbose": False,
        "reconnect_seconds": 60.0, "grace_seconds": 25.0, "kill_after_seconds": 3.0, "workers": 1, "protocol": "bare",
    }  # fmt: skip
    assert {name: getattr(given, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-faddr", "frontend:1234"], {"frontend": Address("frontend:1234", host="frontend", port=1234)}),
        (["--faddr=:1234"], {"frontend": Address(":1234", host="localhost", port=1234)}),
        (["-faddr", "[::1]:5"], {"frontend": Address("[::1]:5", host="::1", port=5)}),
        (["-faddr", "/run/q.sock"], {"frontend": Address("/run/q.sock", path="/run/q.sock")}),
        (["-name", "media"], {"queue": "media"}),
        (["-glob", "/dev/dri/card*"], {"pattern": "/dev/dri/card*"}),
        (["-backoff", "0.5", "-backoff-max", "10"], {"backoff_seconds": 0.5, "max_backoff_seconds": 10.0}),
        (["-backoff", "250ms"], {"backoff_seconds": 0.25}),
        (["-dir", "/tmp/../tmp"], {"folder": "/tmp"}),
        (["-null-in", "-null-out=true"], {"null_in": True, "null_out": True}),
        (["--once", "-verbose"], {"once": True, "verbose": True}),
        (["-node-env", "NODE", "-pod-env", "POD"], {"node": "n1", "pod": "host"}),
        (["-workers", "4", "-grace", "1m", "-kill-after", "0", "-reconnect", "0", "-protocol", "json"],
         {"workers": 4, "grace_seconds": 60.0, "kill_after_seconds": 0.0, "reconnect_seconds": 0.0,
          "protocol": "json"}),
    ],
)  # fmt: skip
def test_each_option(arguments: list[str], expected: dict[str, Any]) -> None:
    """One dash or two; seconds as a number, as in the original, or as a duration."""
    given = settings(*arguments, "sleep", NODE="n1", POD="")
    assert {name: getattr(given, name) for name in expected} == expected


def test_the_command() -> None:
    """What follows the options belongs to the command, also options."""
    given = settings("-limit", "2.5", "-ignore", "-glob", "/dev/x", "/bin/a", "-x", "--", "FILENAME")
    assert given.command == BackendCommand(("/bin/a", "-x", "--", "FILENAME"), True, 2.5)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "absolute path of a command, or sleep"),
        (["bin/a"], "not 'bin/a'"),
        ([""], "not ''"),
        (["-backoff", "6", "sleep"], "-backoff is longer than -backoff-max"),
        (["-backoff", "-1", "sleep"], "-backoff"),
        (["-limit", "x", "sleep"], "-limit"),
        (["-workers", "0", "sleep"], "-workers: 1 to 1000"),
        (["-workers", "1001", "sleep"], "-workers"),
        (["-protocol", "words", "sleep"], "bare or json, not 'words'"),
        (["-name", "", "sleep"], "-name"),
        (["-faddr", "host:0", "sleep"], "-faddr"),
        (["-nonsense", "sleep"], "no option -nonsense"),
    ],
)
def test_what_cannot_be_used(arguments: list[str], part: str) -> None:
    """Each mistake has its sentence."""
    with pytest.raises(FlagError) as caught:
        settings(*arguments)
    assert part in str(caught.value)


def test_a_name_that_no_result_could_carry() -> None:
    """Whatever the variable holds, it is no name of a node."""
    with pytest.raises(FlagError, match=r"the name in .NODE is longer than 253 characters"):
        settings("-node-env", "NODE", "sleep", NODE="n" * 254)


@pytest.mark.parametrize(
    "words", [["/bin/sh", "-c", "cat FILENAME"], ["sleep", "FILENAME"], ["-once", "/bin/cat", "FILENAME"]]
)
def test_filename_needs_a_pattern(words: list[str]) -> None:
    """Without -glob nothing can replace it: refused at the start."""
    with pytest.raises(FlagError, match="FILENAME in the command needs -glob PATTERN"):
        settings(*words)
    flags, command = (words[:1], words[1:]) if words[0] == "-once" else ([], words)
    assert settings(*flags, "-glob", "/dev/null", *command).pattern == "/dev/null"
