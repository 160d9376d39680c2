"""How the families and labels of an exporter's pages differ from its identity: an identity file that has the page's.

An identity becomes the document of its file: the reverse of reading it. Labels may be added or missing. Families that
the simulation does not follow keep the numbers that were read.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fakedev.clone.fleet_reader import KEPT_NUMBER, OTHER_LABEL, OWNERS_LABEL, TELLING, facts_of
from fakedev.clone.scraped import format_of, in_order
from fakedev.exporters.conform import Conformity
from fakedev.exporters.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exporters.numbers import formatted
from fakedev.exporters.samples import CapturedFamily, CapturedPage, Labels, Sample
from fakedev.exporters.wandering import Wander


def identity_document(name: str, based_on: str, identity: Identity, base: Identity) -> dict[str, Any]:
    """The document of an identity that is based on another one: only what differs.

    :param name: of the new identity.
    :param based_on: how the configuration names ``base``; empty: it has no name there, and says nothing.
    """
    document: dict[str, Any] = {"name": name} | ({"based-on": based_on} if based_on else {})
    if identity.layout is not base.layout:
        document["layout"] = identity.layout.value
    if identity.timestamps != base.timestamps:
        document["timestamps"] = identity.timestamps
    if identity.labels != base.labels:
        document["leading-labels"] = identity.leading_labels
        document["labels"] = labels_document(identity.labels)
    if identity.labels_of_levels != base.labels_of_levels:
        document["labels-of-levels"] = {
            level: labels_document(labels) for level, labels in identity.labels_of_levels
        }
    if identity.families == base.families:
        return document
    left = {family.name for family in base.families} - {family.name for family in identity.families}
    gone = [family.name for family in base.families if family.name in left]
    replaced = {family.name: family for family in identity.families}
    also = [family for family in identity.families if family not in base.families]
    if identity.families == tuple(replaced[family.name] for family in base.families if family.name not in left):
        # A family of the same name takes the place of the base's.
        lists = {"without": gone, "also": [family_document(family) for family in also]}
        return document | {key: found for key, found in lists.items() if found}
    return document | {"order": "given", "families": [family_document(family) for family in identity.families]}


def labels_document(labels: Sequence[LabelSpec]) -> list[dict[str, Any]]:
    """Labels as a file has them."""
    return [_label(label) for label in labels]


def _label(label: LabelSpec) -> dict[str, Any]:
    document: dict[str, Any] = {"name": label.name, "value": label.value}
    for key, value in (("optional", label.optional), ("leading", label.leading), ("otherwise", label.otherwise)):
        if value:
            document[key] = value
    if label.texts:
        document["texts"] = dict(label.texts)
    if label.only_with:
        document["with"] = label.only_with
    return document


def family_document(family: FamilySpec) -> dict[str, Any]:
    """A family as a file has it."""
    document: dict[str, Any] = {
        "name": family.name, "type": family.kind, "help": family.help, "format": family.number.value,
    }  # fmt: skip
    if len(family.rows) == 1:
        return document | _row(family.rows[0])
    return document | {"rows": [_row(row) for row in family.rows]}


def _row(row: RowSpec) -> dict[str, Any]:
    """What a row shows, then its conditions; what is usual is left out."""
    document: dict[str, Any] = {}
    if row.quantity:
        document["quantity"] = row.quantity
    elif row.fact and not row.is_per_fact:
        document["fact"] = row.fact
    elif row.random is not None:
        document["random"] = wander_document(row.random)
    else:
        document["constant"] = row.constant
    if row.unit != "same":
        document["unit"] = row.unit
    if row.level != "device":
        document["level"] = row.level
    lists = {
        "plus": row.plus, "where": row.where, "unless": row.unless, "without": row.without, "drivers": row.drivers,
    }  # fmt: skip
    document |= {key: list(names) for key, names in lists.items() if names}
    texts = {
        "requires": row.requires, "per": row.fact if row.is_per_fact else row.per, "bits": row.bits,
        "within": row.within,
    }  # fmt: skip
    document |= {key: value for key, value in texts.items() if value}
    if row.without_it is not None:
        document["else"] = row.without_it
    for key, fact_texts in (("only", row.only), ("except", row.excepted)):
        if fact_texts:
            document[key] = {fact_texts[0]: list(fact_texts[1:])}
    if row.times != 1.0:
        document["times"] = row.times
    if row.labels:
        document["labels"] = labels_document(row.labels)
    return document


def wander_document(wander: Wander) -> dict[str, Any]:
    """A random process as a file has it."""
    document: dict[str, Any] = {"quantiles": list(wander.quantiles)}
    if wander.shares:
        document["shares"] = list(wander.shares)
    usual = Wander(wander.quantiles)
    if wander.lasts_seconds != usual.lasts_seconds:
        document["lasts"] = f"{wander.lasts_seconds:g}s"
    parts = {"own": wander.own, "noise": wander.noise, "growing": wander.growing}
    return document | {name: value for name, value in parts.items() if value != getattr(usual, name)}


@dataclass(frozen=True)
class _SeenLabels:
    """Labels of the lines of families that the identity has, without those of single rows.

    :ivar sets: the sets of names on lines, in their order.
    :ivar in_families: in how many families each name is.
    :ivar with_pod: names that are only on lines with a pod.
    :ivar families: how many families there are.
    :ivar empty: names that are on all lines and have no value there.
    """

    sets: tuple[tuple[str, ...], ...]
    in_families: Counter[str]
    with_pod: frozenset[str]
    families: int
    empty: frozenset[str]


def with_seen_labels(identity: Identity, page: CapturedPage, *, is_stored: bool = False) -> Identity:
    """The identity with the labels that lines of a page have.

    A label that half of the families have becomes one of every row; a label of the identity that no line has goes, and
    one that only some lines have becomes optional.

    :param is_stored: the page is read from a Prometheus, which keeps no empty labels: the exporter may still have the
        labels of owners, where no board has an owner.
    """
    seen = _seen(identity, page)
    if not seen.families:
        return identity
    known = {label.name for label in identity.labels}
    others = {name for name, count in seen.in_families.items() if name not in known and 2 * count >= seen.families}
    labels = []
    for label in identity.labels:
        if label.optional or label.only_with:
            labels.append(label)
        elif seen.in_families[label.name]:
            everywhere = all(label.name in names for names in seen.sets)
            if label.name in seen.empty:
                labels.append(LabelSpec(label.name, ""))
            else:
                labels.append(label if everywhere else replace(label, optional=True))
        elif is_stored and label.value in _OF_OWNERS:
            labels.append(replace(label, optional=True))
    places = {label.name: place for place, label in enumerate(labels, 1)}
    leading = {label.name for label in identity.labels[: identity.leading_labels]}
    leading_labels = kept_leading = sum(label.name in leading for label in labels)
    # The other labels, by the number of the identity's labels before them.
    inserted: dict[int, list[LabelSpec]] = {}
    at = 0
    for name in merged(seen.sets):
        at = places.get(name, at)
        if name in others:
            prefix = OWNERS_LABEL if name in seen.with_pod else OTHER_LABEL
            seen_label = LabelSpec(name, f"{{{prefix}{name}}}", optional=True)
            inserted.setdefault(at, []).append(LabelSpec(name, "") if name in seen.empty else seen_label)
            leading_labels += at < kept_leading
    placed = inserted.get(0, []) + [
        name for place, label in enumerate(labels, 1) for name in (label, *inserted.get(place, ()))
    ]
    if tuple(placed) == identity.labels:
        return identity
    return replace(identity, labels=tuple(placed), leading_labels=leading_labels)


def foreign_labels(identity: Identity, page: CapturedPage) -> int:
    """How many labels only one of the two has: those that every row of the identity has, or those of the lines."""
    seen = _seen(identity, page)
    every = {label.name for label in identity.labels}
    always = {label.name for label in identity.labels if not (label.optional or label.only_with)}
    return len(always - set(seen.in_families)) + len(set(seen.in_families) - every)


def _seen(identity: Identity, page: CapturedPage) -> _SeenLabels:
    specs = {family.name: family for family in identity.families}
    levels = dict(identity.labels_of_levels)
    sets: dict[tuple[str, ...], None] = {}
    in_families: Counter[str] = Counter()
    with_pod: set[str] = set()
    without_pod: set[str] = set()
    with_value: set[str] = set()
    families = 0
    for family in page.families.values():
        spec = specs.get(family.name)
        if spec is None or not family.samples or any(row.level in levels for row in spec.rows):
            continue
        families += 1
        own = {label.name for row in spec.rows for label in row.labels}
        found: set[str] = set()
        for sample in family.samples:
            names = tuple(name for name in sample.label_names if name not in own)
            sets[names] = None
            found.update(names)
            with_value.update(name for name, value in sample.labels if value)
            (with_pod if dict(sample.labels).get("pod") else without_pod).update(names)
        in_families.update(found)
    empty = frozenset(name for name in in_families if name not in with_value and all(name in names for names in sets))
    return _SeenLabels(tuple(sets), in_families, frozenset(with_pod - without_pod), families, empty)


def merged(sequences: Iterable[Sequence[str]]) -> list[str]:
    """All names of some sequences in one order: the longest first, others after the name that goes before them."""
    # A linked list, of which the empty name is the beginning and the end.
    following = {"": ""}
    for sequence in sorted(sequences, key=len, reverse=True):
        before = ""
        for name in sequence:
            if name not in following:
                following[name], following[before] = following[before], name
            before = name
    order, name = [], following[""]
    while name:
        order.append(name)
        name = following[name]
    return order


#: Steps of probability of quantiles.
_OF_OWNERS: Final = frozenset(("{pod}", "{namespace}", "{container}"))
_STEPS: Final = np.linspace(0.0, 1.0, 11)
_COUNTED_SECONDS: Final = 7 * 86_400.0
#: Whole numbers below this are states or counts of a few.
_STATES: Final = 16
#: Names of what does not move by itself.
_LIMITS: Final = re.compile(
    r"limit|total_?(?:bytes|memory)|max|min_|capacity|threshold|version|info|start_time|created"
)
#: Formats with fewer decimals.
_ROUNDED_FORMATS: Final = {
    NumberFormat.GO: (NumberFormat.GO_WHOLE, NumberFormat.GO_FIXED2, NumberFormat.GO_FIXED6),
    NumberFormat.PYTHON: (NumberFormat.PYTHON_WHOLE,),
    NumberFormat.DIGITS15: (NumberFormat.INT, NumberFormat.FIXED6),
}
#: Types of families that an identity can have.
KINDS: Final = ("gauge", "counter", "untyped")
#: Rows of such a family with different labels of their own, at most.
_MOST_ROWS: Final = 200


def kept_family(family: CapturedFamily, identity: Identity, devices: int, movement: Movement) -> FamilySpec:
    """A family that moves by itself, or shows the numbers that were read, each on its device; of no device the first.

    :param devices: on the pages; where all have the same number it is a constant, else a fact of each.
    :raises ValueError: when an identity cannot have it, with the reason.
    """
    if family.kind not in KINDS:
        raise ValueError(f"its type is {family.kind}, and identities have {', '.join(KINDS)}")
    if not all(math.isfinite(float(sample.number)) for sample in family.samples):
        raise ValueError("it has numbers that are not finite")
    facts = [facts_of(dict(sample.labels), identity.labels) for sample in family.samples]
    of_devices = all(not own.keys().isdisjoint(TELLING) for own in facts)
    level = "page"
    if of_devices:
        level = "repeated" if any("mig_id" in own for own in facts) else "device"
    common = {label.name for label in identity.labels_on(level)}
    rows: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in family.samples:
        own = tuple((name, value) for name, value in sample.labels if name not in common)
        rows.setdefault(own, []).append(sample)
    if any("{" in value or "}" in value for own in rows for _, value in own):
        raise ValueError("a label has braces, which identities take for facts")
    if len(rows) > _MOST_ROWS:
        raise ValueError(f"it has {len(rows)} rows with different labels, more than {_MOST_ROWS}")
    numbers = [sample.number for sample in family.samples]
    number = format_of(numbers, NumberFormat.GO) or NumberFormat.GO
    specs = []
    for place, (own, samples) in enumerate(rows.items()):
        fact = f"{KEPT_NUMBER}{family.name}" + (f"_{place}" if place else "")
        # A device that had several owners has several lines.
        shown_on = {_telling(sample, identity) for sample in samples}
        is_everywhere = not of_devices or len(shown_on) >= devices
        is_constant = not of_devices or (len({sample.number for sample in samples}) == 1 and is_everywhere)
        shown: dict[str, Any] = {"constant": float(samples[0].number)} if is_constant else {"fact": f"{{{fact}}}"}
        random = movement(family, own, samples)
        if random is not None and is_everywhere:
            shown, number = {"random": random}, rounded_format(numbers, number)
        labels = tuple(LabelSpec(name, value) for name, value in own)
        specs.append(RowSpec("", labels=labels, level=level, **shown))
    return FamilySpec(family.name, family.kind, family.help or "", number, tuple(specs))


def unknown_families(page: CapturedPage, movement: Movement) -> tuple[list[FamilySpec], dict[str, str]]:
    """The families of a page of which nothing is known: a row for each set of labels.

    :returns: and those that an identity cannot have, each with the reason.
    """
    families: list[FamilySpec] = []
    left_out: dict[str, str] = {}
    nothing = Identity("unknown", "", (), ())
    for family in page.families.values():
        for plain in plain_families(family):
            try:
                families.append(kept_family(plain, nothing, 0, movement))
            except ValueError as error:
                left_out[plain.name] = str(error)
    return families, left_out


def plain_families(family: CapturedFamily) -> list[CapturedFamily]:
    """A family as those that an identity can have: a histogram is counters, a summary gauges and counters."""
    if family.kind not in ("histogram", "summary"):
        return [family] if family.samples else []
    found: dict[str, list[Sample]] = {}
    for sample in family.samples:
        found.setdefault(sample.suffix, []).append(sample)
    return [
        replace(family, name=family.name + suffix, kind="counter" if suffix else "gauge", samples=tuple(samples))
        for suffix, samples in found.items()
    ]


def _telling(sample: Sample, identity: Identity) -> tuple[str, ...]:
    """The facts that identify the device of a line: its node, and what identifies it among the devices there."""
    facts = facts_of(dict(sample.labels), identity.labels)
    return tuple(facts.get(name, "") for name in ("node", *TELLING))


#: How a row of a family moves, of whose labels some are the row's own; None: it does not.
Movement = Callable[[CapturedFamily, Labels, Sequence[Sample]], Wander | None]


def assumed_wander(family: CapturedFamily, own: Labels, samples: Sequence[Sample]) -> Wander | None:
    """How a family may move that was read at one moment; None where nothing says that it moves.

    A counter has counted for a week (chosen). A gauge moves where devices differ, or where it has decimals: mostly by
    device, and a tenth of the variance within a minute (chosen).
    """
    values = [float(sample.number) for sample in samples]
    if family.kind == "counter":
        rates = np.quantile(values, _STEPS if len(values) > 1 else [0.5]) / _COUNTED_SECONDS
        return Wander(short_numbers(rates), growing=0.5) if max(values) > 0 else None
    is_state = all(value.is_integer() and abs(value) < _STATES for value in values)
    is_single = len({*values}) == 1
    if is_state or _LIMITS.search(family.name) or (is_single and (len(values) > 1 or values[0].is_integer())):
        return None
    if is_single:
        return Wander(short_numbers([0.95 * values[0], 1.05 * values[0]][:: 1 if values[0] > 0 else -1]))
    return Wander(short_numbers(np.quantile(values, _STEPS)), own=0.9)


def short_numbers(values: Iterable[float]) -> tuple[float, ...]:
    """Numbers as short as files want them."""
    return tuple(float(f"{value:.6g}") for value in values)


def rounded_format(numbers: Sequence[str], usual: NumberFormat) -> NumberFormat:
    """The format of the fewest decimals in which all numbers are as they were read."""
    wanted = [number.encode() for number in numbers]
    values = np.array([float(number) for number in numbers])
    few = _ROUNDED_FORMATS.get(usual, ())
    # What a Prometheus has kept is in no format.
    is_whole = usual is NumberFormat.GO and bool((values == np.floor(values)).all())
    return next(
        (each for each in few if formatted(values, each) == wanted), NumberFormat.GO_WHOLE if is_whole else usual
    )


def with_seen_families(
    identity: Identity,
    read: CapturedPage,
    shown: CapturedPage,
    result: Conformity,
    known: Mapping[str, FamilySpec],
    devices: int,
    movement: Movement,
    *,
    is_stored: bool = False,
) -> tuple[Identity, dict[str, str]]:
    """The identity with the families of the page that was read, in its order.

    A family that the simulation does not fill, or whose labels differ, keeps the numbers that were read.

    :param shown: the page of the identity as it is.
    :param result: the comparison of both.
    :param known: families that the identity does not have, and that the simulation fills.
    :param devices: the number of devices.
    :param is_stored: the page is read from a Prometheus, and holds many nodes. Some may lack a label, so half of the
        lines of a family decide whether its labels differ.
    :returns: and the families of the page that it cannot have, each with the reason.
    """
    specs = {family.name: family for family in identity.families}
    aspects: dict[str, set[str]] = {}
    for difference in result.differences:
        aspects.setdefault(difference.family, set()).add(difference.aspect)
    left_out: dict[str, str] = {}
    found: dict[str, FamilySpec] = {}
    for name, family in read.families.items():
        if not family.samples:
            continue
        spec = specs.get(name)
        if spec is None and name in known:
            found[name] = _as_read(known[name], family, {"TYPE", "HELP"})
        elif spec is not None and name in shown.families and (
            "labels" not in aspects.get(name, ()) or (is_stored and _are_mostly_alike(family, shown.families[name]))
        ):
            found[name] = _as_read(spec, family, aspects.get(name, set()))
        elif spec is not None and name not in shown.families and _without_versions(spec) != spec:
            found[name] = _without_versions(spec)
        else:
            for plain in plain_families(family):
                try:
                    found[plain.name] = kept_family(plain, identity, devices, movement)
                except ValueError as error:
                    left_out[plain.name] = str(error)
    order = list(found) if "order" in {aspect for each in aspects.values() for aspect in each} else None
    missing = [family for family in identity.families if family.name not in {*read.families, *shown.families}]
    every = {**found, **{family.name: family for family in missing}}
    names = in_order(order or _placed(list(specs), list(found)), list(specs), [family.name for family in missing])
    changed = replace(identity, families=tuple(every[name] for name in names))
    return _with_page_labels(changed), left_out


def _are_mostly_alike(read: CapturedFamily, shown: CapturedFamily) -> bool:
    """Whether half of the lines of a family have the labels of lines that are shown, in any order."""
    known = {frozenset(name for name, text in sample.labels if text) for sample in shown.samples}
    own = [frozenset(name for name, text in sample.labels if text) in known for sample in read.samples]
    return 2 * sum(own) >= len(own)


def _without_versions(spec: FamilySpec) -> FamilySpec:
    """A family whose rows do not depend on the version of a driver."""
    return replace(spec, rows=tuple(replace(row, drivers=()) for row in spec.rows))


def _as_read(spec: FamilySpec, read: CapturedFamily, aspects: Iterable[str]) -> FamilySpec:
    """A family with what differs in some aspects as it was read."""
    if "TYPE" in aspects and read.has_type:
        spec = replace(spec, kind=read.kind)
    if "HELP" in aspects and read.help is not None:
        spec = replace(spec, help=read.help)
    if "numbers" in aspects:
        number = format_of([sample.number for sample in read.samples], spec.number)
        spec = replace(spec, number=number or spec.number)
    return spec


def _placed(usual: Sequence[str], found: Sequence[str]) -> list[str]:
    """The families of the page in its order; where that is the usual one of those that are known, both are kept."""
    shared = [name for name in usual if name in set(found)]
    if shared == [name for name in found if name in set(usual)]:
        return list(found)
    order = list(shared)
    return in_order(order, found, [name for name in found if name not in set(usual)])


def _with_page_labels(identity: Identity) -> Identity:
    """Rows of pages have the labels that were read only, not those of devices."""
    has_pages = any(
        row.level == "page" and not row.quantity for family in identity.families for row in family.rows
    )
    if not has_pages or "page" in dict(identity.labels_of_levels):
        return identity
    return replace(identity, labels_of_levels=(*identity.labels_of_levels, ("page", ())))


def kept_names(identity: Identity, base: Identity) -> list[str]:
    """The families of an identity that keep the numbers that were read, without those that are so in its base."""
    of_base = {family.name for family in base.families}
    return [
        family.name
        for family in identity.families
        if (family.name not in of_base or any(KEPT_NUMBER in row.fact for row in family.rows))
        and all(row.fact.startswith(f"{{{KEPT_NUMBER}") or not (row.fact or row.quantity) for row in family.rows)
        and not any(row.random for row in family.rows)
    ]


def random_names(identity: Identity) -> list[str]:
    """The families of an identity that are random processes."""
    return [family.name for family in identity.families if any(row.random for row in family.rows)]
