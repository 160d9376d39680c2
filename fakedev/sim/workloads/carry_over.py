"""The table of running workloads after a reload: new rows for the new devices, with the history of the old rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fakedev.sim.entities.randomness import Floats, Keys, first_noise
from fakedev.sim.workloads.metric_uses import MetricUses
from fakedev.sim.workloads.schedule import Positions
from fakedev.sim.workloads.table import Table


def reindexed_table(old: Table, fresh: Table, new_of: Positions, count: int, seed: int, tick: int) -> Table:
    """The fresh rows of the workloads, with the history of the old rows of the same workloads.

    A new pair of a workload and a device begins as if the workload started with the next tick.

    :param fresh: rows of the same workloads in the same order, as at their start.
    :param new_of: the new position of each old device, -1 if it was removed.
    :param count: the number of new devices.
    """
    was = _former_pairs(old, fresh, new_of, count)
    uses = {
        metric: _carried_uses(old.uses[metric], each, was, len(old.device)) if metric in old.uses else each
        for metric, each in fresh.uses.items()
    }
    return replace(
        fresh,
        uses=uses,
        start=old.start,
        done=old.done,
        load=old.load,
        is_fresh=old.is_fresh,
        noise=_noise(old, was, fresh.pair_keys, seed, tick),
        share=_carried(old.share, was, fresh.share),
        before=_carried(old.before, was, fresh.before),
    )


def _noise(old: Table, was: Positions, keys: Keys, seed: int, tick: int) -> Floats:
    """The noise of the pairs; only new pairs draw theirs."""
    noise = _carried(old.noise, was, np.zeros(len(was)))
    came = np.flatnonzero(was < 0)
    noise[came] = first_noise(seed, keys[came], tick)
    return noise


def _former_pairs(old: Table, fresh: Table, new_of: Positions, count: int) -> Positions:
    """The old position of each fresh pair, -1 for a new pair: shape (fresh pairs,)."""
    places = new_of[old.device]
    stays = np.flatnonzero(places >= 0)
    codes = old.owner[stays] * count + places[stays]
    order = np.argsort(codes)
    codes, stays = codes[order], stays[order]
    wanted = fresh.owner * count + fresh.device
    if not len(codes):
        return np.full(len(wanted), -1, dtype=np.int64)
    found = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
    return np.where(codes[found] == wanted, stays[found], -1)


def _carried_uses(old: MetricUses, fresh: MetricUses, was: Positions, pairs: int) -> MetricUses:
    """The fresh uses of a metric, with the demand and counts of the old pairs."""
    rows = np.full(pairs, -1, dtype=np.int64)
    rows[old.pair] = np.arange(len(old.pair))
    pair_was = was[fresh.pair]
    row_was = np.where(pair_was >= 0, rows[pair_was], -1)
    return replace(
        fresh,
        amount=_carried(old.amount, row_was, fresh.amount),
        before=_carried(old.before, row_was, fresh.before),
        carried=_carried(old.carried, row_was, fresh.carried),
        counted=_carried(old.counted, row_was, fresh.counted),
    )


def _carried(old: Floats, was: Positions, otherwise: Floats) -> Floats:
    """The old values of old pairs, other values for new pairs."""
    return np.where(was >= 0, old[was], otherwise) if len(old) else otherwise
