"""The tables of doc/faults.md: what the kinds take, and what each moves on a busy board, found by running it.

Run it at the root of the project to bring them up to date:
``PYTHONPATH=. python -m tests.support.documents.fault_table``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fakedev.fleet.events import ClearFaults
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fault_kinds import KINDS, FaultKind, Scope
from fakedev.fleet.spec.quantities import INTEGRALS, OF_FABRIC, OF_MODULES
from tests.support.fleet.calibration import mean_type
from tests.support.fleet.faulty_fleets import inject
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start, stop
from tests.support.paths import DOCUMENTS

PAGE = DOCUMENTS / "faults.md"
#: What each kind is given, where it needs something or shows more with it.
GIVEN: dict[str, dict[str, float]] = {
    "ecc-single": {"rows": 1}, "power-cap": {"watts": 300}, "clock-lock": {"megahertz": 900}, "inlet": {"celsius": 50},
    "sentinel": {"value": -1},
}  # fmt: skip
#: Codes of XID with additional effects.
CODES = (13, 48, 63, 64, 74, 79, 92, 94, 95, 119, 999)
#: What is injected, with what it is given.
CASES: list[tuple[str, dict[str, float]]] = [
    *(("xid", {"code": float(code)}) for code in CODES),
    *((name, GIVEN.get(name, {})) for name, kind in KINDS.items()
      if kind.scope is Scope.BOARD and name != "xid" and kind.needs not in (*OF_MODULES, *OF_FABRIC)),
]
#: Quantities that mostly move together, by the word that stands for them where at least three do.
_TOGETHER = {
    "*clocks*": ("core_frequency_mhz", "core_frequency_request_mhz", "video_frequency_mhz"),
    "*heat*": ("temperature_celsius", "temperature_margin_celsius", "temperature_max_celsius",
               "memory_temperature_celsius"),
    "*traffic*": ("fabric_rx_bytes_per_second", "fabric_tx_bytes_per_second", "memory_bandwidth_ratio",
                  "memory_read_bytes_per_second", "memory_usage_ratio", "memory_write_bytes_per_second",
                  "pcie_rx_bytes_per_second", "pcie_tx_bytes_per_second"),
    "*engines*": ("engine_active_ratio", "fp16_active_ratio", "fp32_active_ratio", "fp64_active_ratio",
                  "sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio"),
}  # fmt: skip
_BEFORE, _DURING, _AFTER = 150, 80, 250
#: Differences below this share of a value are none: a board warms up and cools down for ever.
_SAME = 0.02
#: Quantities that only add up or repeat what others say, or that are the simulation's own.
_LEFT_OUT = {"core_frequency_mean_mhz", "work_clock_ratio", "thermal_clock_ratio", "power_clock_ratio",
             "memory_free_bytes", "memory_used_ratio", "created_seconds", *INTEGRALS}  # fmt: skip


def kinds_table() -> str:
    """What each kind is, takes and needs."""
    lines = ["| kind | concerns | what goes wrong | takes | how it recovers |", "|---|---|---|---|---|"]
    for kind in KINDS.values():
        cells = [f"`{kind.name}`", kind.scope.name.lower(), kind.summary, _taken(kind), kind.recovery]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _taken(kind: FaultKind) -> str:
    taken = [
        f"`{each.name}` {each.low:g} to {each.high:g}, {'required' if each.default is None else f'{each.default:g}'}: "
        f"{each.summary}"
        for each in kind.parameters
    ]
    return "; ".join([*taken, "`metric`"] if kind.takes_metric else taken)


def moves_table() -> str:
    """What each kind changes on a busy board, and what remains of that when it has ended."""
    meanings = (f"{word} are {', '.join(f'`{name}`' for name in names)}" for word, names in _TOGETHER.items())
    lines = [f"{'; '.join(meanings)}: at least three of them.", ""]
    lines += ["| kind | moves | work | what stays |", "|---|---|---|---|"]
    for (name, values), (moved, ended, left) in zip(CASES, _measured(), strict=True):
        given = "".join(f" {key}={value:g}" for key, value in values.items())
        work = "ends" if ended else "continues"
        cells = [f"`{name}{given}`", ", ".join(_grouped(moved)) or "-", work, ", ".join(left) or "-"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _grouped(moved: list[str]) -> list[str]:
    """The names with a word in place of those that moved together."""
    groups = {word: found for word, names in _TOGETHER.items() if len(found := set(names) & set(moved)) >= 3}
    return [*(name for name in moved if not any(name in found for found in groups.values())), *groups]


def _measured() -> list[tuple[list[str], bool, list[str]]]:
    """For each case what it changes, whether work ends, what remains: each on a separate board, all alike.

    The first board is well, and the second is well and loses its work when the faults begin.
    """
    fleet = make_fleet(pool_of(device_type=mean_type("h100"), devices_per_node=len(CASES) + 2))
    work = {device: _begin(fleet, device) for device in range(len(CASES) + 2)}
    advance(fleet, _BEFORE)
    for place, (name, values) in enumerate(CASES, 2):
        inject(fleet, kind=name, devices=f"dgx-0/{place}", **values)
    moved: list[set[str]] = [set() for _ in CASES]
    # In the tick in which a fault strikes work still shows that ends with it.
    fleet.advance()
    stop(fleet, work.pop(1))
    for _ in range(_DURING):
        fleet.advance()
        for place in range(2, len(CASES) + 2):
            like = 0 if work[place] in fleet.workloads.by_id else 1
            moved[place - 2] |= _differences(fleet, place, like)
    ended = [work[place] not in fleet.workloads.by_id for place in range(2, len(CASES) + 2)]
    for fault_id in list(fleet.faults.by_id):
        fleet.apply(ClearFaults((fault_id,)))
    advance(fleet, 1)
    for place, has_ended in enumerate(ended, 2):
        if has_ended:
            _begin(fleet, place)
    advance(fleet, _AFTER)
    left = [_differences(fleet, place, 0) for place in range(2, len(CASES) + 2)]
    return [(sorted(names), end, sorted(rest)) for names, end, rest in zip(moved, ended, left, strict=True)]


def _begin(fleet: Fleet, device: int) -> str:
    metrics = {"fabric-tx": "30%", "fabric-rx": "30%", "pcie-tx": "80%"}
    return start(fleet, f"dgx-0/{device}", "60:0:0", metrics=metrics)


def _differences(fleet: Fleet, one: int, other: int) -> set[str]:
    """The quantities in which a board differs from another; of one that is lost only what it still shows."""
    level = fleet.state.levels["device"]
    if level.arrays["lost"][one]:
        return {name for name in ("lost", "xid") if level.has(name, one)}
    values = {name: level.arrays[name] for name in level.arrays if level.has(name, other) and name not in _LEFT_OUT}
    return {name for name, of in values.items() if not np.isclose(of[one], of[other], rtol=_SAME, atol=1e-9)}


TABLES: dict[str, Callable[[], str]] = {"kinds": kinds_table, "moves": moves_table}


def with_tables(page: str) -> str:
    """The page with the tables as they are now."""
    for name, made in TABLES.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        assert found, f"no place for the table of {name}"
        page = before + begin + made() + end + after
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
