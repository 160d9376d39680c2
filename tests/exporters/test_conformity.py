"""Pages read back and compared: what differs, in words, and how much is the same."""

from __future__ import annotations

import pytest

from fakedev.exporters.conform import compared
from fakedev.exporters.samples import read_page

PAGE = """\
# HELP power_watts Power draw.
# TYPE power_watts gauge
power_watts{gpu="0",host="a"} 69.850000
power_watts{gpu="1",host="a",pod="p"} 629.450000
# HELP energy_total Energy.
# TYPE energy_total counter
energy_total{gpu="0",host="a"} 5
energy_total{gpu="1",host="a",pod="p"} 7
# HELP usage Usage.
# TYPE usage gauge
usage{gpu="0",host="a"} 0
usage{gpu="1",host="a",pod="p"} 100
"""


def changed(old: str, new: str) -> list[str]:
    """The differences of the page with a text replaced everywhere."""
    assert old in PAGE
    return [str(difference) for difference in compared(read_page(PAGE), read_page(PAGE.replace(old, new))).differences]


def test_a_page_conforms_to_itself() -> None:
    """All aspects of three families, and the page's own."""
    result = compared(read_page(PAGE), read_page(PAGE))
    assert (result.percent, result.differences, result.aspects) == (100.0, (), 3 * 7 + 1)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("usage gauge", "usage counter", ["usage: TYPE is gauge in the capture, counter on the page"]),
        ("usage Usage.", "usage Use.", ['usage: HELP is "Usage." in the capture, "Use." on the page']),
        ("# HELP usage Usage.\n", "", ['usage: HELP is "Usage." in the capture, missing on the page']),
        ("69.850000", "69.85", ["power_watts: numbers as 629.450000 in the capture, as 69.85 on the page"]),
        ("} 100", "} 1", ["usage: 100 in the capture, 1 on the page"]),
        ("} 100", "} 90", []),
        ("} 5\n", "} 5 1700000000000\n", ["energy_total: lines end with a time on the page only"]),
        (
            "usage{gpu",
            "usage{x",
            ["usage: labels gpu,host in the capture, x,host on the page"],
        ),
        ('gpu="1",host="a",pod="p"', 'gpu="1",host="a"', ["all"]),
    ],
)
def test_each_aspect(old: str, new: str, words: list[str]) -> None:
    """One difference is described in words, once."""
    found = changed(old, new)
    if words == ["all"]:
        assert len(found) == 3
        assert all("labels gpu,host,pod in the capture, gpu,host on the page" in each for each in found)
    else:
        assert found == words


def test_families_of_one_page_only() -> None:
    """Count with all of their aspects, but not against a fragment."""
    first = PAGE[: PAGE.index("# HELP usage")]
    lacking = compared(read_page(PAGE), read_page(first))
    assert [str(difference) for difference in lacking.differences] == ["usage: only the capture has it"]
    assert (lacking.met, lacking.aspects) == (15, 22)
    more = compared(read_page(first), read_page(PAGE))
    assert [str(difference) for difference in more.differences] == ["usage: the capture does not have it"]
    assert compared(read_page(first), read_page(PAGE), is_fragment=True).percent == 100


def test_what_a_library_says_of_its_process_does_not_count() -> None:
    """No identity has it, and each capture of an exporter in Go or Python may."""
    own = "# HELP go_goroutines G.\n# TYPE go_goroutines gauge\ngo_goroutines 9\n"
    assert compared(read_page(PAGE + own + own.replace("go_", "python_")), read_page(PAGE)).percent == 100


def test_order_and_layout() -> None:
    """As few families as can be are out of place; declarations before all lines are another layout."""
    head, energy, usage = (
        PAGE.partition("# HELP energy")[0],
        *PAGE.removeprefix(PAGE.partition("# HELP energy")[0]).split("# HELP usage"),
    )
    moved = f"{energy}# HELP usage{usage}{head}"
    found = compared(read_page(PAGE), read_page(moved)).differences
    assert [str(each) for each in found] == ["power_watts: it has another place among the families"]
    lines = PAGE.splitlines(keepends=True)
    first = "".join(sorted(lines, key=lambda line: not line.startswith("#")))
    found = compared(read_page(PAGE), read_page(first)).differences
    assert [each.aspect for each in found] == ["layout"]


def test_a_family_without_samples_has_fewer_aspects() -> None:
    """Of one that is only declared there is nothing to say of labels and numbers."""
    declared = "# HELP a A.\n# TYPE a gauge\n"
    assert compared(read_page(declared), read_page(declared)).aspects == 1 + 4


@pytest.mark.parametrize("line", ["root:x:0:0:root", 'a{b="c} 1', "a one", "a{} 1 2 3"])
def test_what_is_no_page(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 is no sample"):
        read_page(f"# a comment\n{line}\n")


def test_special_numbers_and_escapes() -> None:
    """NaN and infinities are numbers; a value may hold quotes and braces."""
    page = read_page('a{b="x\\"}y"} NaN\na{b="z"} +Inf\n')
    assert [sample.labels for sample in page.families["a"].samples] == [(("b", 'x"}y'),), (("b", "z"),)]
    assert compared(page, page).percent == 100
