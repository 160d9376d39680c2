"""Why a link of a device shows what it shows, in words."""

from __future__ import annotations

import re
from typing import Final

from fakedev.sim.explanation import Explanation, causes_text
from fakedev.sim.fleet import Fleet
from fakedev.sim.links.explained import faults_of_link, other_end
from fakedev.sim.links.history import COUNTED, RATES
from fakedev.sim.links.levels import LINK, link_history
from fakedev.spec.errors import Refused

_WORD: Final = re.compile(r"(.+)/link/([0-9]{1,4})")
_METRICS: Final = ("link_up", *RATES, *COUNTED)


def link_word(word: str) -> tuple[str, int] | None:
    """The device and the number of a word like ``dgx-0/3/link/5``; None for words that name no link."""
    found = _WORD.fullmatch(word)
    return (found[1], int(found[2])) if found else None


def explain_link(fleet: Fleet, device: int, number: int, metric: str = "") -> list[Explanation]:
    """Why a link shows a metric, or all that links are explained by.

    :param metric: the name of a quantity of links; empty for all.
    :raises Refused: when the device has no such link, or links are not explained by that metric.
    """
    roster, name = fleet.roster, f"{fleet.roster.unit_name(device)}/link/{number}"
    own = roster.links.of(device) if device < roster.device_count else range(0)
    if number >= len(own):
        has = f"{roster.unit_name(device)} has {len(own)}: 0 to {len(own) - 1}" if own else "none are there"
        raise Refused("unknown-name", f"no link {name!r}: {has}", "device")
    wanted = metric.replace("-", "_")
    if wanted and wanted not in _METRICS:
        wanted = fleet.quantity_of(metric)
    if wanted and wanted not in _METRICS:
        raise Refused("unknown-name", f"of links are explained {', '.join(_METRICS)}, not {metric!r}", "metric")
    level, link, history = fleet.state.levels[LINK], own[number], link_history(fleet.state.levels)
    behind = faults_of_link(roster, fleet.faults, history, link)
    is_up, end = history.up is None or bool(history.up[link]), other_end(roster, link)
    state = ("up" if is_up else "down") + (f", it leads to {end}" if end else ", it leads out of the node")
    ups = len(own) if history.links_up is None else int(history.links_up[device])
    reasons = {
        **dict.fromkeys(RATES, f"one of {ups} links that are up, which carry alike" if is_up else "the link is down"),
        **dict.fromkeys(COUNTED, "counted since the start"),
        "link_up": state,
    }  # fmt: skip
    ids = tuple(each.fault_id for each in behind)
    is_gone = history.gone is not None and history.gone[device]
    silent = "the device is lost and shows nothing" if is_gone else "this link has no such metric"
    told = []
    for each in [wanted] if wanted else _METRICS:
        has_it = level.has(each, link)
        text = "; ".join([reasons[each] if has_it else silent, *causes_text(behind)])
        told.append(Explanation(each, float(level.arrays[each][link]) if has_it else None, text, ids))
    return told
