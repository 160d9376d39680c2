"""/api/v1/tester/PLAN/nodes, /devices and /pods: who answered the requests of a plan, as lists of any length."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fakedev.net.http.api import ApiResource
from fakedev.net.http.items import Items, in_order, items_response
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Answer
from fakedev.spec.web_paths import LOAD_NODES, WebPath
from fakedev.tester.expectation import point_of
from fakedev.tester.report_values import tally_value
from fakedev.tester.tallies import Tallies, Tally

#: The prefix of keys that are points of the run times.
_RUN: Final = "run-"


class AnswersBy(ApiResource):
    """The answers of a plan by node, by device or by pod.

    :param path: one of LOAD_NODES, LOAD_DEVICES and LOAD_PODS.
    :param what: ``node``, ``device`` or ``pod``.
    :param now: returns the tallies; a reset replaces them.
    """

    query = LOAD_NODES.query  # the others take the same

    def __init__(self, path: WebPath, what: str, now: Callable[[], Tallies]) -> None:
        self._path = path
        self._what = what
        self._now = now

    def get(self, request: GuardedRequest) -> Answer:
        """Those that answered since the last reset, sorted by name, or those that the query asks for."""
        what = self._what

        def now() -> Items[tuple[str, Tally]]:
            tallies = self._now()
            return Items(
                list(tallies.items()),
                lambda _: lambda each: tally_value(what, *each),
                lambda each: (each[0], each[1].last_error),
                partial(_sort_key, tallies, what),
                exists=lambda _: tallies is self._now(),
            )

        return items_response(request, self._path, f"{what}s", now)


def _sort_key(tallies: Tallies, what: str, name: str) -> Callable[[tuple[str, Tally]], Any]:
    """What tallies are sorted by, without a description of each; the one of all other names is the last name."""
    if name.startswith(_RUN):
        point = name.removeprefix(_RUN)
        return lambda each: point_of(each[1].run, point)
    keys: dict[str, Callable[[tuple[str, Tally]], Any]] = {
        what: lambda each: (tallies.is_others(each[1]), in_order(each[0])),
        "answers": lambda each: each[1].answers,
        "failures": lambda each: each[1].failures,
        "last-error": lambda each: in_order(each[1].last_error),
    }
    return keys[name]
