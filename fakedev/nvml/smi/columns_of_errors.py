"""Fields of ``--query-gpu`` that count errors of memory and caches; and all fields of that switch, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fakedev.nvml.smi import values
from fakedev.nvml.smi.columns import Column, by_name
from fakedev.nvml.smi.columns_of_boards import IDENTITY, MODES
from fakedev.nvml.smi.columns_of_ticks import PERFORMANCE, POWER_AND_CLOCKS
from fakedev.nvml.smi.values import REMAPPED, Read, absent, enabled, total, while_none, whole

_PLACES: Final = ("register_file", "l1_cache", "l2_cache", "texture_memory", "cbu")
_SPANS: Final = (("volatile", "since the driver was loaded"), ("aggregate", "of all time"))
_OF_CACHES: Final = "Errors of caches: known while there are none, their places are not simulated."


def _counters() -> Iterator[Column]:
    for kind in ("corrected", "uncorrected"):
        memory, cache = f"memory_{kind}", f"cache_{kind}"
        for span, doc in _SPANS:
            name = f"ecc.errors.{kind}.{span}"
            for place in ("device_memory", "dram"):
                yield Column(f"{name}.{place}", whole(memory), f"Errors of the memory {doc}, {kind}.")
            for place in _PLACES:
                yield Column(f"{name}.{place}", absent, "Errors of single caches: not of this kind of board.")
            yield Column(f"{name}.sram", whole(cache), f"Errors of caches {doc}, {kind}.")
            yield Column(f"{name}.total", total(memory, cache), f"All errors {doc}, {kind}.")


def _known(what: str) -> Read:
    return while_none(what, "cache_uncorrected")


ERRORS: Final = (
    Column("ecc.mode.current", enabled("ecc_mode"), "Whether errors of the memory are corrected."),
    Column("ecc.mode.pending", enabled("ecc_mode"), "The same after a reboot."),
    *_counters(),
    *(
        Column(f"ecc.errors.uncorrected.{span}.sram.{name}", _known("0"), _OF_CACHES)
        for span, _ in _SPANS
        for name in ("parity", "secded")
    ),
    Column("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", _known("No"), _OF_CACHES),
    *(
        Column(f"ecc.errors.uncorrected.aggregate.sram.{name}", _known("0"), _OF_CACHES)
        for name in ("l2", "sm", "mcu", "pcie", "other")
    ),
    Column("retired_pages.single_bit_ecc.count", whole("retired_single_bit"),
           "Pages that are out of use after corrected errors.", aliases=("retired_pages.sbe",)),
    Column("retired_pages.double_bit.count", whole("retired_double_bit"),
           "Pages that are out of use after an uncorrected error.", aliases=("retired_pages.dbe",)),
    Column("retired_pages.pending", values.retired_pending, "Whether pages go out of use at the next reboot."),
    Column("remapped_rows.correctable", whole("remapped_corrected"),
           "Rows that were replaced after corrected errors.", aliases=("remapped_rows.sbe",)),
    Column("remapped_rows.uncorrectable", whole("remapped_uncorrected"),
           "Rows that were replaced after an uncorrected error.", aliases=("remapped_rows.dbe",)),
    Column("remapped_rows.pending", values.yes("remap_pending"), "Whether a row is replaced at the next reset."),
    Column("remapped_rows.failure", values.yes("remap_failure"), "Whether a row could not be replaced."),
    Column("remapped_rows.histogram.max", values.banks, "Banks of which no row is replaced; known while none is."),
    *(
        Column(f"remapped_rows.histogram.{name}", while_none("0", *REMAPPED),
               "Banks with fewer rows left; known while none is replaced.")
        for name in ("high", "partial", "low", "none")
    ),
)  # fmt: skip

#: All fields, in the order of the driver.
COLUMNS: Final = (*IDENTITY, *PERFORMANCE, *ERRORS, *POWER_AND_CLOCKS, *MODES)
BY_NAME: Final = by_name(COLUMNS)
