"""Keys that come from the fields of a frozen value, and the value that comes from the keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum

import pytest

from fakedev.base.names import host_name
from fakedev.schema.declare import described, restart_keys, restarts, setting
from fakedev.schema.places import Report
from fakedev.schema.reader import read_document
from fakedev.schema.sections import Section, Values
from fakedev.schema.types import Boolean, Choice, Duration, Integer, ListOf, MapOf, Number, Path, Size, Text, keys_from


class Order(Enum):
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class Inner:
    text: str = setting("A text.", default="")


@dataclass(frozen=True)
class Everything:
    """A field of each kind, and what its key is."""

    name: str = field(metadata=described("A name."))
    count: int = field(metadata=described("A number.", low=1, high=9))
    text: str = setting("A text.", default="x", words="word", check=host_name)
    is_on: bool = setting("Whether.", default=True, name="on")
    grace_seconds: float = setting("A time.", default=5.0, low=1, high=60, restart="top.grace")
    limit_seconds: float = setting("A time without a largest one.", default=0.0)
    constant_seconds: float = setting("A number of seconds.", "seconds", 0.5)
    memory_bytes: int = setting("A size.", default=2**20)
    share: float = setting("A number.", default=0.5, high=1.0)
    any_number: float = setting("A number without bounds.", default=0.0)
    order: Order = setting("An enumeration.", default=Order.LAST)
    kind: str = setting("A word.", default="a", choices=("a", "b"))
    file: str = setting("A path that may be empty.", default="", path="file", absent="nothing")
    words: tuple[str, ...] = setting("Texts.", default=())
    numbers: tuple[int, ...] = setting("Numbers.", default=(), high=3)
    labels: Mapping[str, str] = setting("Texts by name.", default={})
    own: int | None = setting("A type of its own.", type=Integer(7, 8), default_words="none of it")
    inner: Inner = field(default_factory=Inner)
    other: int = 3


SECTION = Section("top", keys_from(Everything))


def read(text: str) -> tuple[Values, Report]:
    report = Report("/folder")
    node = read_document(text, "file.yaml", report)
    assert node is not None
    values: Values = SECTION.read(node, "", report)
    return values, report


def test_types_follow_from_fields() -> None:
    """From unit, default, annotation and bounds; a field without a setting has no key."""
    assert {key.name: key.type for key in SECTION.keys} == {
        "name": Text(),
        "count": Integer(1, 9),
        "text": Text("word", host_name),
        "on": Boolean(),
        "grace": Duration(1, 60),
        "limit": Duration(none=True),
        "constant-seconds": Number(),
        "memory": Size(int),
        "share": Number(0, 1.0),
        "any-number": Number(),
        "order": Choice.of(Order),
        "kind": Choice(("a", "b")),
        "file": Path("file", optional=True),
        "words": ListOf(Text()),
        "numbers": ListOf(Integer(0, 3)),
        "labels": MapOf(Text()),
        "own": Integer(7, 8),
    }
    assert [key.name for key in SECTION.keys if key.required] == ["name", "count"]
    assert SECTION.key("memory").default_words == "1MiB"


def test_chosen_keys_are_in_the_order_of_their_names() -> None:
    """So a section has the keys of several values in any order."""
    assert [key.name for key in keys_from(Everything, "share", "is_on")] == ["share", "on"]


def test_defaults() -> None:
    """A value of what is required has the defaults of all fields; a key without value leaves its field alone."""
    values, report = read("{name: n, count: 2}")
    assert not report.sorted_problems()
    assert (values["file"], values["grace"]) == (None, 5.0)
    assert values.build(Everything) == Everything("n", 2)


def test_a_value() -> None:
    """Each key sets its field; a relative path begins in the folder of the report; sizes are whole numbers."""
    values, _ = read("{name: n, count: 2, on: false, grace: 1m, memory: 2kB, order: first, file: a/../b, numbers: [3]}")
    value = values.build(Everything, other=4)
    assert value == Everything(
        "n", 2, is_on=False, grace_seconds=60.0, memory_bytes=2000, order=Order.FIRST, file="/folder/b", numbers=(3,),
        other=4,
    )  # fmt: skip
    assert isinstance(value.memory_bytes, int)
    assert read('{name: n, count: 2, file: ""}')[0].build(Everything).file == ""


@pytest.mark.parametrize("text", ["{}", "{count: 10, name: []}"])
def test_a_required_key_without_value_is_blank(text: str) -> None:
    """The problem was reported: what is built of the rest has no None where a number or text is expected."""
    values, report = read(text)
    assert len(report.sorted_problems()) == 2
    assert values.build(Everything) == Everything("", 0)


def test_keys_that_need_a_restart() -> None:
    """They are found in values within values; a value that is there only once is its own key's affair."""

    @dataclass(frozen=True)
    class Top:
        section: Everything | None
        list: tuple[str, ...] = field(default=(), metadata=restarts("list"))

    one = Top(Everything("n", 2))
    assert [*restart_keys(one, Top(Everything("other", 3, limit_seconds=2.0)))] == []
    assert [*restart_keys(one, Top(Everything("n", 2, grace_seconds=6.0), ("a",)))] == ["top.grace", "list"]
    assert [*restart_keys(one, Top(None, ("a",)))] == ["list"]
    assert all("restart" not in each.metadata for each in fields(Inner))
