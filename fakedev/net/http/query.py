"""What is asked for after the ``?`` of an address."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import HttpError

_LONGEST_SHOWN: Final = 100


def argument(request: GuardedRequest, name: str) -> str:
    """An argument of the query, the first of several; empty when it is not there."""
    return request.args.get(name.encode(), [b""])[0].decode("utf-8", "replace")


def unknown_key(request: GuardedRequest, known: Sequence[str]) -> HttpError | None:
    """What is wrong with a query that has another key than those that are known; None: nothing is."""
    for key in request.args:
        name = key.decode("utf-8", "replace")[:_LONGEST_SHOWN]
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            text = f"{hint}there are {', '.join(known)}" if known else "nothing can be chosen here"
            return HttpError(400, f"unknown key {name!r} in the query: {text}", "bad-argument", name)
    return None
