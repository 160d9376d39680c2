"""Samples of pages, and their search."""

from __future__ import annotations

import math

import pytest

from fakedev.client.page_samples import Sample, read_samples

PAGE = """\
# HELP power Watts.
# TYPE power gauge
power{gpu="0",name="a \\"b\\" \\\\ \\nc"} 67.5
power{gpu="1",name="x, y}"} NaN 1800000000000

up 1
# EOF
"""


def test_samples() -> None:
    """In their order, with labels as they were before they were escaped."""
    samples = read_samples(PAGE)
    assert samples[0] == Sample("power", {"gpu": "0", "name": 'a "b" \\ \nc'}, 67.5, None)
    assert samples[1].labels == {"gpu": "1", "name": "x, y}"}
    assert math.isnan(samples[1].value)
    assert samples[1].timestamp == 1.8e12
    assert [sample.name for sample in samples[1:]] == ["power", "up"]
    assert (len(samples), samples.names) == (3, ("power", "up"))
    assert list(read_samples("")) == []


def test_search() -> None:
    """By name and labels; a single value; the error says what there is."""
    samples = read_samples(PAGE)
    assert list(samples.find("power", gpu=0)) == list(samples.find("power", gpu="0")) == [samples[0]]
    assert samples.value("power", gpu=0) == 67.5
    assert len(samples.find("power", pod="x")) == 0
    for name, labels, text in (
        ("power", {}, "2 samples are power: give more labels"),
        ("power", {"gpu": 7}, r"no sample is power with \{'gpu': 7\}. The first of that name: power"),
        ("watts", {}, "no sample is watts: the page has 3 samples of 2 names"),
    ):
        with pytest.raises(LookupError, match=text):
            samples.value(name, **labels)


@pytest.mark.parametrize("line", ["power", "power{ 1", "power 1x", "7 8", 'power{a="b} 1', "power 1 2.3.4"])
def test_wrong_lines(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 is no sample"):
        read_samples(f"up 1\n{line}\n")
