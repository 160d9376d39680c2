"""From files, environment and options to the one frozen configuration, or to all problems at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from fakedev.base.environment import OVERRIDES, unknown_variables
from fakedev.base.errors import Refused
from fakedev.config.configuration import Configuration, HpcJobs, Journal
from fakedev.config.endpoints import Endpoints
from fakedev.config.keys import CONFIGURATION
from fakedev.config.overrides import with_environment, with_overrides
from fakedev.config.pools import Pools, ShownPool
from fakedev.exporters.checks import check_identity, note_unused_labels
from fakedev.exporters.settings.catalog import Catalog
from fakedev.exporters.settings.families import tallies_shown
from fakedev.exporters.settings.otlp import Otlp
from fakedev.fleet.cluster.scheduler import Nodes
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.faults.rules import FaultRules
from fakedev.fleet.settings.cluster import read_cluster
from fakedev.fleet.settings.faults import load_faults
from fakedev.fleet.settings.pools import check_churn
from fakedev.fleet.settings.ports import WorkloadPorts
from fakedev.fleet.settings.workloads import load_base, load_profiles
from fakedev.fleet.spec.fleet_spec import FaultSpec, FleetSpec
from fakedev.fleet.spec.limits import Limits
from fakedev.fleet.spec.offers import OPERATOR_NODE_LABEL
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.fleet.workloads.admission import Admission
from fakedev.fleet.workloads.configured import check_room_of_configuration
from fakedev.kubernetes.settings import load_kubernetes
from fakedev.nvml.settings import load_kernel_log, load_nvml
from fakedev.queues.settings import load_queues
from fakedev.runtime.settings import Logging
from fakedev.schema.files import Files, Unreadable
from fakedev.schema.peer_addresses import runtime_folder
from fakedev.schema.places import Node, Place, Report, Scalar, Table
from fakedev.schema.reader import Variables, read_document
from fakedev.schema.sections import INVALID, Values, did_you_mean
from fakedev.schema.types import ListOf, Text
from fakedev.tester.settings import own_frontend, tester_plans, tester_reports

if TYPE_CHECKING:
    from fakedev.kubernetes.runai.operator import Topology

#: The built-in configuration's name in problems.
DEMO: Final = "demo.yaml"
#: The key that makes a file a scenario; those of its configuration, and of values in it as ``--set`` takes them.
SCENARIO_KEY, CONFIG_KEY, SET_KEY = "scenario", "config", "set"


def load(
    path: str | None,
    files: Files,
    overrides: Sequence[str] = (),
    text: str | None = None,
    *,
    of_scenario: bool = False,
) -> Configuration:
    """The configuration of a file, with changes by the environment and by options.

    :param path: of the YAML or JSON file; None: the built-in demo, or ``text``. Of a scenario, its configuration is
        read.
    :param overrides: ``fleet.seed=7``, ``web.0.listen=9401``, as ``--set`` takes them.
    :param text: used in place of the file's text; relative paths in it begin at the file's folder.
    :param of_scenario: the timeline of a scenario is played, too; else a note says that it is not.
    :raises ConfigurationError: with every problem.
    """
    report = Report()
    has_changes = bool(overrides) or any(name.startswith(OVERRIDES) for name in files.environ)
    tree = _tree(path, files, text, report, may_be_empty=text is not None or has_changes)
    while isinstance(tree, Table) and tree.get(SCENARIO_KEY) is not None:
        if not of_scenario:
            report.note(tree.place, "is a scenario: its configuration is used, and its timeline is not played")
        path, tree, own = _of_scenario(tree, path, files, report)
        overrides = [*own, *overrides]
    tree = with_environment(tree, files, report)
    tree = with_overrides(tree, overrides, report)
    if isinstance(tree, Table) and all(key.text == "version" for key, _ in tree.entries):
        report.note(tree.place, "is empty: the nodes of the built-in demo are simulated, without its workloads")
    topology: Topology | None = None
    if isinstance(tree, Table) and tree.get("topology") is not None:
        # Only with a topology: what reads it takes time and memory.
        from fakedev.config.operator_tree import with_topology  # noqa: PLC0415

        tree, topology = with_topology(tree, path, files, report)
    report.folder = os.path.dirname(os.path.abspath(path)) if path else os.getcwd()
    values = CONFIGURATION.read(tree, "", report)
    if values is INVALID:
        report.raise_if_any()
    configuration = _built(values, path, files, report, topology)
    report.raise_if_any()
    return configuration


def _tree(
    path: str | None, files: Files, text: str | None, report: Report, *, may_be_empty: bool = True
) -> Node:
    """The tree of the file; an empty mapping when it cannot be read.

    :param may_be_empty: the values may come from elsewhere; else a file without any is a mistake.
    """
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
        if not may_be_empty:
            words = "is empty: give version: 1 and what differs from the defaults; no file at all starts the demo"
            report.problem(Place(file, 1), words)
        return empty
    return empty if node is None else node


def _of_scenario(
    scenario: Table, path: str | None, files: Files, report: Report
) -> tuple[str | None, Node, Sequence[str]]:
    """The configuration of a scenario: where its relative paths begin, its tree, and values as ``--set`` takes them."""
    known = {key.name for key in CONFIGURATION.keys} - {"version"}
    for name in (key for key, _ in scenario.entries if key.text in known):
        report.problem(name.place, f"{name.text}: is not used beside {SCENARIO_KEY}: move it into {CONFIG_KEY}")
    given, written = scenario.get(CONFIG_KEY), scenario.get(SET_KEY)
    own = ListOf(Text()).read(written, SET_KEY, report) if written is not None else ()
    if given is None:
        return None, _tree(None, files, None, report), own
    if isinstance(given, Table):
        return path, given, own
    config = Text("path").read(given, CONFIG_KEY, report)
    folder = os.path.dirname(path or "")
    if config is INVALID:
        return path, Table(given.place, ()), own
    config = os.path.normpath(os.path.join(folder, config))
    return config, _tree(config, files, None, report), own


def _built(
    values: Values, path: str | None, files: Files, report: Report, topology: Topology | None
) -> Configuration:
    catalog = Catalog(files, report, report.folder, os.path.dirname(path or ""))
    fleet: Values = values["fleet"]
    pools = Pools(catalog, report).load(fleet["pools"] or ())
    complete = len({pool.spec.name for pool in pools}) == len(fleet["pools"] or ()) and bool(pools)
    for pool in pools:
        check_identity(pool.identity, pool.sample, pool.values.place_of("identity"), report)
    specs = tuple(pool.spec for pool in pools)
    nodes = {node.name: node for pool in specs for node in pool.nodes}
    runtime = partial(runtime_folder, files.variable)
    endpoints = Endpoints(catalog, pools, values["web-config"], runtime, files.read_token, report)
    web = endpoints.web(values["web"], complete=complete)
    workloads: Values = values["workloads"]
    listen = endpoints.workloads(workloads["listen"], nodes, complete=complete)
    queues = load_queues(values["queues"], endpoints.lines, report)
    frontend = own_frontend(queues.clients if queues else ())
    plans = tester_plans(values["tester"], files, report, frontend)
    reports = tester_reports(values["tester"], report)
    shown = [pool.identity.identity for pool in pools] + [name for endpoint in web for name in endpoint.identities]
    metrics = {name: metric for identity in reversed(shown) for name, metric in identity.metric_names().items()}
    spec = fleet.build(
        FleetSpec, pools=specs, metric_names=metrics, tallies=tallies_shown(shown),
        limits=values["limits"].build(Limits), cluster=None,
    )  # fmt: skip
    compiled = admission = rules = None
    if complete:
        compiled = CompiledFleet(replace(spec, shard=None))
        admission, rules = compiled.admission, compiled.fault_rules
    base = load_base(workloads["base"], catalog, admission, rules, report)
    faults = load_faults(values["faults"], rules, report)
    if rules is not None:
        profiled, faulty = load_profiles(pools, fleet["seed"], rules, report)
        base, faults = base + profiled, faults + faulty
    if admission is not None:
        check_churn(pools, fleet["tick"], admission, report)
    operator_label = topology.label_key if topology is not None else OPERATOR_NODE_LABEL
    kubernetes = load_kubernetes(values["kubernetes"], pools, endpoints.lines, operator_label, files, report)
    if admission is not None and rules is not None:
        _check_limits(spec.limits, values, base, faults, admission, rules, report)
    shard = fleet["shard"]
    is_fixed = not any(pool.has_cluster_nodes for pool in specs)
    if complete and is_fixed and shard is not None and not any(map(shard.has, nodes)):
        text = f"shard: {shard} has none of the {len(nodes)} nodes: have fewer shards"
        report.problem(fleet.place_of("shard"), text)
    if shard is not None and any(pool.racks is not None for pool in specs):
        text = "shard: a rack is one state, which shards would cut apart: leave out shard, or the racks"
        report.problem(fleet.place_of("shard"), text)
    _note_labels(pools, report)
    if fleet["cluster"] is not None and compiled is not None and not report.sorted_problems():
        _note_boards_of_cluster(base, compiled.roster, fleet.place_of("cluster"), report)
    for name, text in unknown_variables(files.environ, files.variables):
        report.note(Place(f"environment {name}"), text)
    return Configuration(
        fleet=replace(
            spec, base=base, faults=faults,
            cluster=read_cluster(fleet["cluster"], fleet, catalog, fleet["shard"], report),
        ),
        compiled=[compiled] if compiled is not None else [],
        epoch_is_start=fleet["epoch"] is None,
        speed=fleet["speed"],
        identities={pool.spec.name: pool.identity.identity for pool in pools},
        web=web,
        queues=queues,
        plans=plans,
        reports=reports,
        workloads=workloads.build(WorkloadPorts, listen=listen),
        logging=values["log"].build(Logging),
        journal=values["journal"].build(Journal) if values["journal"]["file"] else None,
        state=values["state"],
        kubernetes=kubernetes,
        nvml=load_nvml(values["nvml"], specs, nodes, runtime, report),
        kernel_log=load_kernel_log(values["kernel-log"], specs, nodes, report),
        otlp=values["otlp"].build(Otlp) if values["otlp"] is not None else None,
        hpc_jobs=_hpc_jobs(values["hpc-jobs"], nodes, report),
        watch=values["watch"] if values.given("watch") else topology is not None,
        topology=topology,
        notes=report.notes,
        source=values,
    )


def _check_limits(
    limits: Limits,
    values: Values,
    workloads: Sequence[WorkloadSpec],
    faults: Sequence[FaultSpec],
    admission: Admission,
    rules: FaultRules,
    report: Report,
) -> None:
    """Check that all workloads and faults of the configuration, with those of profiles, have room."""
    if report.sorted_problems():
        return  # some of them may be missing, or not possible
    try:
        check_room_of_configuration(workloads, faults, admission, rules, limits)
    except Refused as refused:
        place = values["limits"].place_of(refused.where.removeprefix("limits."))
        report.problem(place, f"{refused.text} (workloads and faults of the configuration, including profiles)")


def _note_boards_of_cluster(base: Sequence[WorkloadSpec], roster: Roster, place: Place, report: Report) -> None:
    """Note a cluster that has less than half of the boards, as one that is put on the demo with its workloads."""
    taken = {unit for work in base for unit in resolve(work.devices, roster, work.node).tolist()}
    nodes = Nodes(roster)
    boards = [first + index for first, width in zip(nodes.firsts, nodes.widths, strict=True) for index in range(width)]
    free = len(set(boards) - taken)
    if 2 * free < roster.device_count:
        text = (
            f"cluster: its jobs have {free} of {roster.device_count} boards: leave out workloads.base on the others, "
            "churn, mig, or nodes: cluster"
        )
        report.note(place, text)


def _hpc_jobs(values: Values, nodes: Iterable[str], report: Report) -> HpcJobs | None:
    """The folder of jobs; None without."""
    if not values["folder"]:
        return None
    known = list(nodes)
    name = values["node"] or next(iter(known), "")
    if known and name not in known:
        report.problem(values.place_of("node"), f"node: no node {name!r}{did_you_mean(name, known, '; ')}")
    return values.build(HpcJobs, node=name, is_written=values["from"] == "workloads")


def _note_labels(pools: list[ShownPool], report: Report) -> None:
    """Notes labels that were given and that the pool's identity does not show."""
    for pool in pools:
        given = dict(pool.device.labels)
        if pool.devices is not None:
            given |= pool.devices.labels
        table = pool.values.nodes.get("labels")
        if isinstance(table, Table):
            given |= {key.text: key.place for key, _ in table.entries}
        note_unused_labels(given, pool.identity.identity, report)
