"""Random days of every board of the catalog: how often a rule of the simulation is broken in them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from time import process_time

from results import Section, Target

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

_DEVICE_TICKS = 5_000_000
#: Nodes of each pool, and the first seed: not the days of the tests.
_NODES, _SEED = 8, 1000
_TICKS_EACH = 400


def invariants() -> Section:
    """Conservation, limits, causes, heat and counters of boards, parts and links."""
    from tests.support.fleet.invariants import TICKS, random_days  # noqa: PLC0415 - a part of the tests, only here

    section = Section(
        "Invariants",
        f"""
{_DEVICE_TICKS:,} devices times ticks of random days of every board of the catalog, MIG instances, tiles and links
included: work of all kinds with requests of single metrics, faults of all kinds with their parameters, power caps and
reloads, from fixed seeds. Each tick is checked with the rules of the tests (tests/support/fleet/board_checks.py,
link_checks.py, divided_devices.py). *Violations* counts entities and ticks. Processor time, with the checks.
""",
        ["devices x ticks", "seconds", "violations"],
    )
    broken: Counter[str] = Counter()
    for tick_seconds, share in TICKS.items():
        began = process_time()
        found = random_days(round(_DEVICE_TICKS * share), tick_seconds, _NODES, _SEED, _TICKS_EACH)
        broken += found.broken
        count = found.broken.total()
        section.add(
            f"ticks of {tick_seconds:g} s", f"{found.device_ticks:,}", f"{process_time() - began:.0f} s", f"{count:,}",
            judged=count, target=Target(0),
        )  # fmt: skip
        for rule, examples in found.examples.items():
            print(f"{rule}: {'; '.join(examples)}", file=sys.stderr)
    for rule, times in broken.most_common():
        section.add(rule, "", "", f"{times:,}")
    return section
