"""``fakedev devices``, ``identities``, ``faults`` and ``schema``: what there is, also in a running service."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Final

from fakedev.base.console import table, write_text
from fakedev.commands.control import send
from fakedev.commands.reach import JSON, service_options, write_json
from fakedev.schema.options import OnlyOne, Option, WrongUsage, command
from fakedev.schema.places import Place

if TYPE_CHECKING:
    from fakedev.exporters.settings.catalog import Catalog
    from fakedev.exporters.settings.loaded import LoadedIdentity
    from fakedev.fleet.settings.loaded import LoadedDevice

_GIB: Final = 2**30
_LABEL: Final = re.compile(r"[a-zA-Z_]\w*=.*")
#: What is looked up here has no place in a file.
_PLACE: Final = Place("catalog")
#: A row: the columns of the table, by title.
Row = Mapping[str, str]


def added_label(text: str) -> tuple[str, str]:
    """A label of all series, given as NAME=VALUE.

    :raises ValueError: for another text.
    """
    name, _, value = text.partition("=")
    if not _LABEL.fullmatch(text):
        raise ValueError(f"{text!r} is no NAME=VALUE: a name has letters, digits and _")
    return name, value


def _active(command: str) -> tuple[Option | OnlyOne, ...]:
    """The options of a list that can also come from a running service."""
    active = Option("active", "", f"list the {command} of a running service instead")
    return (active, *service_options(takes_port=True))


@command("fakedev devices", "Lists the device types of the catalog.", JSON, *_active("devices"))
def devices(options: Namespace) -> None:
    """Print the device types of the catalog, or the devices of a running service."""
    if options.active:
        send("devices", ["devices"], options)
    else:
        _print(_device_rows(), options)


@command(
    "fakedev identities",
    "Lists the exporters that fakedev can imitate.",
    JSON,
    Option("sources", "", "list instead what each of them does not cover, and which names were inferred, not read"),
)
def identities(options: Namespace) -> None:
    """Print the identities of the catalog."""
    _print(_doubt_rows() if options.sources else _identity_rows(), options)


@command(
    "fakedev faults",
    "Lists the kinds of faults.",
    JSON,
    *_active("faults"),
    Option(
        "for", "RULES", "show which fault makes which alert rule of this Prometheus rule file fire; needs promtool",
        value="rules",
    ),
    Option("show", "FAULT", "show every sign of a fault on a busy board, e.g. 'xid code=79'"),
    Option("identity", "ID", "with --for or --show: the exporter of the pages, default dcgm"),
    Option("device", "NAME", "with --for or --show: the boards, default: those on which the identity shows most"),
    Option(
        "label", "NAME=VALUE", "with --for: a label of all series, as a scrape configuration adds it; can be repeated",
        parse=added_label, is_repeated=True,
    ),
)  # fmt: skip
def faults(options: Namespace) -> int:
    """Print the kinds of faults, the faults of a service, the faults for alert rules, or all signs of one fault."""
    if sum(map(bool, (options.rules, options.show, options.active))) > 1:
        raise WrongUsage("--for, --show and --active exclude each other")
    if options.label and not options.rules:
        raise WrongUsage("--label goes with --for")
    if not options.rules and not options.show:
        if options.identity or options.device:
            raise WrongUsage("--identity and --device go with --for or --show")
        if options.active:
            send("faults", ["faults"], options)
        else:
            _print(_fault_rows(), options)
        return 0
    from fakedev.commands.alert_rules import faults_for  # noqa: PLC0415 - it needs the whole simulation

    identity = options.identity or "dcgm"
    if options.show:
        from fakedev.commands.fault_showing import show_fault  # noqa: PLC0415 - as above

        show_fault(options.show, identity, options.device or "", as_json=options.json)
        return 0
    return faults_for(options.rules, identity, options.device or "", dict(options.label), as_json=options.json)


@command(
    "fakedev schema",
    "Prints the JSON Schema of a configuration, for editors.",
    Option("scenario", "", "print the schema of a scenario instead"),
)
def schema(options: Namespace) -> None:
    """Print the JSON Schema of a configuration, or of a scenario."""
    name = "scenario" if options.scenario else "fakedev"
    text = resources.files("fakedev.config").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    write_text(sys.stdout, text, is_document=True)


def _print(rows: Iterable[Row], options: Namespace) -> None:
    found = list(rows)
    if options.json:
        write_json(found)
    else:
        write_text(sys.stdout, table(found))


def _device_rows() -> Iterable[Row]:
    catalog = _catalog()
    names: dict[str, list[str]] = {}
    types: dict[str, LoadedDevice] = {}
    for device_name in catalog.device_names():
        if (found := catalog.device(device_name, _PLACE)) is not None:
            types[found.type.name] = found
            names.setdefault(found.type.name, []).append(device_name)
    for name, loaded in types.items():
        dynamics, power = loaded.type.dynamics, loaded.type.ranges.get("power_watts")
        most_watts = dynamics.power_limit_watts if dynamics else power.high if power else 0.0
        yield {
            "DEVICE": name,
            "ALSO": ", ".join(alias for alias in names[name] if alias != name),
            "MODEL": loaded.type.facts.get("product_name") or loaded.type.facts.get("card_model", ""),
            "MEMORY": f"{loaded.type.memory_total_bytes / _GIB:.0f} GiB",
            "POWER": f"{most_watts:.0f} W" if most_watts else "",
            "DIVISIBLE": "yes" if loaded.mig else "",
        }


def _catalog() -> Catalog:
    # It needs NumPy, and --active does not.
    from fakedev.exporters.settings.catalog import Catalog  # noqa: PLC0415
    from fakedev.schema.files import Files  # noqa: PLC0415
    from fakedev.schema.places import Report  # noqa: PLC0415

    return Catalog(Files(), Report())


def _identities(catalog: Catalog) -> dict[str, LoadedIdentity]:
    """All identities, by their names with and without version."""
    found = {name: catalog.identity(name, _PLACE) for name in catalog.identity_names()}
    return {name: identity for name, identity in found.items() if identity is not None}


def _identity_rows() -> Iterable[Row]:
    found = _identities(_catalog())
    defaults = {loaded.identity.title: name for name, loaded in found.items() if "@" not in name}
    for name, loaded in found.items():
        if "@" in name:
            yield {
                "IDENTITY": name,
                "ALSO": defaults.get(loaded.identity.title, ""),
                "VERSIONS": loaded.identity.span,
                "FAMILIES": str(len(loaded.identity.families)),
                "FORMAT": "OpenMetrics too" if loaded.identity.openmetrics else "text",
            }


def _doubt_rows() -> Iterable[Row]:
    catalog = _catalog()
    for name, loaded in _identities(catalog).items():
        if "@" not in name:
            continue
        yield from ({"IDENTITY": name, "KIND": "not covered", "WHAT": text} for text in loaded.identity.not_covered)
        table = catalog.field_table(loaded.making.fields, _PLACE) if loaded.counter_labels else None
        for field in sorted(table.inferred) if table else ():
            what = f"{field}: the name follows from others; no source has it"
            yield {"IDENTITY": name, "KIND": "inferred", "WHAT": what}


def _fault_rows() -> Iterable[Row]:
    from fakedev.fleet.spec.fault_kinds import KINDS  # noqa: PLC0415 - as above

    for kind in KINDS.values():
        takes = [each.name if each.default is not None else f"{each.name} (required)" for each in kind.parameters]
        yield {
            "KIND": kind.name,
            "CONCERNS": kind.scope.name.lower(),
            "TAKES": ", ".join([*takes, *(["metric"] if kind.takes_metric else [])]),
            "EFFECT": kind.summary,
        }
