"""Composition of a replay: a trace that was placed, and options, to a scenario that all commands take."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fakedev.base.errors import did_you_mean
from fakedev.config.load import load
from fakedev.exporters.settings.catalog import Catalog
from fakedev.replay.schedule import Plan, configuration_of
from fakedev.replay.trace import Trace
from fakedev.scenario.entries import Scenario, Scraping
from fakedev.scenario.settings import LoadedScenario, Read
from fakedev.schema.files import Files
from fakedev.schema.places import Report


class Replay(NamedTuple):
    """A trace as a scenario.

    :ivar configuration: the text of its configuration.
    """

    scenario: LoadedScenario
    configuration: str


def devices_of(trace: Trace, given: Mapping[str, str], otherwise: str | None) -> dict[str, str]:
    """The device type of each model of a trace's nodes: as given, or of the same name in the catalog.

    :param given: device types by model.
    :param otherwise: the device type of models that ``given`` does not have.
    :raises ValueError: for models without a device type, and device types and models that there are not.
    """
    catalog = Catalog(Files(), Report())
    known = {name.lower(): name for name in catalog.device_names()}
    for name in [*given.values(), *([otherwise] if otherwise else [])]:
        if name.lower() not in known:
            raise ValueError(f"no device type {name!r}{did_you_mean(name, known)}; fakedev devices lists them")
    for model in given:
        if model not in trace.models:
            hint = did_you_mean(model, trace.models) or f"; its models are {', '.join(trace.models)}"
            raise ValueError(f"--map: the trace has no nodes of the model {model!r}{hint}")
    found = {model: given.get(model) or otherwise or known.get(model.lower(), "") for model in trace.models}
    missing = [model for model, device in found.items() if not device]
    if missing == [""]:
        raise ValueError("the trace does not say which boards its nodes have: give --device, as --device h100")
    if missing:
        words = ",".join(f"{model}=DEVICE" for model in missing)
        text = f"no device type is known for {', '.join(missing)}"
        raise ValueError(f"{text}: give --map {words}, or --device DEVICE for all; fakedev devices lists them")
    return found


def scenario_of(
    plan: Plan, name: str, devices: Mapping[str, str], fleet: Mapping[str, object], overrides: Sequence[str],
    span_seconds: float,
) -> Replay:
    """The replay as a scenario.

    :param fleet: keys of ``fleet`` besides the pools.
    :param overrides: values of the configuration, as ``--set`` takes them.
    :raises ConfigurationError: when the nodes cannot be those of a fleet, or an override cannot be used.
    """  # fmt: skip
    files = Files(environ=os.environ)
    text = json.dumps(configuration_of(plan, devices, fleet), indent=1)
    configuration = load(None, files, overrides, text)
    tick_seconds = configuration.fleet.tick_seconds
    interval = tick_seconds * max(1, round(Scraping.interval_seconds / tick_seconds))
    scenario = Scenario(
        name, span_seconds, configuration.fleet.seed, Scraping(interval, min(10.0, interval), interval),
        tuple(occurrence.entry for occurrence in plan.occurrences), plan.occurrences,
    )  # fmt: skip
    loaded = LoadedScenario(scenario, (Read(configuration, files, "", tuple(overrides)),), configuration.notes)
    return Replay(loaded, text)
