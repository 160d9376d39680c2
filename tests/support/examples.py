"""How many examples the property tests try: all of them in make test-long, else a sixteenth, which is always the same.

That is for what counts its examples here: hypothesis, and the tests marked ``deep``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import pytest
from hypothesis import HealthCheck, settings

Thing = TypeVar("Thing")
#: The share of the examples that each profile tries, as one of so many.
_ONE_OF: Final = {"fast": 16, "full": 1}
#: One of these.
PROFILE: Final = os.environ.get("FAKEDEV_HYPOTHESIS_PROFILE", "full")
#: What Hypothesis itself tries where a test names no number.
_DEFAULT_COUNT: Final = 100


def examples(full_count: int) -> int:
    """The number of examples of a test that tries ``full_count`` at full depth."""
    return max(2, full_count // _ONE_OF.get(PROFILE, 1))


def share_of(things: Sequence[Thing], number: int) -> Sequence[Thing]:
    """What a test marked ``deep`` tries in place of all things; another share for each number, e.g. of a parameter."""
    step = len(things) // examples(len(things))
    return things[number % step :: step]


def only_long(*parameters: object) -> list[Any]:
    """Parameters of a test that ``make test-long`` tries besides those of ``make test``; a tuple is a row of them."""
    rows = (row if isinstance(row, tuple) else (row,) for row in parameters)
    return [pytest.param(*row, marks=pytest.mark.long) for row in rows]


def load_profile() -> None:
    """Give property tests the time and the number of examples that the profile says.

    :raises ValueError: for an unknown profile.
    """
    if PROFILE not in _ONE_OF:
        raise ValueError(f"FAKEDEV_HYPOTHESIS_PROFILE is {PROFILE!r}: it must be one of {', '.join(_ONE_OF)}")
    # Where a change is judged, the examples are always the same: a new find must not fail an unrelated change.
    always_same = PROFILE == "fast" or "CI" in os.environ
    # How long an example takes says nothing on a machine that is busy with other things.
    settings.register_profile(
        "fakedev",
        deadline=None,
        derandomize=always_same,
        max_examples=examples(_DEFAULT_COUNT),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("fakedev")
