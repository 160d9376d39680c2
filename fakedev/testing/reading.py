"""Reads what a test asks for, in the test's process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from fakedev.app.run import record_head
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.config.scenarios import LoadedScenario, load_scenario
from fakedev.config.schema.files import Files
from fakedev.spec.record_head import RecordHead
from fakedev.testing.order import Order, clean_environment


@dataclass(frozen=True)
class Reading:
    """A configuration that was read, with the head of a record, and the scenario that it is of."""

    configuration: Configuration
    head: RecordHead
    scenario: LoadedScenario | None = None


def read_order(order: Order) -> Reading:
    """The configuration of an order, without the variables that would change it.

    :raises ConfigurationError: with every problem.
    """
    reading = _read(order, order.overrides_of(0))
    return _read(order, order.overrides_of(len(reading.configuration.fleet.pools))) if order.identity else reading


def _read(order: Order, overrides: Sequence[str]) -> Reading:
    environ, config, text = clean_environment(os.environ), order.config or None, order.text or None
    if order.scenario:
        scenario = load_scenario(order.scenario, environ, config, overrides)
        configuration, files, config, overrides = scenario.configurations[0]
        return Reading(
            configuration, record_head(configuration, files, config=config, overrides=overrides), scenario
        )
    files = Files(environ=environ)
    configuration = load(config, files, overrides, text=text)
    return Reading(configuration, record_head(configuration, files, config=config, text=text, overrides=overrides))
