"""The memory that a pool gives its devices, and the columns of its list of nodes."""

from __future__ import annotations

from itertools import islice

import pytest

from fakedev.config.load import load
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.settings.node_lists import _wrong_columns
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError

MIB = 2**20


def device_type(memory: str, device: str = "h100") -> DeviceType:
    text = f"fleet: {{pools: [{{name: p, device: {device}, memory: {memory}}}]}}\nweb: []\nworkloads: {{listen: []}}"
    return load(None, Files(environ={}), text=text).fleet.pools[0].device_type


def test_a_size() -> None:
    """The size alone: nothing is reserved, and plain work uses the same share as before."""
    usual, changed = device_type("~"), device_type("11441MiB")
    assert changed.memory_total_bytes == 11441 * MIB
    assert changed.memory_reserved_bytes == 0
    used, before = (each.ranges["memory_used_bytes"].high for each in (changed, usual))
    share = before / (usual.memory_total_bytes - usual.memory_reserved_bytes)
    assert used / changed.memory_total_bytes == pytest.approx(share)


def test_all_keys() -> None:
    """What is reserved is neither used nor free, and used memory is a multiple of the page."""
    text = """
fleet:
  pools:
    - {name: p, device: t4, devices-per-node: 1, memory: {total: 1000MiB, reserved: 100MiB, page: 7MiB}}
workloads: {listen: [], base: [{name: w, profile: "10:0:0", metrics: {memory: 500MiB}}]}
web: []
"""
    fleet = Fleet(load(None, Files(environ={}), text=text).fleet)
    fleet.advance()
    used, free = (float(values[0]) / MIB for values in (fleet.memory_used_bytes, fleet.memory_free_bytes))
    assert used % 7 == 0
    assert used + free == 900


@pytest.mark.parametrize(
    ("memory", "device", "said"),
    [
        ("{total: 1GiB, reserved: 1GiB}", "h100", "memory: reserved 1073741824 leaves nothing of total 1073741824"),
        ("1GiB", "intel-max-1550", "has tiles with memory of their own: remove it"),
        ("{reserved: 1GiB}", "h100", "'total' is missing"),
    ],
)
def test_problems(memory: str, device: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        device_type(memory, device)


class CountedText(str):
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedText.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_each_column_is_compared_a_few_times() -> None:
    """Twenty thousand empty columns took minutes: each was compared with all before it."""
    columns: list[str] = ["name", *(CountedText("") for _ in range(20_000))]
    problems = list(islice(_wrong_columns(columns), 20_000))
    assert problems[1] == "has the column '' twice"
    assert CountedText.compared < 20 * len(columns)
