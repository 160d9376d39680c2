"""An identity as the document of its file: the reverse of reading it, for what a clone writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, RowSpec


def identity_document(name: str, based_on: str, identity: Identity, base: Identity) -> dict[str, Any]:
    """The document of an identity that is based on another one: only what differs.

    :param name: of the new identity.
    :param based_on: how the configuration names ``base``.
    """
    document: dict[str, Any] = {"name": name, "based-on": based_on}
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
    for key, texts in (("only", family.rows[0].only), ("except", family.rows[0].excepted)):
        if texts:
            document[key] = {texts[0]: list(texts[1:])}
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
    else:
        document["constant"] = row.constant
    if row.unit != "same":
        document["unit"] = row.unit
    if row.level != "device":
        document["level"] = row.level
    lists = {"plus": row.plus, "where": row.where, "unless": row.unless, "between": row.between}
    document |= {key: list(names) for key, names in lists.items() if names}
    texts = {
        "requires": row.requires, "per": row.fact if row.is_per_fact else row.per, "bits": row.bits,
        "within": row.within,
    }  # fmt: skip
    document |= {key: value for key, value in texts.items() if value}
    if row.without_it is not None:
        document["else"] = row.without_it
    if row.times != 1.0:
        document["times"] = row.times
    if row.labels:
        document["labels"] = labels_document(row.labels)
    return document
