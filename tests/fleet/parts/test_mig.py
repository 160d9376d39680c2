"""Instances of GPUs (MIG): their places on a board, and the configurations that are possible."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.exporters.settings.catalog import Catalog
from fakedev.fleet.parts.mig import Mig, instances
from fakedev.fleet.spec.device_types import MigProfile
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError, Place, Report

DIVIDED = ("a100-sxm4-40gb", "a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb")


def mig_of(device: str) -> Mig:
    loaded = Catalog(Files(environ={}), Report()).device(device, Place("device"))
    assert loaded is not None
    assert loaded.mig is not None
    return loaded.mig


def ids(names: Sequence[str], device: str = "a100-sxm4-40gb") -> list[str]:
    """The instances of some profiles: profile:id."""
    mig = mig_of(device)
    profiles = [profile for name in names if (profile := mig.profile(name))]
    assert len(profiles) == len(names)
    return [f"{part.facts['mig_profile']}:{part.facts['mig_id']}" for part in instances(mig, profiles)]


@pytest.mark.parametrize(
    ("names", "placed"),
    [
        (["7g.40gb"], ["7g.40gb:0"]),
        (["3g.20gb", "3g.20gb"], ["3g.20gb:1", "3g.20gb:2"]),
        # As NVIDIA's own tools were seen to do it: the layouts "all-balanced", and one of each from the largest down.
        (["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"], ["3g.20gb:2", "2g.10gb:3", "1g.5gb:9", "1g.5gb:10"]),
        (["4g.20gb", "2g.10gb", "1g.5gb"], ["4g.20gb:1", "2g.10gb:5", "1g.5gb:13"]),
        (["1g.5gb"] * 7, [f"1g.5gb:{number}" for number in range(7, 14)]),
        (["1g.10gb"] * 4, [f"1g.10gb:{number}" for number in range(3, 7)]),
    ],
)
def test_places(names: list[str], placed: list[str]) -> None:
    assert ids(names) == placed


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["4g.20gb", "4g.20gb"], "they take 8 compute slices, and the board has 7"),
        (["3g.20gb", "3g.20gb", "1g.5gb"],
         "there is no place for 1g.5gb beside 3g.20gb, 3g.20gb: memory slices are taken"),
        (["1g.5gb+me", "1g.5gb+me"], "1g.5gb+me is there 2 times: at most 1"),
        (["7g.40gb", "1g.5gb"], "they take 8 compute slices, and the board has 7"),
    ],
)  # fmt: skip
def test_too_much(names: list[str], text: str) -> None:
    with pytest.raises(ValueError, match="^" + text.replace("+", r"\+") + "$"):
        ids(names)


@pytest.mark.parametrize("device", DIVIDED)
@given(data=st.data())
def test_any_instances(device: str, data: st.DataObject) -> None:
    mig = mig_of(device)
    names = data.draw(st.lists(st.sampled_from([profile.name for profile in mig.profiles]), max_size=8))
    profiles: list[MigProfile] = [profile for name in names if (profile := mig.profile(name))]
    try:
        parts = instances(mig, profiles)
    except ValueError:
        return
    numbers = [int(part.facts["mig_id"]) for part in parts]
    assert numbers == sorted(set(numbers))
    assert sorted(part.facts["mig_profile"] for part in parts) == sorted(names)
    assert sum(part.compute_share for part in parts) <= 1 + 1e-9
    assert sum(profile.memory_slices for profile in profiles) <= mig.memory_slices


@pytest.mark.parametrize("device", DIVIDED)
def test_catalog(device: str) -> None:
    """As many of each profile fit as NVIDIA says, and their names say what they have."""
    mig = mig_of(device)
    counts = [7, 1, 4, 3, 2, 1, 1]
    assert len(mig.profiles) == len(counts)
    for profile, count in zip(mig.profiles, counts, strict=True):
        assert len(instances(mig, [profile] * count)) == count
        with pytest.raises(ValueError, match=r"."):
            instances(mig, [profile] * (count + 1))
        slices, _, size = profile.name.removesuffix("+me").partition("g.")
        assert int(slices) == profile.slices
        assert profile.memory_bytes / 2**30 == pytest.approx(int(size.removesuffix("gb")), rel=0.13)


def configured(pool: str) -> Configuration:
    text = f"version: 1\nfleet:\n  pools:\n    - name: p\n      devices-per-node: 2\n{pool}"
    return load(None, Files(environ={}), text=text)


def test_pool() -> None:
    """A pool says how all its devices are divided, a device how it is itself."""
    fleet = configured(
        "      device: h100\n      mig: [1g.10gb, 3g.40gb]\n      devices: [{index: 1, mig: []}]\n"
    ).fleet
    pool = fleet.pools[0]
    assert [part.facts["mig_profile"] for part in pool.parts_of(0)] == ["3g.40gb", "1g.10gb"]
    assert pool.parts_of(1) == ()
    one = configured("      device: h100\n      devices: [{index: 1, mig: [7g.80gb]}]\n").fleet.pools[0]
    assert [len(one.parts_of(index)) for index in range(2)] == [0, 1]
    assert not configured("      device: h100\n").fleet.pools[0].has_parts


@pytest.mark.parametrize(
    ("pool", "problem"),
    [
        ("      device: h100\n      mig: [3g.40g]\n",
         "configuration:7: mig: h100-sxm5-80gb has no profile '3g.40g'; did you mean '3g.40gb'?"),
        ("      device: h100\n      mig: [4g.40gb, 4g.40gb]\n",
         "configuration:7: mig: 4g.40gb, 4g.40gb do not fit on h100-sxm5-80gb: they take 8 compute slices, and "
         "the board has 7"),
        ("      device: l40s\n      devices:\n        - index: 0\n          mig: [1g.10gb]\n",
         "configuration:9: mig: the device type l40s-48gb cannot be divided into instances"),
    ],
)  # fmt: skip
def test_problems(pool: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(pool)
    assert str(caught.value).splitlines() == [problem]


@pytest.mark.parametrize(("mig", "is_noted"), [
    ("[cpx]", True), ("[dpx, qpx, qpx]", True), ("[dpx, dpx]", False), (f"[{', '.join(['cpx'] * 8)}]", False),
])  # fmt: skip
def test_amd_boards_have_all_partitions_of_one_mode(mig: str, is_noted: bool) -> None:
    """A note says so of others: a page that was cloned may show a part of them only."""
    notes = configured(f"      device: mi300x\n      identity: amd-device-metrics\n      mig: {mig}\n").notes
    assert ["8 cpx or 4 qpx or 2 dpx" in note for note in notes] == [True] * is_noted


def test_work_and_faults() -> None:
    more = (
        "      device: h100\n      mig: [3g.40gb, 1g.10gb]\nworkloads:\n  base:\n"
        '    - {name: a, devices: p-0/1/1, profile: "50:0:0", metrics: {memory: 4GiB}}\n'
        "faults:\n  - {kind: xid, code: 31, devices: p-0/0/1}\n"
    )
    found = configured(more)
    assert [each.devices for each in found.fleet.base] == [("p-0/1/1",)]
    assert [fault.devices for fault in found.fleet.faults] == [("p-0/0/1",)]
    with pytest.raises(ConfigurationError) as caught:
        configured(more.replace("p-0/1/1", "p-0/1/2").replace("code: 31", "code: 79"))
    assert str(caught.value).splitlines() == [
        "configuration:10: devices: no part '2': p-0/1 has 2: 0 to 1",
        "configuration:12: devices: XID 79 affects the whole device, and p-0/0/1 is a part: name p-0/0",
    ]


def test_an_identity_with_lines_of_instances_shows_what_tells_them_apart(tmp_path: Path) -> None:
    identity = tmp_path / "own.yaml"
    text = (
        "name: own\nlabels:\n  - {name: gpu, value: '{index}'}\n  - {name: host, value: '{node}'}\nfamilies:\n"
        "  - {name: own_usage, type: gauge, help: Usage., quantity: usage_ratio, format: go,\n"
        "     level: LEVEL, labels: [LABEL]}\n"
    )
    pool = f"      device: h100\n      mig: [3g.40gb, 1g.10gb]\n      identity: {identity}\n"
    for level, label, is_good in (
        ("part", "", False),
        ("unit", "", False),
        ("unit", "{name: part, value: '{part}', optional: true}", True),
        ("whole", "", True),
    ):
        identity.write_text(text.replace("LEVEL", level).replace("LABEL", label))
        if is_good:
            assert configured(pool).fleet.pools[0].has_parts
        else:
            with pytest.raises(ConfigurationError, match=r"distinguishes them; give it a label with \{part\}$"):
                configured(pool)


def test_how_many() -> None:
    """Beside others: by free memory slices, compute slices that are left, and the most of a kind."""
    one = MigProfile("1g.5gb", 1, 1, 1.0, (6, 4, 5, 0, 1, 2, 3), 64)
    three = MigProfile("3g.20gb", 3, 4, 1.0, (4, 0), 64)
    engines = MigProfile("1g.5gb+me", 1, 1, 1.0, (6, 4, 5, 0, 1, 2, 3), 1)
    assert [each.count_beside(7, ()) for each in (one, three, engines)] == [7, 2, 1]
    beside_a_half = [each.count_beside(4, (range(4, 8),)) for each in (one, three, engines)]
    assert beside_a_half == [4, 1, 1]
    assert engines.count_beside(6, (range(6, 7),), same=1) == 0
    assert three.count_beside(2, ()) == 0
