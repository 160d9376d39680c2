"""Sums over the workloads of each device: in the order of the workloads' keys, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Positions
from fakedev.fleet.workloads.table import DeviceSums

KINDS = ("compute", "memory", "tensor")


@pytest.mark.parametrize("count", [1, 12, 1500])
@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([0.0, 0.1, 0.5]))
def test_one_after_the_other(count: int, seed: int, workloads: int, gone: float) -> None:
    """Few workloads of very many devices are summed in another way than many of few: both as plain additions."""
    random = np.random.default_rng(seed)
    chosen = [np.flatnonzero(random.random(count) >= gone * place) for place in range(workloads)]
    chosen = [devices if len(devices) else np.array([0]) for devices in chosen]
    counts = np.array([len(devices) for devices in chosen])
    keys = random.integers(0, 3, workloads).astype(np.uint64)
    kinds = random.integers(0, len(KINDS), workloads)
    values = random.standard_normal(int(counts.sum())) * 10.0 ** random.integers(-9, 9, int(counts.sum()))
    sums = DeviceSums(np.concatenate(chosen), counts, keys, KINDS, kinds, {})
    assert sums.by_device(values, count).tolist() == plainly(chosen, keys.tolist(), values, count, range(workloads))
    by_kind = sums.by_kind(values, count).tolist()
    for kind, row in enumerate(by_kind):
        assert row == plainly(chosen, keys.tolist(), values, count, np.flatnonzero(kinds == kind).tolist())


def plainly(
    chosen: list[Positions], keys: list[int], values: Floats, count: int, which: range | list[int]
) -> list[float]:
    ends = np.cumsum([len(devices) for devices in chosen]).tolist()
    found = [0.0] * count
    for place in sorted(which, key=lambda each: (keys[each], each)):
        own = values[ends[place] - len(chosen[place]) : ends[place]].tolist()
        for device, value in zip(chosen[place].tolist(), own, strict=True):
            found[device] += value
    return found
