"""The drafts from which a contributor makes a new release: of a field header, and of a counters file."""

from __future__ import annotations

from tests.support.source.release_draft import counters_draft, fields_draft

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
    text = "DCGM_FI_DEV_FB_USED_BYTES, gauge, Used.\nDCGM_FI_PROF_PCIE_TX_BYTES, gauge, Sent.\nDCGM_FI_NO, gauge, N.\n"
    draft = list(counters_draft(text, "dcgm@4.8.4", "dcgm-4.7"))
    assert draft[3:7] == [
        "    renamed-counters:",
        "      DCGM_FI_DEV_FB_USED: DCGM_FI_DEV_FB_USED_BYTES, gauge, Used.",
        "    counters: |",
        "      DCGM_FI_PROF_PCIE_TX_BYTES, gauge, Sent.",
    ]
    assert "    # not in the file: DCGM_FI_DEV_GPU_TEMP" in draft
    assert draft[-1].startswith("    # counters:3: left out: DCGM_FI_NO: ")
