"""Tables of arrays of several lengths: every column is declared once, and rows are kept or joined in all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def column(axis: str, dtype: DTypeLike = np.float64) -> Any:
    """A field of a dataclass that is an array along an axis, empty at first."""
    return field(default_factory=lambda: np.zeros(0, dtype=dtype), metadata={"axis": axis})


def kept_columns(table: Any, masks: Mapping[str, NDArray[np.bool_]]) -> dict[str, Any]:
    """The columns with the rows that the mask of their axis keeps."""
    return {
        each.name: getattr(table, each.name)[masks[each.metadata["axis"]]]
        for each in fields(table)
        if "axis" in each.metadata
    }


def joined_columns(table: Any, other: Any) -> dict[str, Any]:
    """The columns of a table, then those of another."""
    return {
        each.name: np.concatenate((getattr(table, each.name), getattr(other, each.name)))
        for each in fields(table)
        if "axis" in each.metadata
    }
