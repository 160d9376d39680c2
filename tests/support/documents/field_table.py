"""Which fields of DCGM a counters file can show, and why the others cannot: doc/dcgm-fields.md.

Run as a script it writes the document again, from fakedev/catalog/fields/dcgm.yaml.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from tests.support.paths import ROOT

FIELDS: Final = ROOT / "fakedev" / "catalog" / "fields" / "dcgm.yaml"
DOCUMENT: Final = ROOT / "doc" / "dcgm-fields.md"
_OF_EXPORTER: Final = "DCGM_EXP_"
_COUNTERS: Final = "identities.md#a-counters-file-of-ones-own"
#: Patterns of names, and why none of these is shown; the first that fits counts.
REASONS: Final = (
    (r"VGPU|VIRTUAL|SUPPORTED_TYPE|(ENC|FBC)_(STATS|SESSIONS)", "no virtual GPUs, and no sessions of encoders"),
    (r"NVSWITCH|FABRIC|IMEX", "switches and their management: the state has no such counters of a switch"),
    (r"CPU_|_CPU|SYSIO|MODULE_POWER", "processors of the host (Grace) are not simulated"),
    (r"CONNECTX|PLATFORM", "network cards, and where a board sits in its rack, are not simulated"),
    (r"C2C", "links between chips of one board (C2C) are not simulated"),
    (r"PWR_SMOOTHING|POWER_PROFILE", "power profiles, overrides and wear of power smoothing are not simulated"),
    (r"DIAG_", "DCGM's diagnostics are not simulated"),
    (r"NVLINK", "the state has no such NVLink counter or link"),
    (r"MIG", "they describe GPU instances to programs; they are not metrics"),
    (r"BANKS_REMAP", "how many banks a board has is not known"),
    (r"PROF_", "the state has no such pipe, cache or link between chips"),
    (r"VIOLATION|SYNC_BOOST", "base clocks, and boards that boost together, are not simulated"),
    (r"APP_|AUTOBOOST|SUPPORTED_CLOCKS|MAX_VIDEO", "application clocks, and lists of clocks, are not simulated"),
    (r"BAR1|AFFINITY|TOPOLOGY|PCI_|PCIE_COUNT|COUNT$|VISIBLE", "a board knows only the PCIe link of its host"),
    (r".*", "a setting, version or list that no quantity or fact of a board contains"),
)  # fmt: skip


def _table() -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The fields that can be shown, by name; and the names of the others."""
    table = yaml.load(FIELDS.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return table["fields"], table["not-simulated"]


def reason(name: str) -> str:
    """Why a field is not shown."""
    return next(why for pattern, why in REASONS if re.search(pattern, name))


def _shows(field: dict[str, Any]) -> str:
    """What a field shows, in a few words."""
    if "label" in field:
        return f"label: `{field['label']}`"
    rows = field.get("rows", [field])
    first = rows[0]
    if "quantity" not in first:
        said = f"`{first['fact']}`" if "fact" in first else f"always {first['constant']}"
    else:
        said = " + ".join(f"`{name}`" for name in (first["quantity"], *first.get("plus", ())))
        said += f" / `{first['per']}`" if "per" in first else ""
        said += f", {first['unit']}" if "unit" in first else ""
    return f"{said}, and {len(rows) - 1} more rows" if len(rows) > 1 else said


def _row(name: str, field: dict[str, Any]) -> str:
    alias = f" (`{field['alias']}`)" if "alias" in field else ""
    return f"| {field['number']} | `{name}`{alias} | {_shows(field)} |"


def _code(name: str) -> str:
    return f"`{name.removeprefix('DCGM_FI_')}`"


def document() -> str:
    """The whole document."""
    fields, others = _table()
    own = {name: field for name, field in fields.items() if not name.startswith(_OF_EXPORTER)}
    others = [name for name in others if not name.startswith(_OF_EXPORTER)]
    lines = [
        "# The fields of DCGM",
        "",
        f"Of the {len(own) + len(others)} fields of DCGM 4.5.3 a [counters file]({_COUNTERS}) can show {len(own)};",
        "any other is an error with its line, or with `unknown: skip` left out with a note. Where nothing of a",
        "kind can happen a field is always 0.",
        "[identities.md](identities.md#quantities) describes the quantities. From `dcgm@4.8.3` on the names of DCGM",
        "4.6 count, too, and with `dcgm@4.9.0` those of 4.7 (`fakedev/catalog/fields/dcgm-4.6.yaml`, `dcgm-4.7.yaml`).",
        "",
        "| number | field (also called) | shows |",
        "|---|---|---|",
        *(_row(name, field) for name, field in sorted(own.items(), key=lambda each: each[1]["number"])),
        "",
        "`{a?b|nvml}` is the fact `a` where a pool gives it (`labels: {nvml_version: 12.550.163.01}`), else made of",
        "`b`: the version of NVML of the driver's, the brand of the board's name, numbers of versions of CUDA.",
        "A label of a fact that no device type has needs a pool that gives it.",
        "",
        "## Fields that cannot be shown",
        "",
        "Without `DCGM_FI_` in front:",
        "",
        "| number | reason | fields |",
        "|---|---|---|",
    ]
    by_reason: dict[str, list[str]] = {why: [] for _, why in REASONS}
    for name in others:
        by_reason[reason(name)].append(name)
    lines += [f"| {len(names)} | {why} | {', '.join(map(_code, names))} |" for why, names in by_reason.items() if names]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
