"""The drafts from which a contributor makes a new release: of a field header, and of a counters file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.identities import loaded
from tests.support.source.release_draft import counters_draft, fields_draft, main

DRIVER = "DCGM_FI_SYSTEM_DRIVER_VERSION"

#: In the form of dcgm_fields.h of DCGM 4.6: new names have the numbers, old ones are names of new ones.
HEADER = """
#define DCGM_FI_MAX_FIELDS 1700
#define DCGM_FI_DEV_SM_CLOCK 100
#define DCGM_FI_DEV_GPU_TEMP_CELSIUS 150 //!< in degrees
#define DCGM_FI_DEV_CORE_POWER 155
#define DCGM_FI_DEV_SM_CLOCK_HERTZ 1603
#define DCGM_FI_DEV_SOMETHING_NEW 1700
#define DCGM_FI_DEV_GPU_TEMP                 DCGM_FI_DEV_GPU_TEMP_CELSIUS        //  150
"""


def test_a_header() -> None:
    """Renames by name and by number; a new field shows what a known one shows whose name has another unit."""
    draft = list(fields_draft(HEADER, "dcgm"))
    assert [line for line in draft if not line.startswith("# not in the header: DCGM_FI_")] == [
        "based-on: dcgm",
        "renamed:",
        "  DCGM_FI_DEV_GPU_TEMP: DCGM_FI_DEV_GPU_TEMP_CELSIUS",
        "  DCGM_FI_DEV_POWER_USAGE: DCGM_FI_DEV_CORE_POWER",
        "fields:",
        "  DCGM_FI_DEV_SM_CLOCK_HERTZ: {number: 1603, quantity: core_frequency_mhz, format: int, unit: Hz} # guessed",
        "not-simulated:",
        "  - DCGM_FI_DEV_SOMETHING_NEW",
    ]
    assert "# not in the header: DCGM_FI_DEV_FB_USED" in draft


def test_a_counters_file() -> None:
    """Rows in the place of others show the same quantity; rows with another text replace those of their field."""
    text = (
        'DCGM_FI_DEV_FB_USED_BYTES, gauge, Used.\nDCGM_FI_PROF_PCIE_TX_BYTES, gauge,"Sent, all."\n'
        "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND, gauge, Links.\nDCGM_FI_SYSTEM_DRIVER_VERSION, label, D\n"
        "DCGM_FI_NO, gauge, N.\n"
    )
    draft = list(counters_draft(text, "dcgm@4.8.4", "dcgm-4.7"))
    assert draft[3:9] == [
        "    renamed-counters:",
        "      DCGM_FI_DEV_FB_USED: DCGM_FI_DEV_FB_USED_BYTES, gauge, Used.",
        "      DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL: DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND, gauge, Links.",
        "      DCGM_FI_DRIVER_VERSION: DCGM_FI_SYSTEM_DRIVER_VERSION, label, D",
        "    counters: |",
        '      DCGM_FI_PROF_PCIE_TX_BYTES, gauge,"Sent, all."',
    ]
    assert draft[9].startswith("    without: [")
    assert "DCGM_FI_DEV_GPU_TEMP" in draft[9]
    assert draft[-1].startswith("    # counters:5: left out: DCGM_FI_NO: ")


def test_the_draft_of_a_file_is_the_release() -> None:
    """4.9.0 comes out of its own counters and 4.8.4: the same rows are renamed, to the same names."""
    identity = loaded("dcgm@4.9.0")
    rows = [f"{family.name}, {family.kind}, {family.help}" for family in identity.families]
    draft = list(counters_draft("\n".join([*rows, f"{DRIVER}, label, Driver"]), "dcgm@4.8.4", "dcgm-4.7"))
    pairs = [line.split(", ")[0].split() for line in draft if ": DCGM" in line]
    assert [old for old, _ in pairs if old not in {f"{family.name}:" for family in loaded("dcgm@4.8.4").families}] == [
        "DCGM_FI_DRIVER_VERSION:"
    ]
    assert len(pairs) == 23
    assert "DCGM_FI_DEV_XID_ERRORS: DCGM_FI_DEV_XID_ERROR," in " ".join(draft)
    assert [line.split(",")[0].strip() for line in draft[draft.index("    counters: |") + 1 :]] == [
        "DCGM_FI_DEV_FB_CAPACITY_BYTES"
    ]


def test_a_mistake_has_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that the exporter does not take, and a release that there is not."""
    file = tmp_path / "counters.csv"
    for text, since, shown in (('A, gauge, "B', "dcgm@4.9.0", "counters:1"), ("A, gauge, B", "dcgm@9.9", "4.9.0")):
        file.write_text(text)
        with pytest.raises(SystemExit):
            main([str(file), "--since", since, "--fields", "dcgm-4.7"])
        assert shown in capsys.readouterr().err
