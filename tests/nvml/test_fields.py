"""Field values: each of NVML's numbers has a value or the reason why not, by type of board.

What no type answers is listed here with its reason, so that the table of ``doc/nvml.md`` is counted and not claimed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.application import application
from tests.support.driver.nvml import bindings, boards
from tests.support.paths import ROOT

#: Of a board, of all links, and of the first links; a field that answers in one of them is answered.
_SCOPES: Final = (0, 0xFFFFFFFF, 1, 2)
#: NVIDIA's bindings of release 13.615 name the fields 1 to 308.
_LAST: Final = 308
#: Fields without a value on any type, and why.
_NOT_SIMULATED: Final = {
    "ECC by place: the chips of the catalog count errors of memory and of caches as a whole": [
        *range(7, 11), *range(13, 22), *range(24, 29),
    ],
    "counters of NVLink 1, of which no type is left": [*range(60, 74), *range(120, 132)],
    "throttling by policies that the simulation does not tell apart": [*range(77, 82)],
    "data errors of links: counted by no type": [*range(148, 160)],
    "low power of links, recovery of PCIe": [168, 169, 200, *range(223, 226)],
    "packets, bit errors and FEC of a single link": [201, 203, *range(216, 219), 220, 222, *range(235, 251)],
    "errors and power of C2C links": [*range(231, 235)],
    "raw errors and retries of single lanes and links": [*range(289, 297)],
    "power smoothing: refused, because only root may ask for it": [*range(251, 269), *range(275, 289), 300],
    "balancing of power, stalls of tensor cores, switches of the memory's clock": [272, 273, *range(297, 300)],
    "remapped banks: counted as rows": [303, 304],
}  # fmt: skip


def answers(folder: Path, device: str) -> dict[int, int]:
    """The best result of each field, on the first of eight boards of a type: 0 for a value."""
    file = folder / "nvml.map"
    found: dict[int, int] = {}
    text = boards(file, "dcgm").replace("device: h100", f"device: {device}")
    with application(text) as app, bindings(file) as nvml:
        app.tick(2)
        nvml.nvmlInit()
        board = nvml.nvmlDeviceGetHandleByIndex(0)
        for scope in _SCOPES:
            for field in nvml.nvmlDeviceGetFieldValues(board, [(number, scope) for number in range(1, _LAST + 1)]):
                found[field.fieldId] = min(found.get(field.fieldId, 1000), field.nvmlReturn)
    return found


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, int]]:
    """The results of all fields by type, for those types that the document has."""
    types = re.findall(r"^\| `([a-z0-9-]+)` \| \d+ \|", (ROOT / "doc" / "nvml.md").read_text(), re.MULTILINE)
    assert types
    return {name: answers(tmp_path_factory.mktemp(name), name) for name in types}


@pytest.mark.slow
def test_what_the_document_says(table: dict[str, dict[int, int]]) -> None:
    """How many fields each type answers, refuses and does not have."""
    text = (ROOT / "doc" / "nvml.md").read_text()
    for name, results in table.items():
        counts = [sum(result == wanted for result in results.values()) for wanted in (0, 4, 3)]
        assert sum(counts) == _LAST
        assert f"| `{name}` | {' | '.join(map(str, counts))} |" in text, counts


@pytest.mark.slow
def test_fields_without_a_value(table: dict[str, dict[int, int]]) -> None:
    """Each field that no type answers has its reason, and none that is answered somewhere."""
    reasons = [number for numbers in _NOT_SIMULATED.values() for number in numbers]
    assert len(reasons) == len(set(reasons))
    answered = {number for results in table.values() for number, result in results.items() if result == 0}
    assert answered.isdisjoint(reasons)
    assert answered | set(reasons) == set(range(1, _LAST + 1))


def test_pcie_and_grace(tmp_path: Path) -> None:
    """Repeated transfers in the fields of PCIe; links to the Grace CPU, whose counters wrap."""

    def values(nvml: Any, *fields: int) -> list[int | None]:
        board = nvml.nvmlDeviceGetHandleByIndex(0)
        found = nvml.nvmlDeviceGetFieldValues(board, list(fields))
        return [field.value.uiVal if field.nvmlReturn == 0 else None for field in found]

    file = tmp_path / "nvml.map"
    with application(boards(file, "dcgm")) as app, bindings(file) as nvml:
        app.tick(2)
        nvml.nvmlInit()
        assert app.connect().say("fault pcie-replays rate=10 devices=dgx-0/0")[0].startswith("ok")
        app.tick(3)
        replays = nvml.nvmlDeviceGetPcieReplayCounter(nvml.nvmlDeviceGetHandleByIndex(0))
        assert replays > 0
        assert values(nvml, 94, 173, 174, 177, 180) == [replays, replays, replays, 0, 0]
        sent, received = values(nvml, 197, 198)
        assert sent and received
        assert values(nvml, 170, 171, 172) == [0, None, None]
    with application(boards(file, "dcgm").replace("h100", "gh200")) as app, bindings(file) as nvml:
        app.tick(2)
        nvml.nvmlInit()
        assert values(nvml, 170, 171, 172) == [10, 1, 44712]
