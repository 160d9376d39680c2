"""/api/v1/why: why something is as it is: a device, pod, workload, fault, node, queue, page or query."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np

from fakedev.api.exporters import ExporterAddresses
from fakedev.api.live import names_of
from fakedev.api.metric_queries import (
    WORK_QUANTITIES,
    Watched,
    explain_query,
    is_exporter_metric,
    problem_of,
    shows_any,
)
from fakedev.api.own_pages import own_pages
from fakedev.api.pasted_rules import PastedRule, rules_of
from fakedev.api.queues import describe_queue_now
from fakedev.api.rule_times import MAX_DEVICES, alert_times, lines_of, marks_of
from fakedev.base.errors import Refused, did_you_mean
from fakedev.base.steps import Steps
from fakedev.exporters.cache import Pages
from fakedev.fleet import answers
from fakedev.fleet.charts import History
from fakedev.fleet.describe import describe_state, describe_workloads
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.entities.state import Mask
from fakedev.fleet.explanation import link_word, named_fault
from fakedev.fleet.faults.rules import Fault
from fakedev.fleet.hub import describe_explanations, describe_fault, describe_link_explanations
from fakedev.fleet.levels import UNIT, worst_of
from fakedev.fleet.past import EndedWorkload
from fakedev.fleet.spec.fault_kinds import MACHINE_SCOPES, Scope
from fakedev.fleet.ticker import Ticker
from fakedev.queues.diagnosis import queue_line
from fakedev.queues.figures import QueueFigures
from fakedev.scenario.rules.alert_rules import metrics_of, seconds_of, selectors_of
from fakedev.web.http_limits import HttpError
from fakedev.web.metrics import OwnMetrics
from fakedev.web.paths import METRICS, NODE_METRICS, WHY
from fakedev.web.query import ApiResource, argument
from fakedev.web.request import Request
from fakedev.web.resource import Answer
from fakedev.web.response import Response, as_http_error, json_response

#: Characters of a question, and devices that are explained in one answer.
MAX_CHARACTERS: Final = 2000
_MAX_DEVICES: Final = 3
#: Puts work on a device.
_RUN: Final = "fakedev run NAME devices={} profile=90:5:0"
#: Labels with a pod, and lines that are said of one in an answer about a query.
_POD_LABELS: Final = ("pod", "exported_pod")
_MAX_SAID: Final = 3
#: The time in which rules are looked for in the past.
_PAST_SECONDS: Final = 3600.0
#: What a device in each state of health does.
_HEALTH: Final = {
    "well": "is well", "power": "is held by its power limit", "heat": "throttles by heat",
    "hardware": "is slowed by its hardware", "error": "reports an error (XID)", "hung": "hangs", "lost": "is lost",
}  # fmt: skip
#: Devices whose conditions are looked at, and faults.
_MAX_STATES: Final = 200
_MAX_FAULTS: Final = 1000
_MAX_LISTED: Final = 8
#: What faults must concern to change the page of a node.
_PAGE_SCOPES: Final = (Scope.PAGE, Scope.NODE, Scope.SERIES)
_NODE_SCOPE_WORDS: Final = {
    Scope.PAGE: "its page", Scope.NODE: "all of it", Scope.CLUSTER: "it, as a cluster sees it",
}  # fmt: skip
#: Faults that leave no series of a device.
_HIDING: Final = ("absent", "node-down", "error-page")
#: A device by its number alone: ``3``, ``nvidia3``, ``gpu3``.
_NUMBERED: Final = re.compile(r"(?:/dev/)?(?:nvidia|gpu|card|accel|device)?[ -]?(\d{1,4})", re.IGNORECASE)
_UUID: Final = re.compile(r"(?:GPU-|MIG-)?[0-9a-fA-F]{8}-[0-9a-fA-F-]{9,27}")
_QUERY: Final = re.compile(r"[{}()<>=\[\]]")
_METRIC: Final = re.compile(r"[a-zA-Z_:][\w:]*")
_URL: Final = re.compile(r"https?://(?P<host>[^/]+)(?P<path>/.*)?")


@dataclass
class Reason:
    """What is said of something.

    :ivar kind: what it is: ``device``, ``pod``, ``queue``, ...
    :ivar more: further values of the answer.
    """

    kind: str
    name: str
    lines: list[str]
    more: dict[str, Any]


class Why(ApiResource):
    """Why something is as it is.

    :param pages: with the identities.
    :param queues: None for none.
    :param own: of the page of fakedev itself.
    """

    path = WHY

    def __init__(
        self, pages: Pages, queues: QueueFigures | None, exporters: ExporterAddresses, ticker: Ticker, own: OwnMetrics,
        history: History,
    ) -> None:  # fmt: skip
        self._fleet = pages.fleet
        self._pages = pages
        self._queues = queues
        self._exporters = exporters
        self._ticker = ticker
        self._own = own
        self._history = history

    def get(self, request: Request) -> Answer:
        """``of``: a device, UUID, pod, workload, fault, node, queue, page, metric or query; ``metric`` of a device."""
        return request.answer_in_slices(self._steps(request))

    def _steps(self, request: Request) -> Steps[Response]:
        given, metric = argument(request, "of"), argument(request, "metric").strip()
        rules = rules_of(given)
        word = rules[0].expression if rules else given.strip()
        if not 0 < len(word) <= MAX_CHARACTERS:
            raise HttpError(400, f"of must have 1 to {MAX_CHARACTERS} characters", "bad-argument", "of")
        yield
        try:
            reason = yield from self._of_query(word, rules[0]) if rules else self._reason(word, metric)
        except Refused as refused:
            raise as_http_error(refused) from None
        if not self._ticker.speed and reason.kind != "queue":
            reason.lines.append("the clock is paused: its speed is 0, and only an advance moves it")
        if len(rules) > 1:
            reason.lines.append(f"the first of {len(rules)} rules: fakedev faults --for FILE answers all of a file")
        described = {"of": word, "kind": reason.kind, "name": reason.name, "tick": self._fleet.state.tick}
        return json_response({**described, "lines": reason.lines, **reason.more})

    def _reason(self, word: str, metric: str) -> Steps[Reason]:
        """What is said of a word: the first of these that it names."""
        fleet = self._fleet
        named = self._queue(word) or self._fault(word) or self._workload(word) or self._page(word)
        if named is not None:
            return named
        if _QUERY.search(word) and "/[" not in word:
            return (yield from self._of_query(word))
        node = fleet.roster.node(word)
        if node is not None:
            return self._node(node)
        pod = self._pod(word)
        if pod is not None:
            return pod
        is_metric = _METRIC.fullmatch(word) and ("_" in word[1:] or ":" in word)
        if is_metric and not any(word in fleet.roster.files(pool) for pool in fleet.roster.pools):
            return (yield from self._of_query(word))
        link = link_word(word)
        units = yield from self._units(link[0] if link else word)
        if link and len(units) == 1:
            described = describe_link_explanations(fleet, units[0], link[1], metric)["explanations"]
            return Reason("link", word, [answers.explanation_line(row) for row in described], {})
        is_unknown = bool(metric) and len(units) == 1 and not self._is_known(metric)
        if is_unknown and is_exporter_metric(metric):
            found = yield from self._of_query(metric)
            return Reason("device", fleet.roster.unit_name(units[0]), found.lines, found.more)
        return self._devices(units, metric)

    def _is_known(self, metric: str) -> bool:
        try:
            self._fleet.quantity_of(metric)
        except Refused:
            return False
        return True

    # -- queues --

    def _queue(self, word: str) -> Reason | None:
        name = word.removeprefix("queue ").strip()
        described = self._queue_now(name)
        return None if described is None else Reason("queue", name, _queue_lines(described), {"queue": described})

    def _queue_now(self, name: str) -> dict[str, Any] | None:
        if self._queues is None or name not in self._queues.broker.queue_names:
            return None
        return describe_queue_now(self._queues, name)

    # -- faults and workloads --

    def _fault(self, word: str) -> Reason | None:
        fleet = self._fleet
        fault, past = fleet.faults.by_id.get(word), fleet.past.fault(word)
        if fault is not None:
            described = describe_fault(fleet, fault)
            lines = [answers.fault_line(described), *self._start(fault), f"{fault.kind.name}: {fault.kind.summary}",
                     f"recovery: {fault.kind.recovery}"]  # fmt: skip
        elif past is not None:
            described, lines = past.fields(), [answers.past_fault_line(past.fields())]
        else:
            return None
        caused = [entry for entry in fleet.journal.last(1000) if word in entry.cause.split(",")]
        lines += [f"{entry.scope}: {entry.text} (tick {entry.tick})" for entry in caused[-_MAX_LISTED:]]
        return Reason("fault", word, lines, {"fault": described})

    def _workload(self, word: str) -> Reason | None:
        fleet = self._fleet
        ids = fleet.workloads.find(word)
        if ids:
            described = describe_workloads(fleet, [fleet.workloads.by_id[ids[0]]])[0]
            lines = [answers.workload_line(described)]
            units = fleet.workloads.by_id[ids[0]].devices.tolist()
            lines += self._of_units(units)
            lines += self._lines_of_pod(word)
            return Reason("workload", ids[0], lines, {"workload": described})
        ended = fleet.past.end(word)
        if ended is None:
            return None
        lines = [*self._end_lines(ended), *self._lines_of_pod(word)]
        return Reason("workload", ended.workload_id, list(dict.fromkeys(lines)), {"workload": ended.fields()})

    def _end_lines(self, ended: EndedWorkload) -> list[str]:
        causes = [f"cause: {named_fault(self._fleet, part)}" for part in ended.cause.split(",") if part]
        return [answers.ended_line(ended.fields()), *causes]

    def _lines_of_pod(self, word: str) -> list[str]:
        """What is said of the pod that has the name of its workload, as usual; nothing without one."""
        pod = self._pod(word)
        return pod.lines if pod else []

    def _of_units(self, units: list[int]) -> list[str]:
        """The worst conditions of some units."""
        level, name = self._fleet.state.levels[UNIT], self._fleet.roster.unit_name
        states = [(worst_of(level, [unit]), name(unit)) for unit in units[:_MAX_STATES]]
        troubled = [f"{device} {_HEALTH[state]}" for state, device in states if state != "well"]
        return troubled[:_MAX_LISTED] or [f"its devices ({len(units)}) are well"]

    # -- pods --

    def _pod(self, word: str) -> Reason | None:
        """A pod: its work, and on which of its devices the labels of the series are its own."""
        fleet, pod = self._fleet, word.rpartition("/")[2]
        if not pod:
            return None
        found = [workload for workload in fleet.workloads.by_id.values() if workload.spec.pod == pod]
        ended = [end for end in fleet.past.ends() if end.pod == pod]
        if not found and not ended:
            return None
        lines = [f"{each.workload_id} {each.spec.name} runs on {fleet.journal.names(each.devices)}" for each in found]
        for unit in dict.fromkeys(unit for workload in found for unit in workload.devices.tolist()):
            device = self._labelled(unit)
            owner = fleet.labels.attribution.facts(device).get("pod", "")
            name = fleet.roster.unit_name(device)
            if owner == pod:
                lines.append(self._series_of(device, pod))
            else:
                lines.append(f"the series of {name} have the labels of {owner or 'no pod'}: it used the device first")
            if len(lines) > _MAX_LISTED + len(found):
                break
        lines += [line for end in ended[:_MAX_LISTED] for line in self._end_lines(end)]
        if not found:
            stay = [fault.fault_id for fault in fleet.faults.active(Scope.SERIES) if fault.kind.name == "stale-labels"]
            kept = f"; fault {stay[0]} stale-labels lets labels stay" if stay else ": no series has its labels"
            lines.insert(0, f"none of its workloads runs{kept}")
        return Reason("pod", pod, lines, {})

    def _labelled(self, unit: int) -> int:
        """The unit whose series have the labels of work on a unit: of a tile its board."""
        parts = self._fleet.roster.parts
        is_tile = unit >= parts.device_count and parts.is_tile[unit - parts.device_count]
        return parts.owner(unit) if is_tile else unit

    def _series_of(self, device: int, pod: str) -> str:
        """Whether the series of a device have its pod now, and what hides or falsifies them."""
        fleet, name = self._fleet, self._fleet.roster.unit_name(device)
        wrong = [
            fault for fault in fleet.faults.near(device).now
            if fault.kind.takes_metric or fault.kind.scope in (Scope.PAGE, Scope.NODE)
        ]  # fmt: skip
        is_hidden = any(fault.kind.name in _HIDING and fault.metric is None for fault in wrong)
        reasons = [
            f"fault {fault.fault_id} {fault.kind.name}{f' metric={fault.spec.metric}' * bool(fault.spec.metric)}: "
            f"{fault.kind.summary}" for fault in wrong
        ]  # fmt: skip
        said = f"no series of {name} is on a page; they would have" if is_hidden else f"the series of {name} have"
        return "; ".join([f"{said} pod={pod}", *reasons])

    # -- nodes and pages --

    def _node(self, node: RosterNode) -> Reason:
        is_down = any(fault.kind.scope is Scope.NODE for fault in self._faults_of_node(node))
        pages = [] if is_down else self._page_lines(node)
        return Reason("node", node.name, [*self._node_lines(node), *pages], {})

    def _node_lines(self, node: RosterNode) -> list[str]:
        """The devices of a node in trouble, and the faults that affect it or will."""
        fleet = self._fleet
        parts, level = fleet.roster.parts, fleet.state.levels[UNIT]
        states = [(unit, worst_of(level, [unit, *parts.of(unit)])) for unit in node.devices]
        troubled = [f"{fleet.roster.unit_name(unit)} {_HEALTH[state]}" for unit, state in states if state != "well"]
        lines = [f"{len(states)} devices of {node.pool.device_type.name}: " + (", ".join(troubled) or "all well")]
        for fault in self._faults_of_node(node):
            what = _NODE_SCOPE_WORDS.get(fault.kind.scope) or self._names(fault)
            lines.append(f"{self._named(fault)} on {what}: {fault.kind.summary}")
        return lines + self._waiting(range(node.first, node.first + len(node.devices)))

    def _waiting(self, units: Collection[int]) -> list[str]:
        """The faults that are to begin on some units, or on parts of them, each with its time."""
        parts = self._fleet.roster.parts
        mine = np.zeros(parts.unit_count, np.bool_)
        mine[list(units)] = True
        return [
            f"{self._named(fault)} waits: {text}"
            for fault in islice(self._fleet.faults.by_id.values(), _MAX_FAULTS)
            for text in self._start(fault)
            if (mine[fault.devices] | mine[parts.owners_of(fault.devices)]).any()
        ][:_MAX_LISTED]

    def _start(self, fault: Fault) -> list[str]:
        """When a fault begins that waits; nothing of one that began."""
        now, seconds = self._fleet.state.seconds, fault.since_seconds
        if fault.period >= 0:
            return []
        left = fault.spec.start_seconds if seconds is None else max(seconds - now, 0.0)
        if not left:
            return ["it begins with the next tick"]
        return [f"it begins in {left:g} s of simulated time, at {now + left:g} s"]

    def _faults_of_node(self, node: RosterNode) -> Iterator[Fault]:
        """The faults that affect something of a node now."""
        first, end = node.first, node.first + len(node.devices)
        for fault in islice(self._fleet.faults.by_id.values(), _MAX_FAULTS):
            owners = self._fleet.roster.parts.owners_of(fault.concerned)
            if ((owners >= first) & (owners < end)).any():
                yield fault

    def _named(self, fault: Fault) -> str:
        return named_fault(self._fleet, fault.fault_id)

    def _names(self, fault: Fault) -> str:
        return self._fleet.journal.names(fault.concerned)

    def _page_lines(self, node: RosterNode | None) -> list[str]:
        """By which identities, and how late, pages show a node, or the fleet."""
        pools = (None,) if node is None else (None, node.pool.name)
        rows = [row for row in self._exporters.rows() if node is None or row["pool"] in pools]
        return list(dict.fromkeys(map(_page_line, rows[:_MAX_LISTED])))

    def _page(self, word: str) -> Reason | None:
        url = _URL.fullmatch(word)
        path = url["path"] or "/" if url else METRICS.template if word == "page" else word
        if not path.startswith("/") or path.startswith("/dev/"):
            return None
        rows = [row for row in self._exporters.rows() if not url or row["address"] == url["host"]]
        name = path.split("/")[2] if path.count("/") > 2 else ""
        node = self._fleet.roster.node(name) if path == NODE_METRICS.at(NODE=name) else None
        if node is not None:
            rows = [row for row in rows if row["path"] == METRICS.template and row["pool"] in (None, node.pool.name)]
        else:
            rows = [row for row in rows if row["path"] == path]
        if not rows:
            raise Refused("unknown-name", f"no page of metrics is at {word[:80]}; /api/v1/exporters lists them", "of")
        nodes = [node] if node is not None else self._nodes_of({row["pool"] for row in rows})
        on_page = self._mask(nodes)
        lines = [
            f"{self._named(fault)} affects it: {where}"
            for fault in islice(self._fleet.faults.by_id.values(), _MAX_FAULTS)
            # A fault of pages changes the pages of nodes only.
            if fault.kind.scope in _PAGE_SCOPES and (node is not None or fault.kind.scope is not Scope.PAGE)
            and (where := self._where(fault, on_page))
        ]  # fmt: skip
        lost = [unit for node in nodes for unit in node.devices if self._fleet.state.levels[UNIT].arrays["lost"][unit]]
        if lost:
            lines.append(f"lost devices have no series: {self._fleet.journal.names(np.array(lost))}")
        lines = lines or ["no fault affects it"]
        lines += self._waiting({unit for node in nodes for unit in node.devices})
        return Reason("page", path, [*lines, *map(_page_line, rows[:_MAX_LISTED])], {})

    def _nodes_of(self, pools: Collection[str | None]) -> list[RosterNode]:
        """The nodes of some pools; None among these: all."""
        return [node for node in self._fleet.roster.shown if None in pools or node.pool.name in pools]

    def _mask(self, nodes: Collection[RosterNode]) -> Mask:
        """Which nodes these are: shape (nodes of the fleet,)."""
        found = np.zeros(len(self._fleet.roster.nodes), np.bool_)
        found[[self._fleet.roster.node_position(node.first) for node in nodes]] = True
        return found

    def _may_change(self, fault: Fault, quantities: Iterable[str]) -> bool:
        """Whether a fault changes one of some quantities, or hides all; heat only where it has shut a board down."""
        moved = [quantity for quantity in {*quantities, "lost"} if fault.moves(quantity)]
        if any(quantity not in fault.kind.by_loss for quantity in moved):
            return True
        lost = self._fleet.state.levels[UNIT].arrays.get("lost")
        return bool(moved) and lost is not None and bool((lost[fault.devices] > 0).any())

    def _where(self, fault: Fault, nodes: Mask) -> str:
        """What a fault affects now on some nodes; empty for nothing."""
        concerned = fault.concerned
        return names_of(
            self._fleet, fault, concerned[nodes[self._fleet.roster.node_positions(concerned)]], _MAX_LISTED
        )

    # -- queries --

    def _of_query(self, expression: str, rule: PastedRule | None = None) -> Steps[Reason]:
        problem = problem_of(expression)
        if problem:
            raise Refused("bad-argument", f"Prometheus does not take {expression[:80]!r}: {problem}", "of")
        lines: list[str] = []
        selectors = []
        queues: dict[str, None] = {}
        watched: list[Watched | None] = []
        identities = self._exporters.identities()
        served = [identity for pools in identities for identity in pools.values()]
        metrics = tuple(
            metric for metric in metrics_of(expression) if not any(shows_any(identity, [metric]) for identity in served)
        )
        own = (yield from own_pages(self._fleet, self._queues, self._own, metrics)) if metrics else []
        for described in explain_query(self._fleet, identities, own, expression):
            yield
            if described is None:
                continue
            queues |= {label_set.get("queue", label_set.get("name", "")): None for label_set in described.pop("labels")}
            watched.append(described.pop("watched"))
            selectors.append(described)
            lines += described["lines"]
        marks: list[dict[str, Any]] = []
        if len(watched) == 1:
            told, marks = yield from self._past_of(watched[0], rule or PastedRule(expression))
            lines += told
        if not any(selector["matching"] for selector in selectors):
            lines += self._of_values(expression)
        if own:
            lines += [line for name in queues for line in _queue_lines(self._queue_now(name))]
        if not selectors:
            raise Refused("bad-argument", f"{expression[:80]!r} names no metric", "of")
        faults = list(dict.fromkeys(word for selector in selectors for word in selector["faults"]))
        moved = {quantity for selector in selectors for quantity in selector["quantities"]}
        kinds = {word.partition(" ")[0] for word in faults} if not moved else set()
        is_shown = bool(faults) or (not own and any(selector["series"] for selector in selectors))
        touching = [
            fault for fault in islice(self._fleet.faults.by_id.values(), _MAX_FAULTS * is_shown)
            if fault.kind.name in kinds or (not kinds and (
                fault.kind.scope in _PAGE_SCOPES
                or (fault.kind.scope in MACHINE_SCOPES and self._may_change(fault, moved))
            ))
        ]
        everywhere = np.ones(len(self._fleet.roster.nodes), np.bool_)
        active = [
            f"{self._named(fault)} on {where}" for fault in touching
            if (where := self._where(fault, everywhere))
        ]  # fmt: skip
        if active:
            lines.append("active now, and may change it: " + "; ".join(active[:_MAX_LISTED]))
        coming = [f"{self._named(occurrence)} ({text})" for occurrence in touching for text in self._start(occurrence)]
        if coming:
            lines.append("waiting, and may change it: " + "; ".join(coming[:_MAX_LISTED]))
        shown = [selector["metric"] for selector in selectors if selector["series"]]
        titles = {identity.title for identity in served if shows_any(identity, shown)}
        held = [row for row in self._exporters.rows() if row["hold-seconds"] and row["identity"] in titles]
        lines += dict.fromkeys(f"a page is late: {_page_line(row)}" for row in held[:_MAX_LISTED])
        if faults:
            lines.append("what changes it: " + "; ".join(f"fault {word}" for word in faults))
            if not moved.isdisjoint(WORK_QUANTITIES) and not faults[0].startswith("absent "):
                units = watched[0].units[:1] if watched[0] else []
                where = next(map(self._fleet.roster.unit_name, units), "DEVICE")
                lines.append(f"work changes it, too: {_RUN.format(where)}")
        return Reason("query", expression, lines, {"selectors": selectors, "faults-for": faults, "marks": marks})

    def _of_values(self, expression: str) -> list[str]:
        """What is said of pods and nodes that a selector without series names."""
        lines = []
        for label, kind, text in (matcher for matchers in selectors_of(expression) for matcher in matchers):
            node = self._fleet.roster.node(text) if kind == "=" else None
            pod = self._pod(text) if kind == "=" and label in _POD_LABELS else None
            if pod:
                lines += [f"pod {text}: {line}" for line in pod.lines[:_MAX_SAID]]
            elif node:
                lines += [f"node {text}: {line}" for line in self._node_lines(node)[:_MAX_SAID]]
            elif kind == "=" and label in _POD_LABELS:
                lines.append(f"pod {text}: no workload has it, and none of those that ended lately had it; "
                             f"{_RUN.format('DEVICE')} pod={text} gives it series")  # fmt: skip
        return lines

    def _past_of(
        self, watched: Watched | None, rule: PastedRule
    ) -> Steps[tuple[list[str], list[dict[str, Any]]]]:
        """When a rule was pending and fired in the kept hour: lines, and marks of charts."""
        unknown = ["when it fired is not known: the charts have no past of this metric"] if rule.wait else []
        if watched is None:
            return unknown, []
        units = watched.units[:MAX_DEVICES]
        try:
            wait = seconds_of(rule.wait)
        except ValueError as error:
            raise Refused("bad-argument", f"for: {error}", "of") from None
        past = self._history.of_devices(np.array(units, np.int64), _PAST_SECONDS, watched.quantity)
        rows = past["quantities"].get(watched.quantity)
        if not units or rows is None:
            return unknown, []
        values = dict(zip(map(self._fleet.roster.unit_name, units), rows, strict=True))
        states = yield from alert_times(past["seconds"], values, wait, watched.is_beyond)
        lines = lines_of(states, rule.alert or "it", past["seconds"][-1], wait)
        return lines, marks_of(states, rule.alert or rule.expression)

    # -- devices --

    def _units(self, word: str) -> Steps[list[int]]:
        """The units that a word names: a device word, a link, a UUID, or a number."""
        roster = self._fleet.roster
        if _UUID.fullmatch(word):
            wanted = word.split("-", 1)[1].lower() if word[:4] in ("GPU-", "MIG-") else word.lower()
            for node in roster.shown:
                for index, facts in enumerate(self._fleet.labels.facts(node)):
                    if facts.get("uuid", "").lower().removeprefix("gpu-") == wanted:
                        return [node.first + index]
                for unit, facts in self._fleet.labels.part_facts(node):
                    if wanted in (facts.get("uuid", "").lower(), facts.get("mig_uuid", "").lower()):
                        return [unit]
                yield
            raise Refused("unknown-name", f"no device has the UUID {word}", "of")
        numbered = _NUMBERED.fullmatch(word)
        if numbered:
            index = int(numbered[1])
            units = [node.first + index for node in roster.shown if index < len(node.devices)]
            if units:
                return units
        try:
            return list(resolve([word], roster).tolist())
        except Refused as refused:
            if roster.node(word.partition("/")[0]) is not None:
                raise Refused("unknown-name", refused.text, "of") from None
            known = [*(node.name for node in roster.shown[:1000]), *self._known()]
            text = f"nothing is named {word[:80]!r}{did_you_mean(word, known, f'; as a device: {refused.text}')}"
            raise Refused("unknown-name", text, "of") from None

    def _known(self) -> Iterator[str]:
        """Names of other things, for hints."""
        yield from list(self._queues.broker.queue_names if self._queues else ())[:100]
        for workload in list(self._fleet.workloads.by_id.values())[:500]:
            yield workload.spec.name
            if workload.spec.pod:
                yield workload.spec.pod

    def _devices(self, units: list[int], metric: str) -> Reason:
        """Why devices show what they show; of several those in trouble, or the first ones."""
        fleet, level, name = self._fleet, self._fleet.state.levels[UNIT], self._fleet.roster.unit_name
        states = [(unit, worst_of(level, [unit])) for unit in units[:_MAX_STATES]]
        chosen = [unit for unit, state in states if state != "well"] or units
        lines = []
        if len(units) > 1:
            listed = ", ".join(f"{name(unit)} ({state})" for unit, state in states[:_MAX_LISTED])
            lines.append(f"{len(units)} devices have this name: {listed}")
        explanations: list[dict[str, Any]] = []
        for unit in chosen[:_MAX_DEVICES]:
            state = describe_state(fleet, unit)
            described = describe_explanations(fleet, unit, metric)["explanations"]
            lines += [f"{name(unit)} {_HEALTH[state['health']]}{self._faults_on(unit)}", *self._waiting([unit])]
            lines += [answers.explanation_line(row) for row in described]
            explanations += described
        return Reason("device", name(chosen[0]), lines, {"explanations": explanations})

    def _faults_on(self, unit: int) -> str:
        found = [f"{fault.fault_id} {fault.kind.name}" for fault in self._fleet.faults.near(unit).now]
        return f"; faults: {', '.join(found)}" if found else ""


def _queue_lines(described: Mapping[str, Any] | None) -> list[str]:
    return [] if described is None else [queue_line(described), described["diagnosis"]]


def _page_line(row: Mapping[str, Any]) -> str:
    """What a page shows, and how old that is."""
    held = f", held for {row['hold-seconds']:g} s, {row['age-seconds']:g} s old" if row["hold-seconds"] else ""
    versions = row["versions"]
    also = f" (the page of {versions[0]} to {versions[-1]})" if len(versions) > 1 else ""
    return f"{row['address']}{row['path']} shows {row['identity']}{also}, tick {row['tick']}{held}"
