"""When a pasted alert rule was pending and fired, by the kept values of the charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fakedev.base.steps import Steps
from fakedev.scenario.rules.alert_rules import AlertStates, Firing, Pending

#: Devices whose past is looked at, and evaluations in one step.
MAX_DEVICES: Final = 32
_AT_ONCE: Final = 100
#: Times that lines name.
_MAX_NAMED: Final = 4


def alert_times(
    times: Sequence[float], values: Mapping[str, Sequence[float]], for_seconds: float,
    is_beyond: Callable[[Sequence[float]], list[bool]],
) -> Steps[AlertStates]:
    """The alerts of a rule, evaluated at each kept time, in steps.

    :param times: the kept times, in simulated seconds.
    :param values: by the names of the devices their values at these times; NaN where they showed none.
    :param is_beyond: whether the rule is true of each of some values.
    """
    states = AlertStates(for_seconds)
    found = {}
    for name, row in values.items():
        found[(("device", name),)] = is_beyond(row)
        yield
    for place, seconds in enumerate(times):
        states.evaluate(seconds, [labels for labels, truths in found.items() if truths[place]])
        if place % _AT_ONCE == 0:
            yield
    return states


def marks_of(states: AlertStates, alert: str) -> list[dict[str, Any]]:
    """The beginnings and ends of firings, as marks of charts."""
    marks = []
    for firing in states.all_firings():
        device = firing.labels[0][1]
        marks.append({"seconds": firing.begin_seconds, "kind": "fires", "device": device, "text": f"{alert} fires"})
        if firing.end_seconds is not None:
            marks.append({"seconds": firing.end_seconds, "kind": "over", "device": device, "text": f"{alert} is over"})
    return marks


def lines_of(states: AlertStates, alert: str, now: float, for_seconds: float) -> list[str]:
    """What the alerts of a rule did in the kept time, in words.

    :param now: the last kept time, in simulated seconds.
    """
    firings, pendings = states.all_firings(), states.all_pendings()
    lines = []
    if firings:
        shown = "; ".join(map(_firing_words, firings[-_MAX_NAMED:]))
        more = f"the last of {len(firings)} times: " if len(firings) > _MAX_NAMED else ""
        lines.append(f"{alert} by the values of the charts: {more}{shown}")
    waiting = [pending for pending in pendings if pending.end_seconds is None]
    for pending in waiting[:_MAX_NAMED]:
        held = now - pending.begin_seconds
        lines.append(
            f"{alert} is pending on {pending.labels[0][1]}: true for {held:g} s of its 'for' of {for_seconds:g} s; "
            f"it fires in {for_seconds - held:g} s of simulated time if that stays"
        )
    if len(waiting) > _MAX_NAMED:
        lines.append(f"{alert} is pending on {len(waiting) - _MAX_NAMED} more devices")
    broken = [pending for pending in pendings if pending.end_seconds is not None and not _became(pending, firings)]
    if broken and not (firings or waiting):
        longest = max(broken, key=lambda each: (each.end_seconds or 0.0) - each.begin_seconds)
        lines.append(
            f"{alert} was pending {len(broken)} times and did not fire: true for at most "
            f"{(longest.end_seconds or 0.0) - longest.begin_seconds:g} s, on {longest.labels[0][1]}, of its 'for' of "
            f"{for_seconds:g} s"
        )
    return lines


def _became(pending: Pending, firings: Sequence[Firing]) -> bool:
    """Whether a time of pending ended by firing."""
    return any(firing.labels == pending.labels and firing.begin_seconds == pending.end_seconds for firing in firings)


def _firing_words(firing: Firing) -> str:
    end = "still does" if firing.end_seconds is None else f"until {firing.end_seconds:g} s"
    return f"fires on {firing.labels[0][1]} from {firing.begin_seconds:g} s of simulated time, {end}"
