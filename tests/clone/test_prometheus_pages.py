"""Series of a Prometheus as pages: targets, labels of the exporter, metadata."""

from __future__ import annotations

import pytest

from fakedev.clone.prometheus_pages import pages_of_series


def series(name: str, value: str = "1", **labels: str) -> dict[str, object]:
    return {"metric": {"__name__": name, **labels}, "value": [1700000000.0, value]}


def test_each_target_is_a_page() -> None:
    """In the order of their names; instance and job are those of Prometheus."""
    first, second = pages_of_series([series("a", instance="y:1", job="j"), series("a", instance="x:1", gpu="0")], {})
    assert (first.name, second.name) == ("x:1", "y:1")
    assert first.page.families["a"].samples[0].labels == (("gpu", "0"),)
    assert second.page.families["a"].samples[0].labels == ()


def test_labels_of_the_exporter_come_back() -> None:
    """Those that Prometheus renamed take the place of its own of that name; values are escaped as on a page."""
    (page,) = pages_of_series([series("a", pod="exporter", exported_pod='train "0"', instance="x:1")], {})
    assert page.page.families["a"].samples[0].labels == (("pod", 'train "0"'),)


def test_metadata_have_type_and_help() -> None:
    (page,) = pages_of_series([series("a"), series("b")], {"a": [{"type": "gauge", "help": "A.", "unit": ""}]})
    known, other = page.page.families["a"], page.page.families["b"]
    assert (known.kind, known.help, known.has_type) == ("gauge", "A.", True)
    assert (other.help, other.has_type) == (None, False)


@pytest.mark.parametrize("wrong", [1, {}, {"metric": {}, "value": [1, "1"]}, series("a", value="x"), {"metric": 1}])
def test_series_of_another_form(wrong: object) -> None:
    """As a server that is no Prometheus may return them."""
    with pytest.raises(ConnectionError, match="no metric with a name, or no value"):
        pages_of_series([wrong], {})
