"""What is fitted to a random process is what it was made with."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from fakedev.exporters.samples import CapturedFamily, Sample
from fakedev.exporters.wandering import Wander
from fakedev.fleet.entities.randomness import Floats
from fakedev.learn.pace import Paces, fitted_wander
from fakedev.learn.tracks import Seen

KEYS = np.random.default_rng(1).integers(0, 2**53, 300).astype(np.uint64)
TIMES = 60.0 * np.arange(400, dtype=np.float64)


def played(wander: Wander) -> list[tuple[Floats, Floats]]:
    """Hours of it, each minute, of some entities."""
    values = np.array([wander.values("f", KEYS, float(second), int(second)) for second in TIMES])
    return [(TIMES, values[:, place]) for place in range(len(KEYS))]


def fitted(wander: Wander, *, is_counter: bool = False) -> Wander:
    found = fitted_wander(played(wander), 60.0, is_counter=is_counter)
    assert found is not None
    return found


@pytest.mark.slow
def test_a_number() -> None:
    """Quantiles within 5 % of their span, shares of the variance within 0.1, its pace within a fifth."""
    truth = Wander((1000.0, 1200.0, 1500.0, 2500.0, 5000.0), lasts_seconds=600.0, own=0.3, noise=0.2)
    found = fitted(truth)
    assert found.quantiles[::5] == pytest.approx(truth.quantiles, abs=200)
    assert (found.own, found.noise) == pytest.approx((0.3, 0.2), abs=0.1)
    assert found.lasts_seconds == pytest.approx(600, rel=0.2)


def test_states() -> None:
    found = fitted(Wander((0.0, 1.0, 4.0), (8.0, 1.0, 1.0), lasts_seconds=900.0))
    assert found.quantiles == (0, 1, 4)
    assert found.shares == pytest.approx((0.8, 0.1, 0.1), abs=0.03)
    assert found.lasts_seconds == pytest.approx(900, rel=0.1)
    assert found.own < 0.1


@pytest.mark.slow
def test_a_counter() -> None:
    """Also where nothing says that it is one; a fall is a new beginning."""
    truth = Wander((10.0, 100.0), lasts_seconds=1200.0, growing=0.4)
    for is_counter in (True, False):
        found = fitted(truth, is_counter=is_counter)
        assert found.growing == pytest.approx(0.4, abs=0.05)
        assert found.lasts_seconds == pytest.approx(1200, rel=0.1)
        assert np.mean(found.quantiles) == pytest.approx(55, rel=0.15)
    restarted = [(times, np.where(times < 12_000, numbers, numbers - numbers[200])) for times, numbers in played(truth)]
    again = fitted_wander(restarted, 60.0, is_counter=True)
    assert again is not None
    assert np.mean(again.quantiles) == pytest.approx(55, rel=0.15)


def test_what_does_not_move() -> None:
    """A constant is none; what differs by entity only stays with its entity."""
    assert fitted_wander([(TIMES, np.full(400, 7.0))] * 2, 60.0, is_counter=False) is None
    assert fitted(Wander((0.0, 100.0), own=1.0)).own == pytest.approx(1.0)


def test_rows_of_a_family() -> None:
    """Each of its own labels; a series goes on when its pod changes; without a history the pace is assumed."""
    calls = []

    def history(name: str) -> Iterable[tuple[str, Seen]]:
        calls.append(name)
        for place, (times, numbers) in enumerate(played(Wander((0.0, 10.0), lasts_seconds=600.0))[:2]):
            labels = ("gpu", "0"), ("kind", f"k{place}"), ("pod", "a")
            yield "t", Seen("f", labels, times[:200], numbers[:200] + 100 * place)
            yield "t", Seen("f", (*labels[:2], ("pod", "b")), times[200:], numbers[200:] + 100 * place)

    paces = Paces(history, None, 60.0)
    family = CapturedFamily("f", "gauge", "", (Sample((), "5.5", has_timestamp=False),))
    first, second = (paces(family, (("kind", kind),), family.samples) for kind in ("k0", "k1"))
    assert first is not None
    assert second is not None
    assert first.quantiles[-1] <= 10
    assert second.quantiles[0] >= 100
    assert first.lasts_seconds == pytest.approx(600, rel=0.5)
    assert paces(family, (("kind", "k2"),), family.samples) == Wander((5.225, 5.775))
    assert calls == ["f"]
