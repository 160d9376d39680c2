"""What a watch tells, kept for tests."""

from __future__ import annotations

from typing import Any, Final

from tests.support.kube.api_server import ClusterApi, pod

PODS: Final = "/api/v1/pods"


class Recorder:
    """Keeps what a watch tells, and the names of the objects that there are."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.known: set[str] = set()

    def listed(self, items: list[Any]) -> None:
        """All objects."""
        self.known = {item["metadata"]["name"] for item in items}
        self.told.append(("listed", sorted(self.known)))

    def changed(self, item: Any) -> None:
        """One of them."""
        self.known.add(item["metadata"]["name"])
        self.told.append(("changed", item["metadata"]["name"]))

    def deleted(self, item: Any) -> None:
        """One is gone."""
        self.known.discard(item["metadata"]["name"])
        self.told.append(("deleted", item["metadata"]["name"]))

    def lost(self, reason: str) -> None:
        """The cluster is not seen."""
        self.told.append(("lost", reason))

    @property
    def words(self) -> list[str]:
        """What was told, without the objects."""
        return [word for word, _ in self.told]


def with_two_pods(api: ClusterApi) -> ClusterApi:
    """A cluster with two pods, ``a`` and ``b``, on a node each."""
    api.add(pod("a", "dgx-0"))
    api.add(pod("b", "dgx-1"))
    return api
