"""The keys of identities' files, and of the tables of fields that counters name."""

from __future__ import annotations

from typing import Final

from fakedev.exporters.identity import Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exporters.settings.loaded import Making, Quirk
from fakedev.exporters.wandering import Wander
from fakedev.fleet.settings.devices import Anything
from fakedev.schema.sections import Key, Section
from fakedev.schema.types import Boolean, Choice, Integer, ListOf, MapOf, Number, OneOf, Text, keys_from

LABEL = Section(
    "identity.labels",
    (
        *keys_from(LabelSpec, "name", "value", "optional"),
        Key("texts", MapOf(Text()), "Texts to show instead of values.", default={}),
        *keys_from(LabelSpec, "otherwise", "leading", "only_with"),
    ),
    doc="A label of a row.",
)
_LABELS: Final = ListOf(LABEL, words="list of labels")
RANDOM = Section(
    "identity.families.random",
    (
        Key(
            "quantiles", ListOf(Number(), 1, words="list of numbers"),
            "Its distribution: values at equal steps of probability, from the smallest to the largest. Of a "
            "counter: what an entity gains in a second, which differs by entity.", required=True,
        ),
        Key(
            "shares", ListOf(Number(0), words="list of numbers"),
            "Of a value that is one of these, with none between them: how often it is each; as many as quantiles.",
            default=(), default_words="there are values between",
        ),
        *keys_from(Wander, "lasts_seconds", "own", "noise", "growing"),
    ),
    doc="A random process in place of a quantity, for what the simulation does not follow.",
)  # fmt: skip
_QUANTITY_DOC = "The quantity it shows."
#: What a row shows besides its quantity; and when there is one.
_SHOWN: Final = (
    *keys_from(RowSpec, "constant", "fact"),
    Key("random", RANDOM, "A random process that it shows in place of a quantity.", default=None,
        default_words="none"),
    Key(
        "drivers", ListOf(Text(), 1, words="list of one or two versions"),
        "The drivers that have it: from the first version to below the second one, if there is one. A driver whose "
        "version is unknown counts as the newest.",
        default=(), default_words="any",
    ),
    Key(
        "between", ListOf(Text(), 2, words="list of two versions"),
        "The form of 0.2.0, with the fact {driver_version}: 0 with drivers from the first version to below the second.",
        default=(),
    ),
    *keys_from(RowSpec, "without_it", "bits", "plus", "per", "times", "unit"),
)
_CONDITIONS: Final = keys_from(RowSpec, "requires", "where", "unless", "without", "within")

_NUMBERED: Final = Key(
    "numbered", MapOf(Integer(1, 64), words="mapping of a label to a count"),
    "Repeats the row, with numbers from 0 in this label: for several things that share the value of the device.",
    default={}, default_words="one row",
)  # fmt: skip

_TEXTS_OF_A_FACT: Final = MapOf(ListOf(Text(), 1), words="mapping of a fact to a list of texts")
_DEVICES: Final = (
    Key("only", _TEXTS_OF_A_FACT, "Only devices whose fact has one of these texts have it.", default={}),
    Key(
        "except", _TEXTS_OF_A_FACT, "Devices whose fact has one of these texts do not have it.", default={},
        field="excepted",
    ),
)  # fmt: skip

ROW = Section(
    "identity.families.rows",
    (
        Key("quantity", Text(), _QUANTITY_DOC, default="", default_words="see constant"),
        *_SHOWN,
        Key("level", Text(), "The level of entities that have a row.", default="device"),
        *_CONDITIONS,
        *_DEVICES,
        Key("labels", _LABELS, "Labels of this row, after the identity's.", default=()),
        _NUMBERED,
    ),
    doc="A row of a family for each entity.",
)

FAMILY = Section(
    "identity.families",
    (
        Key("name", Text(), "Name of the family.", required=True),
        Key("type", Choice(("gauge", "counter", "untyped")), "Word of its TYPE line.", required=True),
        Key("help", Text(), "Text of its HELP line.", required=True),
        Key("format", Choice.of(NumberFormat), "How numbers are written.", required=True),
        Key(
            "quantity", Text(), "The quantity it shows, when it has one row for each device.", default_words="see rows"
        ),
        Key("level", Text(), "The level of entities that have that row.", default="device"),
        *_SHOWN,
        *_CONDITIONS,
        Key("labels", _LABELS, "Labels of that row, after the identity's.", default=()),
        _NUMBERED,
        *_DEVICES,
        Key(
            "rows",
            ListOf(ROW, 1, words="list of rows"),
            "Its rows, in place of quantity.",
            default=(),
            default_words="one of quantity, unit, labels",
        ),
    ),
    doc="A metric family.",
)

QUIRK = Section(
    "identity.known-quirks",
    (
        *keys_from(Quirk, "name", "issue", "doc"),
        Key("labels", _LABELS, "Labels of every row; they replace labels of the same names.", default=()),
        *keys_from(Quirk, "renamed", "without"),
        Key("add-labels", _LABELS, "Labels to add to every row.", default=(), field="added"),
    ),
    doc="A known fault of an exporter, shown on request.",
)  # fmt: skip

FIELD = Section(
    "counter fields.fields",
    (
        Key("number", Integer(1, 9999), "The field's number, by which families may be ordered.", required=True),
        Key("alias", Text(), "Another name that a counters file may use.", default=""),
        Key("label", Text(), "Its text, for counters files that make it a label.", default=""),
        Key("level", Text(), "The level of entities that have a row.", default="", default_words="as in the table"),
        Key("quantity", Text(), _QUANTITY_DOC, default=""),
        *_SHOWN,
        *_CONDITIONS,
        *_DEVICES,
        Key("labels", _LABELS, "Labels of its row, after the identity's.", default=()),
        Key("rows", ListOf(ROW, 1, words="list of rows"), "Its rows, in place of quantity.", default=()),
        Key(
            "variants", MapOf(ListOf(ROW, words="list of rows")),
            "Rows that replace them in identities that name the variant.", default={},
        ),
        Key("format", Choice.of(NumberFormat), "How numbers are written.", default=NumberFormat.INT),
    ),
    doc="What a field of a vendor's library shows.",
)

COUNTER_FIELDS = Section(
    "counter fields",
    (
        Key("based-on", Text(), "Another table, whose fields are all included.", default=""),
        Key(
            "renamed", MapOf(Text()), "New names of its fields, by their old names, which stay valid.", default={},
        ),
        Key("fields", MapOf(FIELD, words="mapping of field names"), "Fields by name.", default={}),
        Key("level", Text(), "The level of entities for fields that give none.", default="device"),
        Key("not-simulated", ListOf(Text()), "The vendor's other fields.", default=()),
        Key("inferred", ListOf(Text()), "Names that were inferred from others and are in no source.", default=()),
        Key(
            "capabilities", MapOf(ListOf(Integer(1, 9999), 2), words="mapping of facts to two numbers of fields"),
            "Facts of boards: with the text 0 they do not have the fields from the first number to the second.",
            default={},
        ),
    ),
    doc="The fields that a counters file may name.",
)

COUNTERS = Section(
    "identity.counters",
    (
        Key("file", Text(longest=65536), "The path of the counters file, or its rows themselves.", required=True),
        Key(
            "unknown", Choice(("error", "skip")),
            "Rows of fields that are not simulated, and of fields that fakedev does not know: errors, or left out "
            "with a note.",
            default="error",
        ),
    ),
    doc="A counters file that may have rows that cannot be shown.",
)  # fmt: skip

IDENTITY = Section(
    "identity",
    (
        *keys_from(Identity, "name"),
        Key("based-on", Text(), "Another identity, which gives all keys that are missing here.", default=""),
        *keys_from(Identity, "version"),
        Key("aliases", ListOf(Text()), "Other names for it, in the catalog.", default=()),
        Key("default", Boolean(), "In the catalog: the name without a version means this version.", default=False),
        *keys_from(
            Identity, "board", "content_type", "openmetrics", "layout", "sort_labels", "sort_rows", "leading_labels",
            "timestamps", "shared_devices", "values_of_pods", "hold_seconds",
        ),
        *keys_from(Making, "windows", "sample_seconds"),
        Key("quirks", ListOf(Text()), "Known quirks that it shows.", default=()),
        Key("known-quirks", ListOf(QUIRK), "Quirks that can be named.", default=(), default_words="as in based-on"),
        Key("headers", MapOf(Text()), "Headers that it sends with every response.", default={}),
        *keys_from(Identity, "health"),
        Key("health-headers", MapOf(Text()), "Further headers of the answer at /health.", default={}),
        *keys_from(Identity, "answers_post", "jobs_of_instances", "landing"),
        Key("labels", _LABELS, "Labels of every row.", default=()),
        Key(
            "labels-of-levels", MapOf(_LABELS, words="mapping of levels to lists of labels"),
            "Labels that replace these on rows of some levels.", default={},
        ),
        Key(
            "optional-labels", _LABELS, "Labels that the exporter adds to every row if its configuration says so.",
            default=(), default_words="as in based-on",
        ),
        Key("show-labels", ListOf(Text()), "The optional-labels that are shown, by name.", default=()),
        Key(
            "families",
            ListOf(FAMILY, 1, words="list of families"),
            "The metric families, in the order of the page.",
            default=(),
            default_words="as in based-on",
        ),
        Key(
            "counters",
            OneOf((Text(longest=65536), COUNTERS), "text or mapping"),
            "In place of families: the path of a counters file as dcgm-exporter reads them, or its rows themselves.",
            default="",
        ),
        *keys_from(Making, "fields", "variants", "order", "numbers"),
        Key("prefix", Text(), "Before the name of each family.", default=""),
        Key("without", ListOf(Text()), "Families of based-on, or of counters, that are left out.", default=()),
        Key(
            "also",
            ListOf(FAMILY, words="list of families"),
            "Further families. One with the name of a family of based-on, or of counters, replaces it.",
            default=(),
        ),
        Key("help-texts", MapOf(Text()), "Other HELP texts, by the names of families.", default={}),
        *keys_from(Identity, "not_covered"),
        Key("sources", Anything(), "Where it comes from: for readers only."),
    ),
    doc="What one version of an exporter prints.",
)  # fmt: skip
