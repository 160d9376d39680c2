"""From files, environment and options to the one frozen configuration, or to all problems at once.

``--set fleet.seed=7`` and ``FAKEDEV__FLEET__SEED=7``: single values put into the tree.

What ``--shard`` is told: ``0/3``, or ``hostname/3`` for the number at the end of this host's name.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import Final

from fakedev.config.applied_profiles import load_profiles
from fakedev.config.catalog import Catalog
from fakedev.config.configuration import Configuration, Journal, Logging, WorkloadPorts
from fakedev.config.devices.checks import check_identity, note_unused_labels
from fakedev.config.endpoints import Endpoints
from fakedev.config.faults import fault_rules, load_faults
from fakedev.config.identities.windows import tallies_shown
from fakedev.config.keys import CONFIGURATION
from fakedev.config.models import LoadedPool
from fakedev.config.pools.churn import check_churn
from fakedev.config.pools.pools import Pools
from fakedev.config.queues import load_queues
from fakedev.config.schema.documents import Variables, is_clean, read_document
from fakedev.config.schema.files import Files, Unreadable
from fakedev.config.schema.nodes import Growth, Listing, Node, Place, Report, Scalar, SyntaxProblem, Table
from fakedev.config.schema.schema import INVALID, Key, Section, Type, Values, nearest_name
from fakedev.config.schema.types import ListOf, MapOf, OneOf
from fakedev.config.schema.yaml_reader import parse_yaml
from fakedev.config.tester import own_frontend, tester_plans, tester_reports
from fakedev.config.workloads import load_base
from fakedev.sim.devices.relations import Relations
from fakedev.sim.entities.roster import Roster
from fakedev.sim.faults.faults import MAX_FAULTS
from fakedev.sim.parts.demand import unit_capacity
from fakedev.sim.workloads.admission import Admission
from fakedev.sim.workloads.intake import MAX_WORKLOADS
from fakedev.spec.fleet import FleetSpec
from fakedev.spec.shards import parse_shard, shard_of_host

#: Environment variables that stand for a key: FAKEDEV__WORKLOADS__MAX_CONNECTIONS, FAKEDEV__WEB__0__LISTEN.
PREFIX: Final = "FAKEDEV__"
_MAX_STEPS: Final = 32


def with_environment(tree: Node, files: Files, report: Report) -> Node:
    """The tree with the values that environment variables give."""
    for name, text in files.variables_beginning(PREFIX).items():
        path = name.removeprefix(PREFIX).split("__")
        tree = _with(tree, path, text, f"environment {name}", report, from_environment=True)
    return tree


def with_overrides(tree: Node, overrides: Sequence[str], report: Report) -> Node:
    """The tree with the values of ``--set`` options."""
    for override in overrides:
        path, equals, text = override.partition("=")
        if not equals or not path.strip():
            report.problem(Place(f"--set {override}"), "has no value: write it as --set fleet.seed=7")
            continue
        tree = _with(tree, path.strip().split("."), text, f"--set {path.strip()}", report, from_environment=False)
    return tree


def _with(tree: Node, path: list[str], text: str, origin: str, report: Report, *, from_environment: bool) -> Node:
    place = Place(origin)
    value: Node | None = Scalar(place, text, origin=origin)
    if text.lstrip().startswith(("[", "{", '"', "'")):
        value = _read(text, origin, report)
    if value is None:
        return tree
    try:
        if len(path) > _MAX_STEPS:
            raise ValueError("has too many steps")
        return _Setter(place, value, from_environment).put(tree, CONFIGURATION, path)
    except ValueError as error:
        report.problem(place, str(error))
        return tree


def _read(text: str, origin: str, report: Report) -> Node | None:
    """A value in brackets or quotes, all of it at one place."""
    if not is_clean(text, origin, report):
        return None
    try:
        return parse_yaml(text, Growth(origin, report, lines=False))
    except SyntaxProblem as problem:
        report.problem(Place(origin), str(problem))
        return None


class _Setter:
    """Puts one value into a tree, which it copies along the path."""

    def __init__(self, place: Place, value: Node, from_environment: bool) -> None:
        self._place = place
        self._value = value
        self._folds = from_environment

    def put(self, node: Node | None, kind: Type | None, path: list[str]) -> Node:
        """The node with the value at the end of the path."""
        if not path:
            return self._value
        if isinstance(kind, OneOf):
            kind = next((each for each in kind.types if isinstance(each, ListOf | MapOf)), None)
        if isinstance(node, Scalar):
            node = self._opened(node, kind)
        if isinstance(node, Listing) or isinstance(kind, ListOf):
            items = node.items if isinstance(node, Listing) else ()
            return self._into_list(items, kind.item if isinstance(kind, ListOf) else None, path)
        entries = node.entries if isinstance(node, Table) else ()
        return self._into_table(entries, kind, path)

    def _opened(self, node: Scalar, kind: Type | None) -> Node:
        """A single value as the section that it stands for."""
        if isinstance(kind, Section) and kind.shorthand and not node.is_null:
            return Table(node.place, ((Scalar(node.place, kind.shorthand), node),))
        return Table(node.place, ())

    def _into_list(self, items: tuple[Node, ...], kind: Type | None, path: list[str]) -> Node:
        step, rest = path[0], path[1:]
        if not step.isdecimal() or len(step) > 6:
            raise ValueError(f"{step!r} is no number: items of a list are named 0, 1, ...")
        index = int(step)
        if index > len(items):
            raise ValueError(f"there are {len(items)} items: the next one is {len(items)}, not {index}")
        changed = list(items)
        changed[index : index + 1] = [self.put(items[index] if index < len(items) else None, kind, rest)]
        return Listing(self._place, tuple(changed))

    def _into_table(self, entries: tuple[tuple[Scalar, Node], ...], kind: Type | None, path: list[str]) -> Node:
        key = self._key(kind, path[0]) if isinstance(kind, Section) else None
        name = key.name if key else path[0]
        below = key.type if key else kind.value if isinstance(kind, MapOf) else None
        written = next((node for entry, node in entries if entry.text == name), None)
        if written is None and key is not None and key.default_yaml and len(path) > 1:
            written = key.default_node
        changed = self.put(written, below, path[1:])
        kept = [(entry, changed if entry.text == name else node) for entry, node in entries]
        if all(entry.text != name for entry, _ in entries):
            kept.append((Scalar(self._place, name, quoted=True), changed))
        return Table(kept[0][1].place if entries else self._place, tuple(kept))

    def _key(self, section: Section, step: str) -> Key:
        for key in section.keys:
            if key.name == step or (self._folds and key.name.replace("-", "_").upper() == step.upper()):
                return key
        names = [key.name for key in section.keys]
        nearest = nearest_name(step.replace("_", "-"), names)
        hint = f"did you mean {nearest!r}?" if nearest else f"known here: {', '.join(names)}"
        raise ValueError(f"unknown key {step!r}; {hint}")

#: How problems name the configuration that is used when none is given.
DEMO: Final = "demo.yaml"


def load(path: str | None, files: Files, overrides: Sequence[str] = (), text: str | None = None) -> Configuration:
    """The configuration of a file, with what the environment and options change in it.

    :param path: of the YAML or JSON file; None: the built-in demo, or ``text``.
    :param overrides: ``fleet.seed=7``, ``web.0.listen=9401``: as given to ``--set``.
    :param text: used in place of the file's text; relative paths in it begin at the file's folder.
    :raises ConfigurationError: with every problem.
    """
    report = Report()
    tree = _tree(path, files, text, report)
    tree = with_environment(tree, files, report)
    tree = with_overrides(tree, overrides, report)
    values = CONFIGURATION.read(tree, "", report)
    if values is INVALID:
        report.raise_if_any()
    configuration = _built(values, path, files, report)
    report.raise_if_any()
    return configuration


def runtime_folder(files: Files) -> str:
    """The default folder of sockets: the service's, the user's, or a private one in the temporary folder."""
    folder = (files.variable("RUNTIME_DIRECTORY") or "").split(":")[0]
    if folder:
        return folder
    folder = files.variable("XDG_RUNTIME_DIR") or ""
    if folder:
        return os.path.join(folder, "fakedev")
    return os.path.join(files.variable("TMPDIR") or tempfile.gettempdir(), f"fakedev-{os.getuid()}")


def _tree(path: str | None, files: Files, text: str | None, report: Report) -> Node:
    """What was written; an empty mapping when that cannot be read."""
    file = path or (DEMO if text is None else "configuration")
    empty = Table(Place(file, 1), ())
    try:
        if text is None:
            text = files.read_demo() if path is None else files.read(os.path.abspath(path))
    except Unreadable as error:
        report.problem(Place(file, error.line), str(error))
        return empty
    node = read_document(text, file, report, Variables(files).expand)
    if isinstance(node, Scalar) and node.is_null:
        return empty
    return empty if node is None else node


def _built(values: Values, path: str | None, files: Files, report: Report) -> Configuration:
    folder = os.path.dirname(os.path.abspath(path)) if path else os.getcwd()
    catalog = Catalog(files, report, folder, os.path.dirname(path or ""))
    fleet: Values = values["fleet"]
    pools = Pools(catalog, report).load(fleet["pools"] or ())
    complete = len({pool.spec.name for pool in pools}) == len(fleet["pools"] or ()) and bool(pools)
    for pool in pools:
        check_identity(pool.identity, pool.spec, pool.values.place_of("identity"), report)
    specs = tuple(pool.spec for pool in pools)
    nodes = {node.name: node for pool in specs for node in pool.nodes}
    endpoints = Endpoints(catalog, pools, folder, runtime_folder(files), report)
    web = endpoints.web(values["web"], complete=complete)
    workloads: Values = values["workloads"]
    listen = endpoints.workloads(workloads["listen"], nodes, complete=complete)
    queues = load_queues(values["queues"], endpoints, report)
    frontend = own_frontend(queues.clients if queues else ())
    plans = tester_plans(values["tester"], folder, files, report, frontend)
    reports = tester_reports(values["tester"], folder, report)
    metrics = {name: metric for pool in pools for name, metric in pool.identity.identity.metric_names().items()}
    admission = rules = None
    if complete:
        roster = Roster(specs)
        relations = Relations(roster, 0.0, fleet["seed"])
        capacity = unit_capacity(relations.capacity(), roster.parts)
        admission = Admission(roster, capacity, relations.quantities, metrics, fleet["tick"])
        rules = fault_rules(fleet["tick"], roster, relations, admission)
    base = load_base(workloads["base"], catalog, admission, rules, report)
    faults = load_faults(values["faults"], rules, report)
    if rules is not None:
        profiled, faulty = load_profiles(pools, rules, report)
        base, faults = base + profiled, faults + faulty
    if admission is not None:
        check_churn(pools, fleet["tick"], admission, report)
    if len(base) > MAX_WORKLOADS:
        text = f"{len(base)} workloads with those of profiles are too many: at most {MAX_WORKLOADS}"
        report.problem(workloads.place, f"workloads: {text}")
    if len(faults) > MAX_FAULTS:
        text = f"{len(faults)} faults with those of profiles are too many: at most {MAX_FAULTS}"
        report.problem(values.place_of("faults"), f"faults: {text}")
    shard = fleet["shard"]
    if complete and shard is not None and not any(map(shard.has, nodes)):
        text = f"shard: {shard} has none of the {len(nodes)} nodes: have fewer shards"
        report.problem(fleet.place_of("shard"), text)
    _note_labels(pools, report)
    return Configuration(
        fleet=FleetSpec(
            specs, fleet["seed"], fleet["tick"], fleet["epoch"] or 0.0, base, metrics, faults,
            tallies_shown([pool.identity.identity for pool in pools], web), shard,
        ),
        epoch_is_start=fleet["epoch"] is None,
        speed=fleet["speed"],
        identities={pool.spec.name: pool.identity.identity for pool in pools},
        web=web,
        queues=queues,
        plans=plans,
        reports=reports,
        workloads=WorkloadPorts(listen, workloads["max-connections"], workloads["message-timeout"]),
        logging=Logging(values["log"]["level"], values["log"]["format"]),
        journal=_journal(values["journal"], folder),
        watch=values["watch"],
        notes=report.notes,
        source=values,
    )


def _journal(values: Values, folder: str) -> Journal | None:
    if values["file"] is None:
        return None
    return Journal(os.path.join(folder, values["file"]), int(values["max-size"]), values["keep"])


def _note_labels(pools: list[LoadedPool], report: Report) -> None:
    """Notes labels that were given and that the pool's identity does not show."""
    for pool in pools:
        given = dict(pool.device.labels)
        if pool.devices is not None:
            given |= pool.devices.labels
        table = pool.values.nodes.get("labels")
        if isinstance(table, Table):
            given |= {key.text: key.place for key, _ in table.entries}
        identity = pool.identity.identity
        note_unused_labels(given, [identity], identity.title, report)

SHARD_HELP: Final = (
    "simulate one slice of the nodes: its number, from 0, and how many there are; hostname/N: its "
    "number is at the end of this host's name, as of a StatefulSet's pod"
)


def shard_override(text: str, host: str = "") -> str:
    """The value of the configuration that ``--shard`` stands for.

    :param host: the name of this host; empty: as the system says.
    :raises ValueError: for what is no shard.
    """
    number, slash, count = text.partition("/")
    if number == "hostname":
        text = f"{shard_of_host(host or os.uname().nodename)}{slash}{count}"
    return f"fleet.shard={parse_shard(text)}"
