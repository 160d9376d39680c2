"""The kinds of instances of a board: how many there can be, and the text that the file for NVML has of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fakedev.config.catalog import Catalog
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import Place, Report
from fakedev.spec.mig import MigProfile, profiles_from_text, profiles_to_text

NAMES = st.text("0123456789gb.+me", min_size=1, max_size=12)
PROFILES = st.builds(
    MigProfile, NAMES, st.integers(1, 7), st.sampled_from((1, 2, 4, 8)),
    st.integers(1, 200_000).map(lambda mebibytes: float(mebibytes * 2**20)),
    st.lists(st.integers(0, 7), min_size=1, max_size=7, unique=True).map(tuple), st.integers(1, 64),
)  # fmt: skip


@given(st.lists(PROFILES, max_size=9))
def test_text(profiles: list[MigProfile]) -> None:
    """What has room comes back, in its order."""
    text = profiles_to_text(profiles, 512)
    assert len(text) < 512
    found = profiles_from_text(text)
    assert found == profiles[: len(found)]
    assert len(found) >= min(len(profiles), 8)


def test_the_catalog_fits() -> None:
    """All kinds of all boards of the catalog have room in the file for NVML."""
    catalog = Catalog(Files(environ={}), Report())
    for name in ("a100-sxm4-40gb", "a30-24gb", "h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "gb200-186gb"):
        loaded = catalog.device(name, Place("device"))
        assert loaded is not None
        kinds = loaded.type.mig_profiles
        assert len(profiles_from_text(profiles_to_text(kinds, 512))) == len(kinds) > 3, name


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
