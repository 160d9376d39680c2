"""The metrics that a workload may demand beside plain load, with their units. Imports no NumPy."""

from __future__ import annotations

from typing import Final

from fakedev.spec.errors import did_you_mean
from fakedev.spec.quantities import ERROR_COUNTERS, QUANTITY_ALIASES, quantity_name
from fakedev.spec.units import BYTES, BYTES_PER_SECOND, COUNTS_PER_SECOND, RATIO, Unit

#: Counters that workloads can raise: the demand is a rate, the result are whole numbers.
COUNTED: Final[tuple[str, ...]] = tuple(name for name in ERROR_COUNTERS if name != "row_remap_failure")

#: Quantity to the unit of its absolute values.
ASKABLE: Final[dict[str, Unit]] = {
    "memory_used_bytes": BYTES,
    "memory_bandwidth_ratio": RATIO,
    "tensor_active_ratio": RATIO,
    "copy_active_ratio": RATIO,
    "encoder_active_ratio": RATIO,
    "decoder_active_ratio": RATIO,
    "render_active_ratio": RATIO,
    "fabric_tx_bytes_per_second": BYTES_PER_SECOND,
    "fabric_rx_bytes_per_second": BYTES_PER_SECOND,
    "pcie_tx_bytes_per_second": BYTES_PER_SECOND,
    "pcie_rx_bytes_per_second": BYTES_PER_SECOND,
    "hung": RATIO,
} | dict.fromkeys(COUNTED, COUNTS_PER_SECOND)

#: Quantities without a maximum, so that no share of it can be demanded.
WITHOUT_SHARES: Final = frozenset((*COUNTED, "hung"))

#: A share that may also be demanded in bytes per second, if the device's bandwidth is known.
AS_TRAFFIC: Final = "memory_bandwidth_ratio"

#: Quantities that grow with the speed of the work: a faster device has more of them per second.
RATES: Final = frozenset(name for name, unit in ASKABLE.items() if unit in (BYTES_PER_SECOND, COUNTS_PER_SECOND))

#: Shares of an engine, a pipe or a bandwidth: a faster device needs less of them for the same work in the same time.
ENGINES: Final = frozenset(name for name in ASKABLE if name.endswith("_ratio"))

#: Quantity to its short name.
_SHORT: Final = {quantity: alias for alias, quantity in QUANTITY_ALIASES.items()}


def asked_quantity(word: str) -> str:
    """The quantity that a word names: ``memory``, ``fabric-tx``, ``memory_used_bytes``.

    :raises ValueError: if workloads cannot demand it.
    """
    quantity = quantity_name(word.replace("-", "_"))
    if quantity not in ASKABLE:
        known = [metric_word(each) for each in ASKABLE]
        hint = did_you_mean(word.replace("_", "-"), [*known, *ASKABLE], f": give one of {', '.join(known)}")
        raise ValueError(f"{word[:100]!r} is no metric that workloads bring{hint}")
    return quantity


def metric_word(quantity: str) -> str:
    """The short name of a quantity, as in requests."""
    return _SHORT.get(quantity, quantity).replace("_", "-")
