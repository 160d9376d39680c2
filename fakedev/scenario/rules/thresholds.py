"""Faults that take a metric beyond the number with which an alert rule compares it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fakedev.exporters.row_levels import LATE
from fakedev.fleet.spec.fault_kinds import KINDS
from fakedev.fleet.spec.fleet_spec import MetricName

_SCRAPE_DURATION: Final = "scrape_duration_seconds"
#: A parameter that sets a quantity: values beyond the thresholds of rules are tried, too. Of times, that of a scrape.
_SETTERS: Final[Mapping[tuple[str, str], Collection[str]]] = {
    ("overheat", "celsius"): ("temperature_celsius", "memory_temperature_celsius"),
    ("power-cap", "watts"): ("power_limit_watts", "power_watts"),
    ("clock-lock", "megahertz"): ("core_frequency_mhz",),
    ("slow-page", "seconds"): (_SCRAPE_DURATION, LATE),
    **{(kind, "count"): KINDS[kind].moves for kind in
       ("ecc-single", "programming-errors", "driver-errors", "cache-errors", "non-compute-errors")},
    ("ecc-double", "count"): ("memory_errors_uncorrectable", "remapped_rows_uncorrectable"),
    ("pcie-replays", "rate"): ("pcie_replays",),
}
#: The part of a threshold by which a value is beyond it, and the most values that are tried of a parameter.
_BEYOND: Final = 0.03
_MOST_THRESHOLDS: Final = 8


class Threshold(NamedTuple):
    """A comparison of a rule with a number.

    :ivar metrics: the metrics of the rule.
    """

    metrics: frozenset[str]
    operator: str
    number: float


def beyond_thresholds(
    thresholds: Sequence[Threshold], names: Mapping[str, MetricName]
) -> Iterator[tuple[str, str, float]]:
    """Faults whose parameter sets the quantity that a rule compares, with values beyond the rule's threshold.

    :param names: the metrics of the pages, with their quantities.
    :returns: kind, parameter and value of each.
    """
    for (kind, parameter), quantities in _SETTERS.items():
        declared = next(parameter_spec for parameter_spec in KINDS[kind].parameters if parameter_spec.name == parameter)
        values: dict[float, None] = {}
        for metrics, operator, number in thresholds:
            if not math.isfinite(number):
                continue
            factors = {names[each].factor for each in metrics if each in names and names[each].quantity in quantities}
            factors |= {1.0} if _SCRAPE_DURATION in quantities and _SCRAPE_DURATION in metrics else set()
            for factor in sorted(factors):
                value = number / factor
                step = max(1.0, abs(value) * _BEYOND)
                value = math.ceil(value + step) if operator in (">", ">=", "!=") else value
                value = math.floor(value - step) if operator in ("<", "<=") else value
                if declared.low <= value <= declared.high:
                    values[value] = None
        for value in list(values)[:_MOST_THRESHOLDS]:
            yield kind, parameter, value
