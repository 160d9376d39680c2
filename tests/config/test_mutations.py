"""A wrong value at any place of a configuration is a problem with its place, never a traceback."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import pytest
import yaml

from fakedev.exporters.settings.keys import IDENTITY
from fakedev.fleet.settings.devices import DEVICE_TYPE
from fakedev.schema.places import ConfigurationError
from tests.support.configurations import loaded, pool, problems
from tests.support.documents.configuration import json_schema
from tests.support.examples import examples
from tests.support.paths import ROOT
from tests.support.source.mutations import VALUES, mutations

#: Every section, with what refers to what.
FULL: Final = """
version: 1
fleet:
  seed: 1
  pools:
    - {name: a, nodes: 2, node-name: "a{}", device: h100, devices-per-node: 2, labels: {row: "7"},
       devices: [{index: 1, labels: {rack: r}}],
       churn: {rate: 6/h, workloads: [{name: c, devices: [1, 2], lasts: [5m, 1h], profile: "50", pods: job}]}}
    - {name: b, nodes: [b], device: dg1, identity: collectd}
web:
  - {listen: "127.0.0.1:9400", serve: all, pool: a, pages: [{path: /x, pool: a}]}
  - {listen: "tcp:9401", identity: dcgm, serve: metrics}
workloads:
  listen: [{listen: /w.sock, allow: [clock], node: a0}]
  base: [{name: w, devices: [a0/0], profile: [[10, 1, 5], {load: 20}], limits: {power_watts: 60}}]
faults: [{kind: lost, devices: [a0/1], duration: 5s}]
queues: {names: {q: {max-waiting: 5}}, listen-clients: ["127.0.0.1:9997"], listen-backends: ["127.0.0.1:9999"]}
tester: {plans: [{name: p, queue: q, frontend: "127.0.0.1:9", rate: 20/s}], reports: [r.json]}
journal: {file: j}
log: {level: info}
"""
#: A device type with all that has a structure.
DEVICE: Final = """
name: acme
facts: {product_name: Acme, vendor: Acme, driver_version: "1"}
memory: {total: 96GiB}
ranges: {usage_ratio: [0, 1], power_watts: [60, 800]}
connections: {pcie: {generation: 5, width: 16}}
"""
FAMILY: Final = "{name: F%d, type: gauge, help: h, quantity: usage_ratio, format: int}"

OWN_IDENTITY: Final = f"""
name: i
labels: [{{name: gpu, value: "{{index}}"}}]
families: [{FAMILY % 1}, {FAMILY % 2}]
"""


def _device(text: str) -> None:
    loaded(pool(device="d.yaml"), {"d.yaml": text})


def _identity(text: str) -> None:
    loaded(pool(device="h100", identity="i.yaml"), {"i.yaml": text})


def _own(name: str) -> str:
    return (ROOT / "fakedev" / "catalog" / name).read_text(encoding="utf-8")


#: The text, the schema that adds keys which it lacks, and what reads it.
TREES: Final[dict[str, tuple[str, Mapping[str, Any], Any]]] = {
    "configuration": (FULL, json_schema(), loaded),
    "device": (DEVICE, DEVICE_TYPE.schema(), _device),
    "device of the catalog": (_own("devices/h100-sxm5-80gb.yaml"), DEVICE_TYPE.schema(), _device),
    "identity": (f"{{name: i, based-on: dcgm@4.8.2, also: [{FAMILY % 1}]}}", IDENTITY.schema(), _identity),
    "identity of its own": (OWN_IDENTITY, IDENTITY.schema(), _identity),
}
#: How many mutations of each tree are tried: 18,000 would take minutes.
COUNT: Final = examples(400)


def _stride(total: int) -> int:
    """The distance between mutations that are tried: it has no factor in common with the number of values."""
    return next(stride for stride in range(max(1, total // COUNT), total + 1) if math.gcd(stride, len(VALUES)) == 1)


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("name", TREES)
def test_no_value_breaks_loading(name: str) -> None:
    """Places all over the tree, keys that it could have, every shape of value: good, or problems with their places."""
    text, schema, load = TREES[name]
    load(text)
    changes = list(mutations(yaml.safe_load(text), schema))
    for path, value, changed in changes[:: _stride(len(changes))]:
        try:
            load(changed)
        except ConfigurationError as error:
            assert all(problem.text and problem.file and problem.line for problem in error.problems), (path, value)
        except Exception as error:  # whatever it is, the message names the mutation
            raise AssertionError(f"{path} with {VALUES[value]!r}") from error


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "devices: needs at least 1 in its list"),
        ("''", "devices: must be"),
    ],
)
def test_churn_without_devices(text: str, problem: str) -> None:
    kind = f"{{name: c, devices: {text}, lasts: 5m, profile: '50'}}"
    assert problem in problems(pool(device="h100", churn=f"{{rate: 6/h, workloads: [{kind}]}}"))[0]


def test_default_workloads_of_churn() -> None:
    """They are no mistake of the user, also where what is written in their place is one: each problem has a line."""
    found = problems(pool(device="h100", churn="{rate: 6/h, workloads: x}"))
    assert [each.partition(":")[0] for each in found] == ["f.yaml"]


@pytest.mark.parametrize("empty", ["''", "{listen: ''}", "[]", "{}", "null"])
def test_an_empty_address(empty: str) -> None:
    queues = f"queues: {{names: [q], listen-clients: [{empty}]}}"
    for text in (f"web: [{empty}]", f"workloads: {{listen: [{empty}]}}", queues):
        assert problems(text)[0].startswith("f.yaml:1: ")
