"""Reads the history of a Prometheus by range queries, in pieces of bounded size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from fakedev.learn.tracks import Seen, selector

#: An answer has at most so many values, about 60 MB of JSON, and Prometheus allows 11,000 of a series.
_MOST_VALUES: Final = 2_000_000
_MOST_OF_SERIES: Final = 10_000
#: Sends a query of the API: its name, its parameters; returns its data.
Ask = Callable[[str, Mapping[str, str]], Any]


def history(
    ask: Ask, match: str, names: Sequence[str], begin: float, end: float, step: float, labels_of: Callable[[Any], Any],
    show: Callable[[float], None],
) -> Iterator[Seen]:  # fmt: skip
    """The values of some families every ``step`` seconds, from the first time until the last one.

    :param names: of the families.
    :param labels_of: returns the exporter's labels, of those of a series.
    :param show: is told the share that is done.
    :raises ConnectionError: for an answer of another form.
    """
    for number, name in enumerate(names):
        chosen = selector(match, name)
        span = max(end - begin, step)
        counted = ask("query", {"query": f"count(last_over_time({chosen}[{math.ceil(span)}s]))", "time": f"{end:.3f}"})
        try:
            many = int(float(counted["result"][0]["value"][1])) if counted["result"] else 0
        except (KeyError, IndexError, TypeError, ValueError):
            raise ConnectionError("the answer is not that of a Prometheus") from None
        if not many:
            continue
        piece = step * max(min(_MOST_VALUES // many, _MOST_OF_SERIES), 1)
        for first in np.arange(begin, end, piece).tolist():
            last = min(first + piece - step, end)
            # Without this a series that has ended would be seen for five minutes more.
            words = f"last_over_time({chosen}[{math.ceil(step)}s])"
            query = {"query": words, "start": f"{first:.3f}", "end": f"{last:.3f}", "step": f"{step:g}"}
            yield from _series(ask("query_range", query), name, labels_of)
            show((number + (last - begin) / span) / len(names))


def _series(data: Any, name: str, labels_of: Callable[[Any], Any]) -> Iterator[Seen]:
    try:
        for each in data["result"]:
            values = np.array(each["values"], dtype=np.float64)
            yield Seen(name, labels_of(each["metric"]), values[:, 0], values[:, 1])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise ConnectionError("a series of the answer has no labels, or no values") from None
