"""doc/plausibility.md: the published quantiles, those of a simulated week, and how far these are apart."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.documents.plausible import BOUND, DOCUMENT, QUANTILES, SEREN, page


def rows() -> list[list[str]]:
    """The cells of the page's table."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")][1:]


@pytest.mark.parametrize("number", range(len(SEREN)), ids=[each.what for each in SEREN])
def test_distances(number: int) -> None:
    """Each follows from the two rows above each other, and says whether it is within the bound."""
    published, simulated = rows()[2 * number : 2 * number + 2]
    first, last = 2, 2 + len(QUANTILES)
    assert published[:2] == [SEREN[number].what, "Seren"]
    assert tuple(map(float, published[first:last])) == SEREN[number].values
    apart = np.abs(np.array(simulated[first:last], dtype=float) - SEREN[number].values).mean() / SEREN[number].scale
    assert float(simulated[last]) == pytest.approx(apart, abs=1e-3)
    assert simulated[last + 1] == ("within the bound" if apart <= BOUND else "**off**")


@pytest.mark.long
def test_the_page_is_up_to_date() -> None:
    assert page() == DOCUMENT.read_text(encoding="utf-8"), "run make plausible"
