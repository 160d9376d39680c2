"""An identity's YAML to the identity that the exposition reads, and the releases of an exporter in one file.

A file with ``releases`` is the identity of the first release; each release has its own changes and the changes of all
releases before it. Versions are pairs, ``DCGM-EXPORTER`` (4.5.3-4.8.2), of which either half may be named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from fakedev.exporters.identity import Identity, LabelSpec, with_rows_of_pods
from fakedev.exporters.settings.families import (
    LEVELS,
    ILibrary,
    arranged,
    check_rows,
    making_of,
    read_families,
    read_labels,
    shown_by_counters,
    with_labels,
    with_windows,
)
from fakedev.exporters.settings.keys import IDENTITY
from fakedev.exporters.settings.loaded import LoadedIdentity, Making, Quirk
from fakedev.schema.places import Listing, Node, Place, Report, Scalar, Table
from fakedev.schema.sections import INVALID, Values, did_you_mean

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,79}")
_VALUE: Final = re.compile(r"[ -~]{0,400}")
_CONTENT_TYPE: Final = re.compile(r"[ -~][ -.0-~]*+/[ -~]++")
#: Headers that the server sends.
_OURS: Final = frozenset((
    "connection", "content-encoding", "content-length", "content-type", "date", "server", "transfer-encoding", "vary",
    "x-fakedev-tick",
))  # fmt: skip


def load_identity(node: Node, report: Report, library: ILibrary) -> LoadedIdentity | None:
    """The identity of a document; None when it cannot be used (the problems are reported).

    :param library: has the identity that it is based on, and its counters.
    """
    if not isinstance(node, Table):
        report.problem(node.place, "an identity is a mapping with name, labels and families")
        return None
    values = IDENTITY.read(node, "", report)
    if values is INVALID:
        return None
    base = library.identity(values["based-on"], values.place_of("based-on")) if values["based-on"] else None
    if values["based-on"] and base is None:
        return None
    if base is None and not values.given("families") and not values["counters"]:
        report.problem(
            values.place, "families is missing: give the metric families, or counters, or based-on: another identity"
        )
    quantities: dict[str, Place] = {}
    making = making_of(values, base.making if base else Making())
    shown = shown_by_counters(values, making, library, report)
    families = read_families(values["families"], "families", quantities, report)
    also = read_families(values["also"], "also", quantities, report)
    identity = values.build(
        Identity,
        name=values["name"] or "",
        families=families,
        labels=read_labels(values["labels"], "labels", report),
        labels_of_levels=_labels_of_levels(values, report),
        optional_labels=read_labels(values["optional-labels"], "optional-labels", report),
        headers=_read_headers(values, "headers", report),
        health_headers=_read_headers(values, "health-headers", report),
    )
    if base is not None:
        fields = values.section.fields_of(Identity)
        written = {field: getattr(identity, field) for key, field in fields.items() if values.given(key)}
        identity = replace(base.as_written or base.identity, **({"version": ""} | written))
        quantities = {**base.quantity_places, **quantities}
    labels_of_counters = base.counter_labels if base else ()
    if shown is not None:
        identity = with_labels(identity, () if values.given("labels") else labels_of_counters, shown)
        labels_of_counters = tuple(label.name for label in shown.labels)
        identity = replace(identity, families=shown.families)
        quantities |= shown.quantity_places
    elif values.given("labels"):
        # It may have kept some of these; an identity based on it replaces them by the labels of its own counters.
        labels_of_counters = tuple(label.name for label in identity.labels if label.name in labels_of_counters)
    identity = replace(identity, families=arranged(identity.families, also, values, making, library, report))
    identity = _with_optional_labels(identity, values, report)
    known = _quirks(values, base, report)
    for name, asked in zip(values["quirks"], values.items_of("quirks"), strict=False):
        quirk = next((quirk for quirk in known if quirk.name == name), None)
        if quirk is not None:
            identity = quirk.shown_by(identity)
            continue
        names = [quirk.name for quirk in known]
        hint = did_you_mean(name, names) or f"there is {', '.join(names) or 'none'}"
        report.problem(asked.place, f"quirks: no quirk {name!r} is known of this identity; {hint}")
    places = {family["name"]: family.place for family in (*values["families"], *values["also"])}
    for family in identity.families:
        check_rows(family, identity, places.get(family.name, values.place), report)
    if identity.leading_labels > len(identity.labels):
        place = values.place_of("leading-labels")
        report.problem(place, f"leading-labels: there are only {len(identity.labels)} labels")
    if not _CONTENT_TYPE.fullmatch(identity.content_type):
        text = f"content-type: {identity.content_type[:80]!r} is no Content-Type, as text/plain; version=0.0.4"
        report.problem(values.place_of("content-type"), text)
    counting = with_windows(with_rows_of_pods(identity), making, values.place, report)
    return LoadedIdentity(
        counting, quantity_places=quantities, making=making, counter_labels=labels_of_counters,
        quirks=known, as_written=identity,
    )  # fmt: skip


def _with_optional_labels(identity: Identity, values: Values, report: Report) -> Identity:
    """An identity with the optional labels that are on; a name that none of them has is reported."""
    optional = {label.name: label for label in identity.optional_labels}
    for name, asked in zip(values["show-labels"], values.items_of("show-labels"), strict=False):
        if name not in optional:
            hint = did_you_mean(name, optional) or f"there is {', '.join(optional) or 'none'}"
            report.problem(asked.place, f"show-labels: {name!r} is none of optional-labels; {hint}")
        else:
            others = [label for label in identity.labels if label.name != name]
            front = others[: identity.leading_labels]
            rest = [*others[len(front) :], optional[name]]
            rest = sorted(rest, key=lambda label: label.name) if identity.sort_labels else rest
            identity = replace(identity, labels=(*front, *rest))
    return identity


def _labels_of_levels(values: Values, report: Report) -> tuple[tuple[str, tuple[LabelSpec, ...]], ...]:
    """The labels of rows of some levels; a level that there is not is reported."""
    found = []
    for level, labels in values["labels-of-levels"].items():
        if level not in LEVELS:
            hint = did_you_mean(level, LEVELS) or f"there is {', '.join(LEVELS)}"
            report.problem(values.place_of("labels-of-levels"), f"labels-of-levels: no level {level!r}; {hint}")
        found.append((level, read_labels(labels, f"labels-of-levels: {level}", report)))
    return tuple(found)


def _quirks(values: Values, base: LoadedIdentity | None, report: Report) -> tuple[Quirk, ...]:
    """The quirks that can be asked for: those that are written, and those of the base."""
    written = {
        quirk["name"]: quirk.build(
            Quirk,
            name=quirk["name"],
            labels=read_labels(quirk["labels"], "labels", report),
            added=read_labels(quirk["add-labels"], "add-labels", report),
        )
        for quirk in values["known-quirks"]
    }
    of_base = {quirk.name: quirk for quirk in (base.quirks if base else ())}
    return tuple((of_base | written).values())


def _read_headers(values: Values, key: str, report: Report) -> tuple[tuple[str, str], ...]:
    """The headers of a mapping, (name, value) each; those that cannot be are reported."""
    headers: dict[str, str] = values[key]
    place = values.place_of(key)
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            report.problem(place, f"{key}: {name[:80]}: {value[:80]!r} is no header")
        elif name.lower() in _OURS:
            report.problem(place, f"{key}: {name} is the server's own and cannot be given")
    return tuple(headers.items())


_RELEASE: Final = re.compile(r'^  - release: "?+([\w.-]++)"?+[^\n]*+\n    pairs: \[([^\]\n]*+)\]', re.MULTILINE)
_DEFAULT: Final = re.compile(r'^default-release: "?+([\w.-]++)"?+', re.MULTILINE)
_VERSION: Final = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}")
#: Keys that say which release it is, and those of changes; all others are those of identities.
_OWN: Final = (
    "release", "pairs", "counters", "all-counters", "renamed-counters", "labels", "rename-labels", "without-labels",
)  # fmt: skip

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
    """The name of the release that a version means, and a remark; the remark may be empty.

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
        if others:
            return name, f"taken as {pair}; it may also be {', '.join(others)}: give the pair"
        first = next(release.pairs[0] for release in releases.every if release.name == name)
        return name, "" if pair == first else f"{pair} has the same page as release {name}, by which it is shown"
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
    values |= {name: value for name, value in given.items() if name not in _OWN}
    before = given.get("all-counters", values["counters"])
    values["counters"] = _counters(before, given.get("renamed-counters"), given.get("counters"))
    added, renamed, without = (given.get(name) for name in ("labels", "rename-labels", "without-labels"))
    names = {key.text: _text(name) for key, name in renamed.entries} if isinstance(renamed, Table) else {}
    gone = {_text(item) for item in without.items} if isinstance(without, Listing) else set()
    labels = [label for label in _items(values["labels"]) if _name(label) not in gone]
    for label in _items(added):
        _put(labels, label)
    values["labels"] = Listing(values["labels"].place, tuple(_renamed(label, names) for label in labels))
    of_levels = values["labels-of-levels"]
    assert isinstance(of_levels, Table)
    entries = [
        (level, Listing(level_entries.place, tuple(_renamed(label, names) for label in _items(level_entries))))
        for level, level_entries in of_levels.entries
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


def _counters(before: Node, renamed: Node | None, changes: Node | None) -> Scalar:
    """The rows of counters: a row of the same field, or of its new name, takes the place of the earlier one."""
    assert isinstance(before, Scalar)
    names = {key.text: _text(row) for key, row in renamed.entries} if isinstance(renamed, Table) else {}
    kept = [names.get(line.partition(",")[0], line) for line in before.text.splitlines()]
    rows = {line.partition(",")[0]: line for line in chain(kept, _text(changes).splitlines())}
    return before._replace(text="".join(f"{row}\n" for row in rows.values()))


def _items(node: Node | None) -> Sequence[Table]:
    return [item for item in node.items if isinstance(item, Table)] if isinstance(node, Listing) else []


def _name(label: Table) -> str:
    return _text(label.get("name"))


def _text(node: Node | None) -> str:
    return node.text if isinstance(node, Scalar) else ""
