"""Random processes in the place of quantities: their distribution, their pace, and that nothing else moves them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fakedev.config.load import load
from fakedev.config.sample_page import fleet_after
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.samples import read_page
from fakedev.exporters.sources import DeviceSource, by_identity
from fakedev.exporters.wandering import Wander
from fakedev.fleet.entities.randomness import Floats
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError

KEYS: NDArray[np.uint64] = np.random.default_rng(3).integers(0, 2**53, 600).astype(np.uint64)
TIMES = range(0, 18_000, 60)


def played(wander: Wander) -> Floats:
    """Its values each minute, shape (times, entities)."""
    return np.array([wander.values("f", KEYS, float(second), second) for second in TIMES])


def correlation(values: Floats, steps: int) -> float:
    """From value to value some steps later, of all entities together."""
    return float(np.corrcoef(values[:-steps].ravel(), values[steps:].ravel())[0, 1])


def test_the_distribution() -> None:
    """Quantiles are those that were given."""
    values = played(Wander((0.0, 10.0, 100.0), lasts_seconds=300.0, own=0.02, noise=0.3))
    assert np.quantile(values, [0.25, 0.5, 0.75]) == pytest.approx([5, 10, 55], rel=0.1)
    assert 0 <= values.min() < values.max() <= 100


@pytest.mark.slow
def test_its_parts() -> None:
    """What an entity keeps, what stays for ten minutes, and what each tick changes."""
    assert correlation(played(Wander((0.0, 1.0), own=1.0)), 200) == pytest.approx(1.0)
    assert abs(correlation(played(Wander((0.0, 1.0), noise=1.0)), 1)) < 0.03
    slow = played(Wander((0.0, 1.0), lasts_seconds=600.0))
    assert correlation(slow, 1) > 0.95
    assert correlation(slow, 5) == pytest.approx(0.7, abs=0.08)
    assert abs(correlation(slow, 30)) < 0.1
    mixed = played(Wander((0.0, 1.0), lasts_seconds=60_000.0, own=0.3, noise=0.4))
    assert correlation(mixed, 1) == pytest.approx(0.6, abs=0.06)


def test_states() -> None:
    """Each as often as it should be, and for as long; nothing between them."""
    values = played(Wander((0.0, 1.0, 4.0), (8.0, 1.0, 1.0), lasts_seconds=900.0))
    states, counts = np.unique(values, return_counts=True)
    assert states.tolist() == [0, 1, 4]
    assert counts / counts.sum() == pytest.approx([0.8, 0.1, 0.1], abs=0.02)
    changes = (np.diff(values, axis=0) != 0).mean()
    assert changes == pytest.approx((1 - 0.66) * 60 / 900, rel=0.1)


def test_counters() -> None:
    """They begin at 0, never fall, gain at their rate, and rest between."""
    values = played(Wander((10.0,), lasts_seconds=1200.0, growing=0.25))
    assert (values[0] == 0).all()
    gains = np.diff(values, axis=0)
    assert gains.min() >= 0
    assert gains.mean() / 60 == pytest.approx(10, rel=0.03)
    assert (gains == 0).mean() == pytest.approx(0.72, abs=0.04)
    assert gains.max() / 60 == pytest.approx(40)


IDENTITY = """
name: own
based-on: dcgm@4.8.3
also:
- {name: own_speed, type: gauge, help: speed, format: go-whole, random: {quantiles: [1000, 5000], lasts: 5m}}
"""
FLEET = """
fleet:
  seed: %d
  pools: [{name: a, nodes: %d, device: l40s, devices-per-node: 2, identity: ./own.yaml}]
"""


def shown(seed: int, nodes: int, seconds: float) -> dict[str, str]:
    """The family of a fleet after some time, by UUID."""
    made = {"/f/fleet.yaml": FLEET % (seed, nodes), "/f/own.yaml": IDENTITY}
    configuration = load("/f/fleet.yaml", Files(environ={}, made=made), ["fleet.epoch=1700000000"])
    fleet = fleet_after(seconds, configuration.fleet)
    ((identity, members),) = by_identity(fleet.roster.shown, configuration.identities)
    page = read_page(Page(LabelCache(identity, DeviceSource.of(fleet, identity)), members).render(fleet.shown))
    return {dict(sample.labels)["UUID"]: sample.number for sample in page.families["own_speed"].samples}


@pytest.mark.slow
def test_on_a_page() -> None:
    """A device's value depends on seed, name and time; not on how many there are."""
    small, large = shown(1, 1, 30), shown(1, 3, 30)
    assert len(large) == 6
    assert small.items() < large.items()
    assert len({*large.values()}) == 6
    assert small != shown(1, 1, 600)
    assert set(small.values()).isdisjoint(shown(2, 1, 30).values())


@pytest.mark.parametrize(("random", "text"), [
    ("{quantiles: [2, 1]}", "they must not fall: the smallest first"),
    ("{quantiles: [1, 2], shares: [1]}", "give one for each of the 2 quantiles"),
    ("{quantiles: [1, 2], own: 0.7, noise: 0.7}", "at most 1 together"),
    ("{quantiles: [1], constant: 3}", "constant"),
    ("{lasts: 5m}", "quantiles"),
])  # fmt: skip
def test_mistakes(random: str, text: str) -> None:
    own = IDENTITY.replace("{quantiles: [1000, 5000], lasts: 5m}", random)
    with pytest.raises(ConfigurationError, match=text):
        load("/f/fleet.yaml", Files(environ={}, made={"/f/fleet.yaml": FLEET % (1, 1), "/f/own.yaml": own}))
