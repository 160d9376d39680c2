"""The keys of identities' files, and of the tables of fields that counters name."""

from __future__ import annotations

from typing import Final

from fakedev.config.devices.keys import Anything
from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.types import Boolean, Choice, Duration, Integer, ListOf, MapOf, Number, OneOf, Text
from fakedev.exposition.identity import UNITS, Layout, NumberFormat, SharedDevices

LABEL = Section(
    "identity.labels",
    (
        Key("name", Text(), "Name of the label.", required=True),
        Key("value", Text(), "Its value: text with {fact}, {fact|upper}, {fact|lower}.", required=True),
        Key("optional", Boolean(), "Left out when it has no value.", default=False),
        Key("texts", MapOf(Text()), "Texts shown in the place of values.", default={}),
        Key("otherwise", Text(), "Shown for a value that texts have not.", default="", default_words="nothing"),
        Key("leading", Boolean(), "Of a row: it stays in front when the labels are sorted.", default=False),
        Key("with", Text(), "The label is left out where this fact has no value.", default="", field="only_with"),
    ),
    doc="A label of a row.",
)
_LABELS: Final = ListOf(LABEL, words="list of labels")
_QUANTITY_DOC = "The quantity it shows."
_REQUIRES: Final = Key(
    "requires", Text(), "Another quantity that an entity must have to be shown.", default=""
)
_PLUS: Final = Key(
    "plus", ListOf(Text()), "Quantities that are added to it; an entity must have them too.", default=(),
)  # fmt: skip
_PER: Final = Key(
    "per", Text(), "What it is divided by: a quantity, which an entity must have too, or a text with {facts} in it.",
    default="",
)  # fmt: skip
_TIMES: Final = Key(
    "times", Number(), "A number that it is multiplied by; a counter is then rounded down.", default=1.0
)
_WHERE: Final = Key(
    "where", ListOf(Text()), "Quantities of which one must not be 0, or there is no row.", default=(),
)  # fmt: skip
_UNLESS: Final = Key(
    "unless", ListOf(Text()), "Quantities that must all be 0 or absent, or there is no row.", default=(),
)  # fmt: skip
_UNIT: Final = Key("unit", Choice(tuple(UNITS)), "Unit in which it is shown.", default="same")
_CONSTANT: Final = Key(
    "constant", Number(), "What it shows in place of a quantity: of things that never change."
)
_FACT: Final = Key(
    "fact",
    Text(),
    "In place of a quantity a text with {facts} in it that is a number, decimal or 0x...; no row where it is none.",
    default="",
)
_BETWEEN: Final = Key(
    "between",
    ListOf(Text(), 2, words="list of two versions"),
    "Of a fact that is a version: a row, which shows 0, only where it is at least the first and below the second.",
    default=(),
)
_ELSE: Final = Key(
    "else", Number(), "What it shows for an entity that does not have the quantity, and has that of requires.",
    default_words="no row", field="without_it",
)  # fmt: skip
_BITS: Final = Key(
    "bits",
    Integer(0, 2**31 - 1),
    "Of a quantity that is a mask: it shows 1 where any of these bits is set, else 0.",
    default=0,
    default_words="its value",
)

_WITHIN: Final = Key(
    "within", Text(), "The window, of those of the identity, over which it is counted.", default="",
    default_words="since the beginning",
)  # fmt: skip

#: What a row shows, beside its quantity; and when there is one.
_SHOWN: Final = (_CONSTANT, _FACT, _BETWEEN, _ELSE, _BITS, _PLUS, _PER, _TIMES, _UNIT)
_CONDITIONS: Final = (_REQUIRES, _WHERE, _UNLESS, _WITHIN)

_NUMBERED: Final = Key(
    "numbered", MapOf(Integer(1, 64), words="mapping of a label to a count"),
    "Of several things of which the device has one value: a row for each, with its number, from 0, in this label.",
    default={}, default_words="one row",
)  # fmt: skip

_TEXTS_OF_A_FACT: Final = MapOf(ListOf(Text(), 1), words="mapping of a fact to a list of texts")

ROW = Section(
    "identity.families.rows",
    (
        Key("quantity", Text(), _QUANTITY_DOC, default="", default_words="see constant"),
        *_SHOWN,
        Key("level", Text(), "The level of entities that have a row.", default="device"),
        *_CONDITIONS,
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
        Key("only", _TEXTS_OF_A_FACT, "Devices have it only with one of these texts in this fact.", default={}),
        Key(
            "except", _TEXTS_OF_A_FACT, "Devices with one of these texts in this fact have it not.", default={},
            field="excepted",
        ),
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
        Key("name", Text(), "Its name, as labels.empty.", required=True),
        Key("issue", Text(), "Where it was reported: OWNER/REPOSITORY#NUMBER.", required=True),
        Key("doc", Text(), "Its effect on the page.", required=True),
        Key("labels", _LABELS, "Labels of every row that take the place of those of the same names.", default=()),
        Key(
            "rename-labels", MapOf(Text(), words="mapping of names to names"), "Labels that have other names.",
            default={}, field="renamed",
        ),
        Key("without-labels", ListOf(Text()), "Labels that are not there.", default=(), field="without"),
        Key("add-labels", _LABELS, "Labels of every row that are added.", default=(), field="added"),
    ),
    doc="A known fault of an exporter, shown on request.",
)  # fmt: skip

FIELD = Section(
    "counter fields.fields",
    (
        Key("number", Integer(1, 9999), "The field's number, by which families may be ordered.", required=True),
        Key("alias", Text(), "Another name that a counters file may use.", default=""),
        Key("label", Text(), "Its text, as of a label, where it can be one.", default=""),
        Key("level", Text(), "The level of entities that have a row.", default="", default_words="that of all fields"),
        Key("quantity", Text(), _QUANTITY_DOC, default=""),
        *_SHOWN,
        *_CONDITIONS,
        Key("labels", _LABELS, "Labels of its row, after the identity's.", default=()),
        Key("rows", ListOf(ROW, 1, words="list of rows"), "Its rows, in place of quantity.", default=()),
        Key(
            "variants", MapOf(ListOf(ROW, words="list of rows")),
            "Rows that take their place in the identities that name them.", default={},
        ),
        Key("format", Choice.of(NumberFormat), "How numbers are written.", default=NumberFormat.INT),
    ),
    doc="What a field of a vendor's library shows.",
)

COUNTER_FIELDS = Section(
    "counter fields",
    (
        Key("fields", MapOf(FIELD, words="mapping of field names"), "Fields by name.", required=True),
        Key("level", Text(), "The level of entities for fields that give none.", default="device"),
        Key("not-simulated", ListOf(Text()), "Names of the vendor's other fields.", default=()),
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
        Key("name", Text(), "Name of the exporter.", required=True),
        Key("based-on", Text(), "Another identity, from which all that is not written here is taken.", default=""),
        Key("version", Text(), "Its version.", default=""),
        Key("aliases", ListOf(Text()), "Other names for it, in the catalog.", default=()),
        Key("default", Boolean(), "Its name without a version stands for this version, in the catalog.", default=False),
        Key(
            "board", Text(), "The device type that commands take for its pages where none is named.", default="",
            default_words="of four of the catalog the one that shows most of it",
        ),
        Key("content-type", Text(), "Content-Type of its pages.", default="text/plain; version=0.0.4; charset=utf-8"),
        Key("openmetrics", Boolean(), "Whether it negotiates OpenMetrics.", default=False),
        Key(
            "layout",
            Choice.of(Layout),
            "The order of lines on a page.",
            default=Layout.FAMILIES,
        ),
        Key("sort-labels", Boolean(), "Whether labels are in alphabetical order.", default=False),
        Key("leading-labels", Integer(0, 100), "How many labels stay in front when the labels are sorted.", default=0),
        Key("timestamps", Boolean(), "Whether lines end with a time in milliseconds.", default=False),
        Key(
            "shared-devices",
            Choice.of(SharedDevices),
            "Which pods the rows of a shared device show: the first on it, each in its own rows, or none.",
            default=SharedDevices.FIRST,
        ),
        Key(
            "hold",
            Duration(),
            "Its pages show the last tick at a multiple of this, as an exporter that collects at intervals does.",
            default=0.0,
            default_words="0s: each tick",
        ),
        Key(
            "windows", MapOf(Duration(0.001, 86400.0)),
            "The windows of time over which the exporter counts, by the names that rows use.", default={},
        ),
        Key(
            "sample-every", Duration(0.001, 86400.0), "How often the exporter takes the samples that it counts.",
            default=30.0, field="sample_seconds",
        ),
        Key("quirks", ListOf(Text()), "Known quirks that it shows.", default=()),
        Key("known-quirks", ListOf(QUIRK), "Quirks that can be named.", default=(), default_words="those of based-on"),
        Key("headers", MapOf(Text()), "Headers that it sends with every response.", default={}),
        Key("health", Text(), "The body of /health.", default="", default_words="fakedev's own"),
        Key("health-headers", MapOf(Text()), "Further headers of that.", default={}),
        Key("answers-post", Boolean(), "Whether its /metrics answers POST as it does GET.", default=False),
        Key("landing", Text(), "Title of its page at /.", default="", default_words="it has none"),
        Key("labels", _LABELS, "Labels of every row.", default=()),
        Key(
            "labels-of-levels", MapOf(_LABELS, words="mapping of levels to lists of labels"),
            "In their place, labels of the rows of some levels.", default={},
        ),
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
        Key("fields", Text(), "Which fields the rows of counters may name.", default="dcgm"),
        Key(
            "variants", MapOf(Text()),
            "Fields of counters that show other rows than usual, by the names of these variants.", default={},
        ),
        Key(
            "order",
            Choice(("given", "name", "number")),
            "Order of the families: as given, by name, or by the number of the field that counters name.",
            default="given",
        ),
        Key(
            "numbers",
            Choice.of(NumberFormat),
            "How all numbers are written.",
            default_words="that of each family",
        ),
        Key("prefix", Text(), "Before the name of each family.", default=""),
        Key("without", ListOf(Text()), "Families that are left out of those of based-on, or of counters.", default=()),
        Key(
            "also",
            ListOf(FAMILY, words="list of families"),
            "Families beside those of based-on, or of counters; one of the same name takes its place.",
            default=(),
        ),
        Key("not-covered", ListOf(Text()), "What the exporter has and this identity lacks, in words.", default=()),
        Key("sources", Anything(), "Where it comes from: for readers only."),
    ),
    doc="What one version of an exporter prints.",
)
