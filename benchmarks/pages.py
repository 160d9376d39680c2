"""Pages of measured figures: sections in place of older ones, what missed its target, and the machine."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from results import Section


def with_sections(page: str, sections: list[Section]) -> str:
    """The page with some sections in place of those of the same title; at its end where it has none."""
    parts = page.rstrip("\n").split("\n\n## ")
    for section in sections:
        made = section.markdown(with_method=False).rstrip("\n").removeprefix("## ")
        places = [place for place, part in enumerate(parts) if part.partition("\n")[0] == section.title and place]
        start = places[0] if places else len(parts)
        parts[start : start + 1] = [made]
    parts[0] = re.sub(r"^(Missed: .*|All targets were met\.)$", verdict(parts[1:]), parts[0], flags=re.MULTILINE)
    return "\n\n## ".join(parts) + "\n"


def verdict(parts: list[str]) -> str:
    """Which rows of sections missed their targets, in words."""
    missed = []
    for part in parts:
        title, _, text = part.removeprefix("## ").partition("\n")
        missed += [f"{title}: {row.split(' | ')[0][2:]}" for row in text.splitlines() if row.endswith("**missed** |")]
    return "All targets were met." if not missed else "Missed: " + "; ".join(missed) + "."


def machine() -> str:
    """The processor, memory and system of this machine, without its name."""
    system = f"{platform.system()} {platform.release()}"
    return f"{_processor()}, {os.cpu_count()} cores, {_memory()}, {system}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory() -> str:
    total = Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]
    return f"{int(total) / 1e6:.0f} GB"
