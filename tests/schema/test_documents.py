"""Texts to nodes: places, YAML without guesses, strict JSON, limits."""

# ruff: noqa: E501 - the tables hold whole messages
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.schema.places import Listing, Node, Report, Scalar, Table
from fakedev.schema.reader import read_document


def parsed(text: str, file: str = "f.yaml") -> Node:
    """The tree of a text without problems."""
    report = Report()
    node = read_document(text, file, report)
    assert report.sorted_problems() == ()
    assert node is not None
    return node


def faults(text: str, file: str = "f.yaml") -> list[str]:
    """The problems of a text."""
    report = Report()
    read_document(text, file, report)
    return [str(problem) for problem in report.sorted_problems()]


def plain(node: Node) -> object:
    """A tree as JSON would give it, numbers as their texts."""
    if isinstance(node, Scalar):
        return node.text if node.quoted else {"true": True, "false": False, "null": None}.get(node.text, node.text)
    if isinstance(node, Listing):
        return [plain(item) for item in node.items]
    return {key.text: plain(value) for key, value in node.entries}


@pytest.mark.parametrize(
    "text", ["98:1:0", "1:30", "on", "no", "2024-01-01", "0x10", "1_000", "0o17", "~x", "=", "0777"]
)
def test_plain_scalars_stay_as_they_are_written(text: str) -> None:
    """Nothing guesses base 60, yes and no, times or other bases."""
    node = parsed(f"a: {text}")
    assert isinstance(node, Table)
    assert node.entries[0][1] == Scalar(node.entries[0][1].place, text)


def test_every_node_knows_its_line() -> None:
    """Lines count from 1, in YAML and in JSON, with all kinds of line ends."""
    for text, file in (("\na:\n  - x\n  -\n    b: y\n", "f.yaml"), ('\n{"a":\r\n["x",\n\n\t{"b": "y"}]}', "f.json")):
        node = parsed(text, file)
        assert isinstance(node, Table)
        items = node.entries[0][1]
        assert isinstance(items, Listing)
        inner = items.items[1]
        assert isinstance(inner, Table)
        assert (node.entries[0][0].place.line, items.items[0].place.line, inner.place.line) == (2, 3, 5)


def test_json_with_tabs_escapes_and_surrogates() -> None:
    """JSON's own escapes are read, pairs of surrogates joined, tabs between tokens are blanks."""
    text = '{\t"a\\u0041"\t:\t"\\ud83d\\ude00\\/\\n\\t",\r\n\t"n": -1.5e3, "l": [true,false,null,{}, []]}'
    assert plain(parsed(text, "f.json")) == {"aA": "\U0001f600/\n\t", "n": "-1.5e3", "l": [True, False, None, {}, []]}


JSON = st.recursive(
    st.none() | st.booleans() | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab/\\"é', max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(JSON, st.sampled_from([None, "\t"]))
def test_json_reads_as_the_standard_library_does(value: object, indent: str | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=True)
    assert plain(parsed(text, "f.json")) == value


@given(st.text('{}[]",:\\ \n\t0123456789.-+eEtrufalsn\x01', max_size=12))
def test_json_is_accepted_only_if_the_standard_library_does(text: str) -> None:
    """No text is taken for JSON that is none, but for what is refused on purpose (too large, given twice)."""
    report = Report()
    node = read_document(text, "f.json", report)
    try:
        expected = json.loads(text)
    except ValueError:
        assert node is None
    else:
        ours = node is not None and not report.sorted_problems()
        assert ours or expected in (float("inf"), float("-inf")) or any(c in text for c in '\\"eE')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f.json:1: is empty"),
        ("{", "f.json:1: is not complete: it ends in the middle of its JSON value"),
        ('{\n"a" 1}', "f.json:2: expected a colon after the name 'a'"),
        ('{"a": 1\n"b": 2}', "f.json:2: expected a comma or }"),
        ('{"a": 1,\n}', "f.json:2: has a comma before }: remove it"),
        ("[1\n,]", "f.json:2: has a comma before ]: remove it"),
        ("{a: 1}", 'f.json:1: expected a name in double quotes, as "Name": ...'),
        ("[NaN]", "f.json:1: NaN is not JSON: a text goes in quotes, a number is written as 1.5e3"),
        ("[-Infinity]", "f.json:1: -Infinity is not JSON: a text goes in quotes, a number is written as 1.5e3"),
        ("[01]", "f.json:1: 01 is not JSON: a text goes in quotes, a number is written as 1.5e3"),
        ("[\n1e999]", "f.json:2: 1e999 is too large for a number"),
        ('["a\n"]', "f.json:1: has a text in quotes that does not end on its line"),
        ('["\\x"]', "f.json:1: has an escape in a text that JSON does not have"),
        ('["\\ud83d"]', "f.json:1: has half a surrogate pair in a text"),
        ('["a\\u0000"]', "f.json:1: has a NUL character or half a surrogate pair in a text"),
        ("1\n2", "f.json:2: has something after the end of its JSON value"),
        ("[\n'a']", "f.json:2: is not JSON: expected a value"),
        ('{"a": 1,\n"a": 2}', "f.json:2: 'a' is given twice (first in line 1): remove one"),
        ("[" * 65, "f.json:1: is nested deeper than 64 levels"),
        (
            "[" + "1," * 500_000 + "1]",
            "f.json:1: has more than 500000 values (aliases count as often as they are used)",
        ),
    ],
)
def test_json_faults(text: str, problem: str) -> None:
    assert faults(text, "f.json") == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2", "f.yaml:2: 'a' is given twice (first in line 1): remove one"),
        ("a: 1\n---\nb: 2", "f.yaml:2: has a second document (---): one file holds one configuration"),
        ("a: !!python/object:os.system x", "f.yaml:1: has the tag tag:yaml.org,2002:python/object:os.system: tags are not read here, remove it"),
        ("a: !!int 3", "f.yaml:1: has the tag tag:yaml.org,2002:int: tags are not read here, remove it"),
        ("a: *b", "f.yaml:1: has the alias *b with no anchor &b before it"),
        ("a: &a [*a]", "f.yaml:1: has the alias *a with no anchor &a before it"),
        ("? [a]\n: b", "f.yaml:1: has a key that is no plain text"),
        ("a: 1\n<<: [3]", "f.yaml:2: has something other than mappings after <<"),
        ("a: 1\nb: x\x07", "f.yaml:2: has the character U+0007, which no text file may hold"),
        ("a: \ud800", "f.yaml:1: has the character U+D800, which no text file may hold"),
        ("[" * 65 + "]" * 65, "f.yaml:1: is nested deeper than 64 levels"),
    ],
)  # fmt: skip
def test_yaml_faults(text: str, problem: str) -> None:
    assert faults(text) == [problem]


@pytest.mark.parametrize(
    ("text", "beginning", "end"),
    [
        ("a:\n\tb: 1", "f.yaml:2: is not YAML: ", "and a text with @, ` or % in front goes in quotes"),
        ("a: 1\nb: *:9400", "f.yaml:2: is not YAML: ", ": a text that begins with * goes in quotes"),
        ("a: [1\nb: 3", "f.yaml:2: is not YAML: ", ""),
    ],
)
def test_yaml_syntax(text: str, beginning: str, end: str) -> None:
    """The parser's own words come with the line, and a hint where people stumble."""
    (fault,) = faults(text)
    assert fault.startswith(beginning)
    assert fault.endswith(end)


def test_aliases_cannot_grow_without_bound() -> None:
    """Aliases count as often as they are used: a small file cannot become a large tree."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (fault,) = faults("\n".join(lines))
    assert fault == "f.yaml:6: has more than 500000 values (aliases count as often as they are used)"


def test_aliases_count_with_their_depth() -> None:
    half = "[" * 40 + "x" + "]" * 40
    assert faults(f"a: &a {half}\nb: {'[' * 30}*a{']' * 30}") == ["f.yaml:2: is nested deeper than 64 levels"]


def test_anchors_and_merges() -> None:
    """Aliases mean what they name; << adds the keys that are not given."""
    text = "base: &base {x: 1, y: 2}\none: *base\ntwo: {<<: *base, y: 3}\nthree:\n  <<: [{z: 0}, *base]\n  z: 9"
    assert plain(parsed(text)) == {
        "base": {"x": "1", "y": "2"},
        "one": {"x": "1", "y": "2"},
        "two": {"y": "3", "x": "1"},
        "three": {"z": "9", "x": "1", "y": "2"},
    }


def test_yaml_in_flow_style_is_no_json_with_mistakes() -> None:
    """A YAML file may begin with a brace; one that is neither gets JSON's words."""
    assert plain(parsed("{fleet: {seed: 1}}")) == {"fleet": {"seed": "1"}}
    assert faults('{"a": 1,\n"b" 2') == ["f.yaml:2: expected a colon after the name 'b'"]


@given(st.text(max_size=60))
def test_no_text_breaks_the_readers(text: str) -> None:
    for file in ("f.yaml", "f.json"):
        report = Report()
        assert (read_document(text, file, report) is not None) or report.sorted_problems()
