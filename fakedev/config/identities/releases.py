"""The releases of an exporter in one file of the catalog: which there are, which one a version means, and its identity.

A file with ``releases`` is the identity of the first of them; each release has its own changes and those of all
releases before it. Versions are pairs, ``DCGM-EXPORTER`` (4.5.3-4.8.2), of which either half may be named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from fakedev.config.schema.nodes import Listing, Node, Scalar, Table

_RELEASE: Final = re.compile(r'^  - release: "?+([\w.-]++)"?+[^\n]*+\n    pairs: \[([^\]\n]*+)\]', re.MULTILINE)
_DEFAULT: Final = re.compile(r'^default-release: "?+([\w.-]++)"?+', re.MULTILINE)
_VERSION: Final = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}")
#: Keys that say which release it is, and those of changes; all others are those of identities.
_OWN: Final = ("release", "pairs", "counters", "labels", "rename-labels", "without-labels")

_Number = tuple[int, ...]


class Release(NamedTuple):
    """A release that changed the page.

    :ivar pairs: all versions with its page, the oldest first; none for a branch.
    """

    name: str
    pairs: tuple[str, ...]


class Releases(NamedTuple):
    """The releases of a file, the oldest first.

    :ivar default: the name of the one that is meant without a version.
    """

    default: str
    every: tuple[Release, ...]


def releases_in(text: str) -> Releases | None:
    """The releases in the text of a file of the catalog, found without reading it as YAML; None for none."""
    found = [Release(name, tuple(filter(None, pairs.split(", ")))) for name, pairs in _RELEASE.findall(text)]
    default = _DEFAULT.search(text)
    return Releases(default[1] if default else found[-1].name, tuple(found)) if found else None


def chosen_release(version: str, releases: Releases) -> tuple[str, str]:
    """The name of the release that a version means, and a remark; the remark is empty where nothing is to be said.

    A version between two releases has the page of the one below it.

    :param version: the name of a release, a pair, or either half of a pair.
    :raises ValueError: for a text that is no version, and for versions below the first release or above the last one.
    """
    if version in (release.name for release in releases.every):
        return version, ""
    halves = version.split("-")
    if len(halves) > 2 or not all(map(_VERSION.fullmatch, halves)):
        raise ValueError(f"{version[:40]!r} is no version")
    known = [(pair, release.name) for release in releases.every for pair in release.pairs]
    numbers = [tuple(map(_number, pair.split("-"))) for pair, _ in known]
    wanted = tuple(map(_number, halves))
    if len(wanted) == 2:
        same = [place for place, pair in enumerate(numbers) if pair == wanted]
        below = [place for place, pair in enumerate(numbers) if pair[1] <= wanted[1]]
    else:
        same = [place for half in (1, 0) for place, pair in enumerate(numbers) if pair[half] == wanted[0]]
        half = 0 if wanted[0] <= max(pair[0] for pair in numbers) else 1
        below = [place for place, pair in enumerate(numbers) if pair[half] <= wanted[0]]
    if same:
        pair, name = known[same[-1]]
        others = [known[place][0] for place in same if known[place][1] != name]
        return name, f"taken as {pair}; it may also be {', '.join(others)}: give the pair" if others else ""
    if len(below) == len(known):
        raise ValueError(f"the last release that is known is {known[-1][0]}")
    if not below:
        raise ValueError(f"the first release that is known is {known[0][0]}")
    pair, name = known[max(below)]
    return name, f"no release {version} is known; this is the page of the release below it, {pair}"


def _number(version: str) -> _Number:
    """A version as numbers; zeros at its end do not count."""
    numbers = [int(part) for part in version.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def composed(document: Table, release: str) -> Table:
    """The identity's document of a release.

    :param document: the document of the file.
    """
    keys = {key.text: key for key, _ in document.entries}
    values = {key.text: value for key, value in document.entries if key.text not in ("releases", "default-release")}
    listed = document.get("releases")
    for changes in listed.items if isinstance(listed, Listing) else ():
        assert isinstance(changes, Table)
        keys |= {key.text: key for key, _ in changes.entries}
        _change(values, changes)
        if _text(changes.get("release")) == release:
            name = changes.get("release")
            assert isinstance(name, Scalar)
            values["version"] = name._replace(quoted=True)
            keys["version"] = Scalar(name.place, "version", quoted=True)
            break
    return Table(document.place, tuple((keys[name], value) for name, value in values.items()))


def _change(values: dict[str, Node], changes: Table) -> None:
    """Makes the changes of a release."""
    given = {key.text: value for key, value in changes.entries}
    for name, value in given.items():
        if name == "counters":
            values[name] = _counters(values[name], value)
        elif name not in _OWN:
            values[name] = value
    added, renamed, without = (given.get(name) for name in ("labels", "rename-labels", "without-labels"))
    names = {key.text: _text(name) for key, name in renamed.entries} if isinstance(renamed, Table) else {}
    gone = {_text(item) for item in without.items} if isinstance(without, Listing) else set()
    labels = [label for label in _items(values["labels"]) if _name(label) not in gone]
    for label in _items(added):
        _put(labels, label)
    values["labels"] = _listing(values["labels"], (_renamed(label, names) for label in labels))
    of_levels = values["labels-of-levels"]
    assert isinstance(of_levels, Table)
    entries = [
        (level, _listing(every, (_renamed(label, names) for label in _items(every))))
        for level, every in of_levels.entries
    ]
    values["labels-of-levels"] = Table(of_levels.place, tuple(entries))


def _put(labels: list[Table], label: Table) -> None:
    """Puts a label in the place of the one of its name; a new one behind the label that it names, else at the end."""
    names = list(map(_name, labels))
    after = _text(label.get("after"))
    own = Table(label.place, tuple(entry for entry in label.entries if entry[0].text != "after"))
    if _name(own) in names:
        labels[names.index(_name(own))] = own
    else:
        labels.insert(names.index(after) + 1 if after else len(labels), own)


def _renamed(label: Table, names: dict[str, str]) -> Table:
    def entry(key: Scalar, value: Node) -> tuple[Scalar, Node]:
        if key.text != "name" or not isinstance(value, Scalar):
            return key, value
        return key, value._replace(text=names.get(value.text, value.text))

    return Table(label.place, tuple(entry(*each) for each in label.entries))


def _counters(before: Node, changes: Node) -> Scalar:
    """The rows of counters: a row of the same field takes the place of the earlier one."""
    assert isinstance(before, Scalar)
    rows = {line.partition(",")[0]: line for line in chain(before.text.splitlines(), _text(changes).splitlines())}
    return before._replace(text="".join(f"{row}\n" for row in rows.values()))


def _items(node: Node | None) -> Sequence[Table]:
    return [item for item in node.items if isinstance(item, Table)] if isinstance(node, Listing) else []


def _listing(node: Node, items: Iterable[Table]) -> Listing:
    return Listing(node.place, tuple(items))


def _name(label: Table) -> str:
    return _text(label.get("name"))


def _text(node: Node | None) -> str:
    return node.text if isinstance(node, Scalar) else ""
