"""The history of a Prometheus is read in bounded pieces, which join without a gap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from fakedev.learn.range_history import history


class Server:
    """Answers as a Prometheus whose series have the number of seconds as their value."""

    def __init__(self, many: int) -> None:
        self.many = many
        self.points: list[int] = []

    def ask(self, what: str, query: Mapping[str, str]) -> Any:
        if query["query"].startswith("count"):
            return {"result": [{"values": [[0, "1"], [9, str(self.many)]]}] if "USED" not in query["query"] else []}
        times = np.arange(float(query["start"]), float(query["end"]) + 1e-6, float(query["step"]))
        self.points.append(len(times) * self.many)
        return {"result": [{"metric": {"gpu": "0"}, "values": [[time, str(time)] for time in times]}]}


def read(server: Server) -> list[Any]:
    shares: list[float] = []
    found = list(history(
        server.ask, '{job="a"}', ["UTIL", "USED"], 0, 100_000, 10, lambda labels: tuple(labels.items()), shares.append
    ))  # fmt: skip
    assert shares == sorted(shares)
    return found


@pytest.mark.parametrize("many", [1, 5000, 10_000_000])
def test_pieces(many: int) -> None:
    """Of many series a piece has fewer values of each, and at least one."""
    server = Server(many)
    seen = read(server)
    assert np.concatenate([each.seconds for each in seen]).tolist() == np.arange(0, 100_000, 10).tolist()
    assert {(each.name, each.labels) for each in seen} == {("UTIL", (("gpu", "0"),))}
    assert max(server.points) <= max(2_000_000, many)


def test_an_answer_of_another_form() -> None:
    server = Server(1)
    server.ask = lambda what, query: {"result": [{"values": "?"}]}  # type: ignore[method-assign]
    with pytest.raises(ConnectionError, match="does not come from a Prometheus"):
        read(server)
