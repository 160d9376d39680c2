"""Records of the NVML file as NumPy arrays, and the numbers and texts of facts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fakedev.exposition.numbers import number_of
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Level
from fakedev.spec.binary_records import Field, Record, text_of
from fakedev.spec.nvml_layout import ABSENT

Numbers = NDArray[np.int64]
#: From here up a number is no whole number of 64 bits.
_TOO_LARGE: Final = 2.0**63
_LEADING_NUMBER: Final = re.compile(r"[0-9]+")


def dtype_of(record: Record) -> np.dtype[Any]:
    """The type of an array of records."""
    return np.dtype([(field.name, f"S{field.text_bytes}" if field.text_bytes else "i8") for field in record.fields])


def whole(values: Floats | float, factor: float = 1.0) -> Numbers:
    """Values times a factor as whole numbers, rounded as on pages: what is no finite number is absent."""
    scaled = np.rint(np.asarray(values, dtype=np.float64) * factor)
    is_number = np.abs(scaled) < _TOO_LARGE
    return np.where(is_number, np.where(is_number, scaled, 0.0).astype(np.int64), ABSENT)


def fact_of(field: Field, facts: Mapping[str, str]) -> int | bytes:
    """The value of a field that shows a fact."""
    text = facts.get(field.fact, "")
    if field.text_bytes:
        return text_of(text, field.text_bytes)
    number = number_of(text)
    return ABSENT if math.isnan(number) else int(whole(number, field.factor))


def slices_of(profile: str) -> int:
    """The slices of the engines of a MIG profile, as ``3g.40gb``; absent for another text."""
    match = _LEADING_NUMBER.match(profile)
    return int(match[0]) if match else ABSENT


class Quantities:
    """The quantities of a level in the fields of a record, for some of its entities.

    :param records: whose fields they are written to.
    :param positions: of the entities in the level, ascending: shape as ``records``.
    """

    def __init__(self, record: Record, records: NDArray[Any], positions: NDArray[np.int64]) -> None:
        fields = record.quantities
        self._names = [field.quantity for field in fields]
        self._factors = np.array([[field.factor] for field in fields])
        self._rows: dict[str, list[int]] = {}
        for row, name in enumerate(self._names):
            self._rows.setdefault(name, []).append(row)
        # All of them follow each other: one table, a row for each entity.
        first = record.offsets[fields[0].name] // 8
        table = np.ndarray((len(records), record.size // 8), "i8", records)
        self._table = table[:, first : first + len(fields)]
        count = len(positions)
        is_run = count > 0 and int(positions[-1]) - int(positions[0]) == count - 1
        self._places = slice(int(positions[0]), int(positions[0]) + count) if is_run else positions
        self._absent = np.full(count, math.nan)

    def write(self, level: Level) -> None:
        """Write the values of a tick."""
        places, arrays = self._places, level.arrays
        values = np.array([arrays[name][places] if name in arrays else self._absent for name in self._names])
        for name, has in level.present.items():
            for row in self._rows.get(name, ()):
                values[row][~has[places]] = math.nan
        self._table[:] = whole(values, self._factors).T  # type: ignore[arg-type]  # one factor for each row
