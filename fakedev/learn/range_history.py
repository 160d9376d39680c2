"""Reads the history of a Prometheus by range queries, in pieces of bounded size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from fakedev.learn.tracks import Seen, selector

#: Values of one answer, at most: about 60 MB of JSON. Prometheus allows 11,000 of a series.
_MOST_VALUES: Final = 2_000_000
_MOST_OF_SERIES: Final = 10_000
#: Parts of the time in which series are counted.
_LOOKS: Final = 50
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
        chosen = selector(match, "__name__", name)
        span = max(end - begin, step)
        # Series at a time: pods come and go, so that there are many more in all.
        counted = ask("query_range", {
            "query": f"count(last_over_time({chosen}[{math.ceil(max(span / _LOOKS, step))}s]))",
            "start": f"{begin:.3f}", "end": f"{end:.3f}", "step": f"{max(span / _LOOKS, step):g}",
        })  # fmt: skip
        try:
            many = max((int(float(value)) for row in counted["result"] for _, value in row["values"]), default=0)
        except (KeyError, IndexError, TypeError, ValueError):
            raise ConnectionError("the answer does not come from a Prometheus") from None
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
        for row in data["result"]:
            seconds, texts = zip(*row["values"], strict=True)
            metric = row["metric"]
            # NumPy takes three times as long to read texts.
            numbers = np.array([float(text) for text in texts])
            yield Seen(name, labels_of(metric), np.array(seconds, np.float64), numbers, metric.get("instance", ""))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise ConnectionError("a series of the answer has no labels, or no values") from None
