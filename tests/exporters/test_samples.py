"""The parser of the exposition format, compared with that of prometheus_client."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fakedev.exporters.labels import escaped, escaped_help
from fakedev.exporters.samples import Row, is_number, read_lines, read_page

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,5}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,5}", fullmatch=True)
#: Each character that ends a line somewhere, all that is escaped, and what separates the parts of a line.
VALUES = st.text(st.sampled_from("ab01 \t\n\r\x0b\x0c\x1c\x1e\x85\u2028\u2029\\\"{}=,#é"))
NUMBERS = st.one_of(
    st.sampled_from(["0", "+1", "-0", "1.", ".5", "1e9", "1.50E-07", "NaN", "nan", "+Inf", "-inf", "Infinity"]),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(repr),
)
BLANKS = st.text(st.sampled_from(" \t"), max_size=2)
SPACES = st.text(st.sampled_from(" \t"), min_size=1, max_size=2)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A sample with blanks wherever the format allows them."""
    labels = draw(st.dictionaries(LABEL_NAMES, VALUES, max_size=4))
    pairs = [
        f'{draw(BLANKS)}{name}{draw(BLANKS)}={draw(BLANKS)}"{escaped(value)}"{draw(BLANKS)}'
        for name, value in labels.items()
    ]
    comma = draw(st.sampled_from(["", ","])) if pairs else ""
    # prometheus_client reads blanks of one kind only after the labels.
    space = draw(st.sampled_from([" ", "\t"]))
    inner = f"{draw(BLANKS)}{{{','.join(pairs)}{comma}}}" if pairs or draw(st.booleans()) else ""
    time = draw(st.one_of(st.just(""), st.integers(0, 10**13).map(lambda each: f"{space}{each}")))
    return f"{draw(BLANKS)}{draw(NAMES)}{inner}{space}{draw(NUMBERS)}{time}"


def rows(text: str) -> list[Row]:
    return [line for _, line in read_lines(text.encode()) if isinstance(line, Row)]


@given(st.lists(lines(), max_size=4))
def test_samples_are_those_of_prometheus_client(texts: list[str]) -> None:
    """Names, labels in their order, numbers and times; each line by itself, so that no family renames another."""
    for text, row in zip(texts, rows("\n".join(texts)), strict=True):
        ((sample,),) = [each.samples for each in text_string_to_metric_families(text)]
        assert (row.name, list(row.labels)) == (sample.name, list(sample.labels.items()))
        ours, theirs = float(row.number), float(sample.value)
        assert ours == theirs or (math.isnan(ours) and math.isnan(theirs))
        assert (None if row.time is None else float(row.time) / 1000) == sample.timestamp
        assert text.encode()[row.number_at :].startswith(row.number.encode())


@example("_.0")
@given(st.text(st.sampled_from('ab{}",=\\ 10.e_-+#N\t'), max_size=20))
def test_what_is_read_is_read_by_prometheus_client_too(text: str) -> None:
    """No line is taken for a sample that is none; prometheus_client is the more lenient one."""
    for row in rows(text) if is_well_formed(text) else ():
        ((sample,),) = [each.samples for each in text_string_to_metric_families(text.replace("\t", " "))]
        assert (row.name, dict(row.labels)) == (sample.name, sample.labels)


def is_well_formed(text: str) -> bool:
    """Whether a text is read; exemplars are not, in the text format of prometheus_client."""
    try:
        list(read_lines(text))
    except ValueError:
        return False
    return "#" not in text


@given(st.lists(st.tuples(NAMES, VALUES.map(lambda text: text.strip() + "."), VALUES), unique_by=lambda each: each[0]))
def test_declarations_are_those_of_prometheus_client(families: list[tuple[str, str, str]]) -> None:
    """HELP, TYPE and the labels of the only sample."""
    text = "".join(
        f'# HELP {name} {escaped_help(words)}\n# TYPE {name} gauge\n{name}{{a="{escaped(value)}"}} 1\n'
        for name, words, value in families
    )
    page = read_page(text)
    theirs = list(text_string_to_metric_families(text))
    assert [(family.name, family.kind, family.help) for family in page.families.values()] == [
        (their.name, their.type, their.documentation) for their in theirs
    ]
    assert [family.samples[0].labels for family in page.families.values()] == [
        tuple(their.samples[0].labels.items()) for their in theirs
    ]


@pytest.mark.parametrize(
    "line",
    [
        *("a 1_0", "a 0x1F", "a 1e", "a --1", "a +nan", "a", "a{} ", "a 1 2 3", "a 1 x", "7 8", "a{ 1", 'a{b="} 1'),
        *('a{b="1"c="2"} 1', "a{b=1} 1", 'a{b="1",,} 1', "a{,} 1", 'a{b="1",b="2"} 1', 'a{b-c="1"} 1', 'a{"b"} 1'),
        *("<html>", "{} 1", "a 1\u2028b 2", "a 1\rb 2", "a \uff11", "é 1"),
    ],
)  # fmt: skip
def test_lines_that_are_no_samples(line: str) -> None:
    """The error names the line; what a server would refuse is refused."""
    with pytest.raises(ValueError, match=r"^line 2 is no sample: "):
        read_page(f"up 1\n{line}\n")


@pytest.mark.parametrize("line", [b'a{b="\xff"} 1', b"# HELP a \xff", b"# TYPE \xff gauge", b"\xff 1"])
def test_bytes_that_are_no_text(line: bytes) -> None:
    """Prometheus refuses them, too."""
    with pytest.raises(ValueError, match=r"^line 1 is no sample"):
        read_page(line)


def test_ends_of_lines() -> None:
    """A page that was saved with CR LF is the same page; a carriage return inside of a label stays."""
    text = '# HELP a Words.\n# TYPE a counter\na{b="c\rd"} 1 5\n\n# EOF\n'
    assert read_page(text.replace("\n", "\r\n")) == read_page(text)
    assert read_page(text).label_values() == {"c\rd"}


def test_openmetrics() -> None:
    """Suffixes belong to the types that have them; escapes of HELP, times in seconds and exemplars are read."""
    text = (
        '# TYPE a counter\n# HELP a Say \\"x\\"\\n\na_total 5 1.5 # {t="1"} 2\na_created 6\n# TYPE g gauge\ng 1\n'
        "g_total 2\n# TYPE h histogram\nh_bucket 1\nh_count 1\nh_sum 1\n# EOF\n"
    )
    families = read_page(text).families
    assert {name: len(family.samples) for name, family in families.items()} == {"a": 2, "g": 1, "g_total": 1, "h": 3}
    assert (families["a"].help, families["g_total"].has_type) == ('Say "x"\n', False)
    assert [row.time for row in rows(text)][:2] == ["1.5", None]


def test_numbers() -> None:
    """As Go's ParseFloat without what Prometheus excludes."""
    assert all(map(is_number, (b"1", b"-.5", b"+Inf", b"NAN", b"1e+9")))
    assert not any(map(is_number, (b"", b"1_0", b" 1", b"1e", b"0x1p1", b"infi", b"-nan", b".")))


def test_progress() -> None:
    shares: list[float] = []
    read_page("a 1\n" * 25_000, shares.append)
    assert [round(share, 3) for share in shares] == [0.4, 0.8]


def test_only_lf_ends_a_line() -> None:
    """Other line ends of Unicode are parts of labels."""
    for character in "\x0b\x0c\r\x1c\x1d\x1e\x85\u2028\u2029":
        assert [row.labels for row in rows(f'a{{b="x{character}y"}} 1\n')] == [(("b", f"x{character}y"),)]
