"""Facts from labels: what a template shows is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.clone.fleet_reader import facts_of
from fakedev.exporters.identity import LabelSpec
from fakedev.exporters.labels import Template


@pytest.mark.parametrize(
    ("template", "value", "facts"),
    [
        ("{index}", "3", {"index": "3"}),
        ("GPU-{uuid}", "GPU-a1", {"uuid": "a1"}),
        ("0000{pci_address|upper}", "00000000:1B:00.0", {"pci_address": "0000:1b:00.0"}),
        ("gpu-{index|next}", "gpu-1", {"index": "0"}),
        ("gpu-{index|next}-pci", "gpu-8-pci", {"index": "7"}),
        ("GPU-{uuid}", "MIG-a1", {}),
        ("{node|sha1_6}", "a1b2c3", {}),
        ("{a?b}", "x", {}),
        ("fixed", "fixed", {}),
    ],
)
def test_templates_are_read_backwards(template: str, value: str, facts: dict[str, str]) -> None:
    """Where the value has the form of the template, and the change loses nothing."""
    assert facts_of({"label": value}, [LabelSpec("label", template)]) == facts


@pytest.mark.slow
@given(st.text(st.characters(codec="utf-8", exclude_characters="{}%"), min_size=1), st.sampled_from(["", "GPU-", "a"]))
def test_a_fact_that_is_shown_is_read(text: str, before: str) -> None:
    template = f"{before}{{fact}}"
    shown = Template.parse(template).value({"fact": text})
    assert facts_of({"label": shown}, [LabelSpec("label", template)]) == {"fact": text}


def test_texts_of_a_label() -> None:
    """What a text stands for is read back; a text that stands for no value says nothing."""
    spec = LabelSpec("label", "{driver_model}", texts=(("", "[N/A]"), ("WDDM", "WDDM"), ("3", "cpx")))
    assert facts_of({"label": "WDDM"}, [spec]) == {"driver_model": "WDDM"}
    assert facts_of({"label": "cpx"}, [spec]) == {"driver_model": "3"}
    assert facts_of({"label": "[N/A]"}, [spec]) == facts_of({"label": "TCC"}, [spec]) == {}
