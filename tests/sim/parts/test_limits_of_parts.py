"""Parts that ask for more than they are: a part never uses more of its board than its share."""

from __future__ import annotations

import pytest

from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.sim.fleet import Fleet
from fakedev.spec.fleet import PoolSpec
from tests.support.calibration import catalog_type
from tests.support.fleets import advance, make_fleet, pool_of, start


def shown(fleet: Fleet, level: str, name: str) -> float:
    """A quantity of the first device or part."""
    return float(fleet.state.levels[level].arrays[name][0])


def divided(device: str, profiles: str) -> PoolSpec:
    """A pool of one board of the catalog in instances."""
    pool = f"{{name: p, nodes: 1, node-name: p-0, device: {device}, devices-per-node: 1, mig: [{profiles}]}}"
    return load(None, Files(environ={}), text=f"version: 1\nfleet: {{pools: [{pool}]}}\n").fleet.pools[0]


def test_tensor_pipes_of_an_instance() -> None:
    """Full load and all tensor pipes on three of seven slices are three sevenths of the board's usage and power."""
    fleet = make_fleet(divided("a100", "3g.20gb, 3g.20gb"))
    start(fleet, "p-0/0/0", "100:0:0", metrics={"tensor": "100%"})
    advance(fleet, 5)
    assert shown(fleet, "part", "usage_ratio") == 1
    assert shown(fleet, "device", "usage_ratio") == pytest.approx(3 / 7)
    plain = 49 + 311 * (0.084 + 0.916 * 3 / 7)
    assert shown(fleet, "device", "power_watts") == pytest.approx(plain, rel=0.03)


@pytest.mark.parametrize("load", [0, 40, 100])
@pytest.mark.parametrize(
    ("device", "quantities"),
    [
        ("a100", ("tensor",)),
        ("a100", ("memory-bandwidth",)),
        ("a100", ("tensor", "memory-bandwidth", "copy")),
        ("max-1550", ("memory-bandwidth",)),
        ("max-1550", ("memory-bandwidth", "copy")),
    ],
)
def test_a_board_is_what_its_parts_are(device: str, quantities: tuple[str, ...], load: int) -> None:
    """Each quantity of the board is the sum over its parts, however much is requested of one of them."""
    if device == "max-1550":
        pool, share = pool_of("p", device_type=catalog_type(device), devices_per_node=1), 1 / 2
    else:
        pool, share = divided(device, "3g.20gb, 3g.20gb"), 3 / 7
    fleet = make_fleet(pool)
    start(fleet, "p-0/0/0", f"{load}:0:0", metrics=dict.fromkeys(quantities, "100%"))
    advance(fleet, 3)
    names = ("usage_ratio", "tensor_active_ratio", "render_active_ratio", "copy_active_ratio", "memory_bandwidth_ratio")
    for name in names:
        if name in fleet.state.levels["part"].arrays:
            of_part = shown(fleet, "part", name)
            assert of_part <= 1
            assert shown(fleet, "device", name) == pytest.approx(share * of_part), name


@pytest.mark.parametrize("device", ["a100", "a100-80", "h100", "h200"])
def test_all_memory(device: str) -> None:
    """An instance of the whole board has the memory that the board can give."""
    types = {"a100": "7g.40gb", "a100-80": "7g.80gb", "h100": "7g.80gb", "h200": "7g.141gb"}
    fleet = make_fleet(divided(device.replace("-80", "-80gb"), types[device]))
    start(fleet, "p-0/0/0", "1:0:0", metrics={"memory": "100%"})
    advance(fleet, 2)
    used, free, reserved = (shown(fleet, "device", f"memory_{what}_bytes") for what in ("used", "free", "reserved"))
    assert shown(fleet, "part", "memory_used_bytes") == used
    assert free >= 0
    assert used + free + reserved == shown(fleet, "device", "memory_total_bytes")
