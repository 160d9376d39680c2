"""``fakedev devices``, ``identities``, ``faults`` and ``schema``: what there is, also in a running service."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Final

from fakedev.commands.console import table, write_text
from fakedev.commands.control.connection import add_address
from fakedev.commands.control.verbs import relay
from fakedev.commands.parser import Parser
from fakedev.config.peer_address import WORKLOAD_SOCKET
from fakedev.spec.client_tls import TLS_OPTIONS

_GIB: Final = 2**30
_LABEL: Final = re.compile(r"[a-zA-Z_]\w*=.*")
#: A row: the columns of the table, by title.
Row = Mapping[str, str]


def devices(arguments: Sequence[str]) -> int:
    """Print the device types of the catalog, or the devices of a running service."""
    return _list("devices", "the device types of the catalog", _device_rows, arguments, "devices")


def identities(arguments: Sequence[str]) -> int:
    """Print the identities of the catalog."""
    return _list("identities", "the exporters that fakedev can imitate", _identity_rows, arguments)


def faults(arguments: Sequence[str]) -> int:
    """Print the kinds of faults, the faults of a running service, or those that make alert rules fire."""
    return _list("faults", "the kinds of faults", _fault_rows, arguments, "faults", takes_rules=True)


def schema(arguments: Sequence[str]) -> int:
    """Print the JSON Schema of a configuration, or of a scenario."""
    parser = Parser("fakedev schema", description="Prints the JSON Schema of a configuration, for editors.")
    parser.add_argument("--scenario", action="store_true", help="that of a scenario")
    name = "scenario" if parser.parse_args(arguments).scenario else "fakedev"
    text = resources.files("fakedev.config").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    write_text(sys.stdout, text)
    return 0


def _list(
    command: str, what: str, rows: Callable[[], Iterable[Row]], arguments: Sequence[str], verb: str = "",
    *, takes_rules: bool = False,
) -> int:
    """Print a catalog, or with ``--active`` what a running service answers to a verb.

    :param verb: of the workload port; empty for none.
    :param takes_rules: with ``--for`` it prints which rows make alert rules fire.
    """  # fmt: skip
    parser = Parser(f"fakedev {command}", description=f"Lists {what}.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    if verb:
        parser.add_argument("--active", action="store_true", help=f"list the {command} of a running service instead")
        add_address(parser, WORKLOAD_SOCKET)
    if takes_rules:
        _add_rule_options(parser)
    options = parser.parse_args(arguments)
    if takes_rules and options.rules is not None:
        return _for_rules(parser, options)
    if takes_rules and (options.identity or options.device or options.label):
        parser.error("--identity, --device and --label go with --for")
    if verb and options.active:
        names = ("socket", "token-file", *TLS_OPTIONS)
        given = {f"--{name}": getattr(options, name.replace("-", "_")) for name in names}
        return relay(command, [word for name, value in given.items() if value for word in (name, value)], verb)
    found = list(rows())
    text = json.dumps(found, indent=1) + "\n" if options.json else table(found)
    write_text(sys.stdout, text)
    return 0


def _add_rule_options(parser: Parser) -> None:
    rules = "tell which fault makes which alert rule of this Prometheus rule file fire; needs promtool"
    parser.add_argument("--for", dest="rules", metavar="RULES", help=rules)
    parser.add_argument("--identity", metavar="ID", help="with --for: the exporter of the pages, default dcgm")
    device = "with --for: the boards, default: those on which the identity shows most"
    parser.add_argument("--device", metavar="NAME", help=device)
    label = "with --for: a label of all series, as a scrape configuration adds it; can be repeated"
    parser.add_argument("--label", action="append", metavar="NAME=VALUE", help=label)


def _for_rules(parser: Parser, options: Namespace) -> int:
    if options.active:
        parser.error("--for and --active exclude each other")
    labels = options.label or []
    for each in labels:
        if not _LABEL.fullmatch(each):
            parser.error(f"--label: {each!r} is no NAME=VALUE: a name has letters, digits and _")
    from fakedev.commands.alert_rules.command import faults_for  # noqa: PLC0415 - it needs the whole simulation

    identity = options.identity or "dcgm"
    return faults_for(options.rules, identity, options.device or "", labels, as_json=options.json)


def _device_rows() -> Iterable[Row]:
    from fakedev.config.catalog import Catalog  # noqa: PLC0415 - the catalog needs NumPy, and --active does not
    from fakedev.config.schema.files import Files  # noqa: PLC0415
    from fakedev.config.schema.nodes import Place, Report  # noqa: PLC0415

    catalog = Catalog(Files(), Report())
    names: dict[str, list[str]] = {}
    for name in catalog.device_names():
        found = catalog.device(name, Place("device"))
        if found is not None:
            names.setdefault(found.type.name, []).append(name)
    for name, every in names.items():
        loaded = catalog.device(name, Place("device"))
        assert loaded is not None
        dynamics, power = loaded.type.dynamics, loaded.type.ranges.get("power_watts")
        most_watts = dynamics.power_limit_watts if dynamics else power.high if power else 0.0
        yield {
            "DEVICE": name,
            "ALSO": ", ".join(each for each in every if each != name),
            "MODEL": loaded.type.facts.get("product_name") or loaded.type.facts.get("card_model", ""),
            "MEMORY": f"{loaded.type.memory_total_bytes / _GIB:.0f} GiB",
            "POWER": f"{most_watts:.0f} W" if most_watts else "",
            "DIVISIBLE": "yes" if loaded.mig else "",
        }


def _identity_rows() -> Iterable[Row]:
    from fakedev.config.catalog import Catalog  # noqa: PLC0415 - as above
    from fakedev.config.schema.files import Files  # noqa: PLC0415
    from fakedev.config.schema.nodes import Place, Report  # noqa: PLC0415

    catalog = Catalog(Files(), Report())
    defaults = {}
    for name in catalog.identity_names():
        found = catalog.identity(name, Place("identity"))
        if found is not None and "@" not in name:
            defaults[found.identity.title] = name
    for name in catalog.identity_names():
        found = catalog.identity(name, Place("identity"))
        if found is None or "@" not in name:
            continue
        yield {
            "IDENTITY": name,
            "ALSO": defaults.get(found.identity.title, ""),
            "FAMILIES": str(len(found.identity.families)),
            "FORMAT": "OpenMetrics too" if found.identity.openmetrics else "text",
        }


def _fault_rows() -> Iterable[Row]:
    from fakedev.spec.fault_kinds import KINDS  # noqa: PLC0415 - as above

    for kind in KINDS.values():
        takes = [each.name if each.default is not None else f"{each.name} (required)" for each in kind.parameters]
        yield {
            "KIND": kind.name,
            "CONCERNS": kind.scope.name.lower(),
            "TAKES": ", ".join([*takes, *(["metric"] if kind.takes_metric else [])]),
            "EFFECT": kind.summary,
        }
