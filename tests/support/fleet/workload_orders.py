"""For tests of fakedev-workload: what a command line asks for, all in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fakedev.commands.workload.options import Order, WorkloadOptions

CARDS = {"/dev/dri/card*": ["/dev/dri/card10", "/dev/dri/card0"]}


def order(
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    files: Mapping[str, Sequence[str]] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Order:
    """What these arguments ask for, where these files and variables are."""
    matches = CARDS if files is None else files

    def read(path: str) -> str:
        if texts is None or path not in texts:
            raise FileNotFoundError(2, "No such file or directory", path)
        return texts[path]

    options = WorkloadOptions(environ or {}, lambda pattern: list(matches.get(pattern, [])), read)
    return options.order(options.flags.parse(arguments))


def read_by_the_original(message: bytes) -> dict[str, Any] | None:
    """What the original's Go server makes of a message; None when it refuses it.

    One read of 1024 bytes; names in any letter case; unknown ones skipped; integers only; a byte
    that comes after the read is a lost connection.
    """
    if len(message) > 1024:
        return None
    document = {key.lower(): value for key, value in json.loads(message).items()}
    seen: dict[str, Any] = {
        "Name": document.get("name", ""),
        "Repeat": document.get("repeat", 0),
        "Devices": document.get("devices", []),
        "Limits": document.get("limits"),
        "Profile": [],
    }
    for entry in document["profile"]:
        folded = {key.lower(): value for key, value in entry.items()}
        activity = tuple(folded.get(name, 0) for name in ("load", "fluctuation", "seconds"))
        if not all(isinstance(number, int) for number in activity):
            return None
        load, fluctuation, _ = activity
        if load - fluctuation < 0 or load + fluctuation > 100:
            return None
        seen["Profile"].append(activity)
    return seen
