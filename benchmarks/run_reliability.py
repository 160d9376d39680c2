"""The figures of reliability: ``make reliability``. Writes their sections into doc/reliability.md.

``python benchmarks/run_reliability.py --short --only NAME`` prints the section of one figure, measured for a short
time. Its exit code is 1 when a goal was missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pages import machine, verdict, with_sections
from reliability import chaos, full_load, hostile, kills, storage, surroundings
from results import Section

#: Each takes whether it is to be short, and makes its section of the page.
FIGURES: Final[dict[str, Callable[[bool], Section]]] = {
    "hostile": hostile.hostile,
    "kills": kills.kills,
    "storage": storage.storage,
    "surroundings": surroundings.surroundings,
    "load": full_load.full_load,
    "chaos": chaos.chaos,  # the last one: it gives this process a network of its own
}
#: These take the length that ``--minutes`` gives.
LONG: Final = {"load": full_load.measure, "chaos": chaos.measure}
PAGE = Path(__file__).resolve().parent.parent / "doc" / "reliability.md"


def main() -> int:
    """Measure; 1 when a goal was missed, 2 for an unknown name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="five minutes for all, instead of forty")
    parser.add_argument("--minutes", type=float, default=10.0, help="length of full load and of chaos, 10 if not given")
    parser.add_argument("--only", action="append", choices=FIGURES, help="this figure; may be given several times")
    parser.add_argument("--write", action="store_true", help="write also the sections of these into doc/reliability.md")
    options = parser.parse_args()
    is_written = options.write or not (options.short or options.only)
    sections = []
    for name in options.only or FIGURES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        has_length = name in LONG and not options.short
        section = LONG[name](seconds=options.minutes * 60) if has_length else FIGURES[name](options.short)
        minutes = f" --minutes {options.minutes:g}" if has_length else ""
        section.text = f"{section.text.strip()}\n\n{_run_of(name, options.short, minutes)}"
        print(section.markdown(), flush=True)
        sections.append(section)
    if is_written:
        PAGE.write_text(with_sections(PAGE.read_text(encoding="utf-8"), sections), encoding="utf-8")
        print(f"{PAGE} has {len(sections)} new sections", file=sys.stderr)
    said = verdict([section.markdown() for section in sections])
    print(said, file=sys.stderr)
    return int(said.startswith("Missed"))


def _run_of(name: str, is_short: bool, minutes: str) -> str:
    """The command, the day and the machine of a figure."""
    command = f"python benchmarks/run_reliability.py {'--short ' if is_short else ''}--only {name}{minutes}"
    return f"Measured on {datetime.now(UTC):%Y-%m-%d} by `{command}` on {machine()}."


if __name__ == "__main__":
    raise SystemExit(main())
