"""/api/v1/scenario/occurrences: everything that the scenario does, as a list of any length."""

from __future__ import annotations

from functools import partial

from fakedev.net.http.api import ApiResource
from fakedev.net.http.items import Items, described_key, items_response
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Answer
from fakedev.net.scenario.live import LiveScenario
from fakedev.spec.web_paths import OCCURRENCES


class Occurrences(ApiResource):
    """All occurrences of the scenario that is played."""

    query = OCCURRENCES.query

    def __init__(self, scenario: LiveScenario) -> None:
        self._scenario = scenario

    def get(self, request: GuardedRequest) -> Answer:
        """What goes on, what is next, then what has happened, the newest first; or those that the query asks for."""
        scenario = self._scenario

        def now() -> Items[int]:
            return Items(
                scenario.numbers(),
                lambda _: scenario.described,
                scenario.texts,
                partial(described_key, scenario.described),
            )

        return items_response(request, OCCURRENCES, "occurrences", now)
