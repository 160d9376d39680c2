"""Label texts: templates over facts, their order, and the escaping of the text format."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fakedev.exporters.identity import LabelSpec
from fakedev.exporters.labels import CHANGES, Labels, Template, escaped, escaped_help, signature

FACTS = {"index": "3", "pci_address": "0000:1b:00.0", "vendor": "Maker", "pod": ""}


class TestTemplate:
    """A label's value as text with facts in it."""

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("", ""),
            ("direct", "direct"),
            ("{index}", "3"),
            ("nvidia{index}", "nvidia3"),
            ("0000{pci_address|upper}", "00000000:1B:00.0"),
            ("{vendor|lower} {vendor|upper} {vendor}", "maker MAKER Maker"),
            ("{pod}{nothing}", ""),
            ("100 % of {vendor}: %s %d %(x)s %%", "100 % of Maker: %s %d %(x)s %%"),
            ("a\\{index}\n", "a\\3\n"),
        ],
    )
    def test_values(self, text: str, value: str) -> None:
        """A fact that is missing is empty; percent signs and backslashes mean nothing."""
        assert Template.parse(text).value(FACTS) == value

    def test_a_fact_is_not_a_template(self) -> None:
        """The text of a fact is shown unchanged."""
        assert Template.parse("<{vendor}>").value({"vendor": "{index} %s"}) == "<{index} %s>"

    def test_facts(self) -> None:
        assert Template.parse("{a}{b|upper}{a|lower}").facts == ("a", "b")

    def test_each_text_is_parsed_once(self) -> None:
        """Rows of an identity have most of their labels in common, and so have the pools that it shows."""
        assert Template.parse("{node}-{index}") is Template.parse("{node}-{index}")

    def test_empty(self) -> None:
        """When a fact that it needs is missing or empty; plain text never is."""
        for text, is_empty in (("{pod}", True), ("x{pod}", True), ("{index}{nothing}", True), ("{index}", False)):
            assert Template.parse(text).is_empty(FACTS) is is_empty, text
        assert not Template.parse("").is_empty(FACTS)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{index|title}", f"{{index|title}}: 'title' is none of {', '.join(filter(None, CHANGES))}"),
            ("{", "'{' has a brace that is no {fact}"),
            ("{}", "'{}' has a brace that is no {fact}"),
            ("{index|}", "'{index|}' has a brace that is no {fact}"),
            ("{in dex}", "'{in dex}' has a brace that is no {fact}"),
            ("{{index}}", "'{{index}}' has a brace that is no {fact}"),
        ],
    )
    def test_what_is_refused(self, text: str, message: str) -> None:
        """A brace without a meaning would be shown unchanged, and would go unnoticed."""
        with pytest.raises(ValueError) as caught:
            Template.parse(text)
        assert str(caught.value) == message


def text_of(specs: Sequence[LabelSpec], sort: bool = False, leading: int = 0) -> str:
    """The labels of the one kind of row that there is."""
    (text,) = Labels(specs, sort=sort, leading=leading).texts(FACTS)
    return text


class TestLabels:
    """The labels of a row."""

    SPECS = (
        LabelSpec("zone", "{vendor}"),
        LabelSpec("job", "{index}"),
        LabelSpec("pod", "{pod}", optional=True),
        LabelSpec("alpha", ""),
    )

    def test_in_the_order_given(self) -> None:
        """An optional one is left out when it has no value, another is there and empty."""
        assert text_of(self.SPECS) == 'zone="Maker",job="3",alpha=""'
        assert Labels(self.SPECS).texts(FACTS | {"pod": "p"}) == ['zone="Maker",job="3",pod="p",alpha=""']

    def test_sorted(self) -> None:
        assert text_of(self.SPECS, sort=True) == 'alpha="",job="3",zone="Maker"'

    def test_sorted_behind_leading_ones(self) -> None:
        """The first stay in front in their own order."""
        assert text_of(self.SPECS, sort=True, leading=1) == 'zone="Maker",alpha="",job="3"'
        assert text_of(self.SPECS, leading=2) == text_of(self.SPECS)

    def test_kinds_of_rows(self) -> None:
        """Each has the common ones and its own: behind them, or sorted among them."""
        kinds = ([LabelSpec("kind", "{index|upper}x")], [], [LabelSpec("a", "fixed"), LabelSpec("kind", "{pod}", True)])
        assert Labels(self.SPECS[:2], kinds).texts(FACTS) == [
            'zone="Maker",job="3",kind="3x"', 'zone="Maker",job="3"', 'zone="Maker",job="3",a="fixed"'
        ]  # fmt: skip
        assert Labels(self.SPECS[:2], kinds, True).texts(FACTS) == [
            'job="3",kind="3x",zone="Maker"', 'job="3",zone="Maker"', 'a="fixed",job="3",zone="Maker"'
        ]  # fmt: skip

    def test_none(self) -> None:
        assert text_of([]) == ""
        assert text_of([LabelSpec("pod", "{pod}", optional=True)]) == ""


class TestEscaping:
    """What the text format cannot hold as it is."""

    def test_label_values(self) -> None:
        """Backslash, line feed and quote."""
        assert escaped('a\\b\n"c"') == 'a\\\\b\\n\\"c\\"'

    def test_help(self) -> None:
        """A quote means nothing there."""
        assert escaped_help('a\\b\n"c"') == 'a\\\\b\\n"c"'

    @given(st.text(st.characters(exclude_categories=("Cs",))))
    def test_a_parser_reads_what_was_meant(self, value: str) -> None:
        """Any text is read back, with any quotes and backslashes."""
        (labels,) = Labels([LabelSpec("a", "{v}"), LabelSpec("b", "{w}")]).texts({"v": value, "w": "w"})
        (family,) = text_string_to_metric_families(f"x{{{labels}}} 1\n")
        assert family.samples[0].labels == {"a": value, "b": "w"}


@pytest.mark.parametrize(
    ("text", "facts", "expected"),
    [
        ("{nvml_version?driver_version|nvml}", {"driver_version": "550.163.01"}, "12.550.163.01"),
        ("{nvml_version?driver_version|nvml}", {"driver_version": "580.95.05"}, "13.580.95.05"),
        ("{nvml_version?driver_version|nvml}", {"driver_version": "1", "nvml_version": "mine"}, "mine"),
        ("{driver_version|nvml}", {"driver_version": "340.108"}, "340.108"),
        ("{driver_version|nvml}", {"driver_version": "none"}, ""),
        ("{product_name|brand}", {"product_name": "Tesla T4"}, "Tesla"),
        ("{product_name|brand}", {"product_name": "NVIDIA H100 80GB HBM3"}, "NVIDIA"),
        ("{product_name|brand}", {}, ""),
        ("{cuda_version|cuda_number}", {"cuda_version": "12.4"}, "12040"),
        ("{compute_cap|compute_number}", {"compute_cap": "9.0"}, "589824"),
        ("{compute_cap|compute_number}", {"compute_cap": "nine"}, ""),
    ],
)
def test_changed_facts(text: str, facts: dict[str, str], expected: str) -> None:
    """Of another fact, where the one that goes before has no value; nothing of a text that is no version."""
    assert Template.parse(text).value(facts) == expected


def test_signatures() -> None:
    """All labels by name, with lengths in bytes of values without escapes."""
    labels = 'gpu="0",UUID="GPU-é",pod="a\\"b\\n",GPU_I_ID="1"'
    assert signature(labels) == '8:GPU_I_ID=1:1;4:UUID=6:GPU-é;3:gpu=1:0;3:pod=4:a"b\n;'
    assert signature("") == ""
