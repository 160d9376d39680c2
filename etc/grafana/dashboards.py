"""Writes the dashboards of this folder, with Grafana's own library for that (pip install grafana-foundation-sdk).

    python etc/grafana/dashboards.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueGraphMode, GraphTresholdsStyleMode, VisibilityMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

HERE = Path(__file__).parent
SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
_POOL = 'pool=~"$pool"'
_PODS = _POOL + ',pod!=""'
_NODES = 'Hostname=~"$node"'
_BOARD = 'Hostname=~"$node",gpu=~"$gpu"'
_RATE = "$__rate_interval"
#: The names of series in legends, which also decide where a click on a series leads.
_OF_NODE, _OF_BOARD, _OF_QUEUE = "{{Hostname}}", "{{Hostname}}/{{gpu}}", "{{queue}}"


class Panel(NamedTuple):
    """A panel.

    :ivar kind: lines, number, map (a heat map with a row for each series), times (a bar for each series) or table.
    :ivar queries: expressions of PromQL, each with the name of its series.
    :ivar width: of 24.
    :ivar warning, critical: values from which it is orange and red.
    :ivar empty: what it says in place of data, if having none is well.
    """

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    text: str = ""
    kind: str = "lines"
    width: int = 12
    warning: float | None = None
    critical: float | None = None
    empty: str = ""


class Board(NamedTuple):
    """A dashboard.

    :ivar variables: name, label, and the query of their values.
    :ivar alerts: matchers for the alerts that it marks.
    """

    title: str
    rows: dict[str, Sequence[Panel]]
    variables: Sequence[tuple[str, str, str]] = ()
    alerts: str = ""


class Mark(NamedTuple):
    """What dashboards mark in their graphs, if its expression is above 0.

    :ivar words: the title and the text of a mark.
    """

    name: str
    expression: str
    color: str
    words: tuple[str, str]


def marks(board: Board) -> Sequence[Mark]:
    """The annotations of a dashboard, which Prometheus alone answers: Grafana cannot read the journal of the API."""
    matchers = ",".join(filter(None, ('alertstate="firing"', board.alerts)))
    entries = f"increase(fakedev_journal_entries_total{{kind=~\"%s\"}}[{_RATE}]) > 0"
    return (
        Mark("Faults", "fakedev_fault_devices", "orange", ("{{kind}}", "on {{devices}} ({{fault}})")),
        Mark("Faults of a moment", entries % "began|struck", "yellow", ("a fault {{kind}}", "")),
        Mark("Alerts", f"ALERTS{{{matchers}}}", "red", ("{{alertname}}", "{{Hostname}} {{gpu}} {{severity}}")),
        Mark("Changes", entries % "reload|clock|reset|nodes|queue", "blue", ("{{kind}}", "")),
    )


def _number(
    title: str, unit: str, expression: str, legend: str, text: str = "", width: int = 4, **more: Any
) -> Panel:  # fmt: skip
    return Panel(title, unit, [(expression, legend)], text, "number", width, **more)


def _quantiles(histogram: str, label: str, legend: str) -> Sequence[tuple[str, str]]:
    rates = f"sum by ({label}, le) (rate({histogram}_bucket[{_RATE}]))"
    return [(f"histogram_quantile({share}, {rates})", f"{legend}: {word}")
            for share, word in ((0.5, "half"), (0.95, "95 %"))]  # fmt: skip


def _slowed(matchers: str) -> str:
    return f"rate(DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS{{{matchers}}}[{_RATE}])"


def _by_queue(expression: str) -> str:
    """The sum by queue, whose label is ``name`` in the metrics that the original has."""
    return f'sum by (queue) (label_replace({expression}, "queue", "$1", "name", "(.+)"))'


def _links_up(matchers: str) -> str:
    """The states of links; dcgm-exporter writes the label of their node in small letters."""
    links = f"DCGM_FI_DEV_NVLINK_GET_STATE{{{matchers.replace('Hostname', 'hostname')}}}"
    return f'label_replace({links}, "Hostname", "$1", "hostname", "(.+)")'


def _boards(matchers: str) -> Sequence[Panel]:
    """What a board shows: for all boards of a node, or for one."""
    return (
        Panel("Usage", "percent", [(f"DCGM_FI_DEV_GPU_UTIL{{{matchers}}}", _OF_BOARD)]),
        Panel("SM active", "percentunit", [(f"DCGM_FI_PROF_SM_ACTIVE{{{matchers}}} <= 1", _OF_BOARD)],
              "The share of the multiprocessors' cycles with work. A board with full usage and nothing here hangs."),
        Panel("Power, and its limit", "watt", [
            (f"DCGM_FI_DEV_POWER_USAGE{{{matchers}}} < 1e6", _OF_BOARD),
            (f"max(DCGM_FI_DEV_POWER_MGMT_LIMIT{{{matchers}}} < 1e6)", "limit"),
        ]),
        Panel("Temperature, and its limit", "celsius", [
            (f"DCGM_FI_DEV_GPU_TEMP{{{matchers}}} < 1e3", _OF_BOARD),
            (f"max(DCGM_FI_DEV_GPU_MAX_OP_TEMP{{{matchers}}} < 1e3)", "limit"),
        ], "From the limit on the driver takes clock from a board."),
        Panel("SM clock, and its highest", "rotmhz", [
            (f"DCGM_FI_DEV_SM_CLOCK{{{matchers}}} < 1e6", _OF_BOARD),
            (f"max(DCGM_FI_DEV_MAX_SM_CLOCK{{{matchers}}} < 1e6)", "highest"),
        ]),
        Panel("Memory in use, and all of it", "mbytes", [
            (f"DCGM_FI_DEV_FB_USED{{{matchers}}} < 1e9", _OF_BOARD),
            (f"max(DCGM_FI_DEV_FB_USED{{{matchers}}} + DCGM_FI_DEV_FB_FREE{{{matchers}}} < 1e9)", "all"),
        ]),
        Panel("Slowed by heat", "percentunit", [(f"{_slowed(matchers)} / 1e9", _OF_BOARD)],
              "The share of time in which heat took clock from a board.", warning=0.01, critical=0.5),
        Panel("Power by the counter of energy", "watt",
              [(f"rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{matchers}}}[{_RATE}]) / 1e3", _OF_BOARD)],
              "The counter is in millijoules."),
        Panel("NVLinks that are up", "none",
              [(f"sum by (Hostname, gpu) ({_links_up(matchers)} == 1)", _OF_BOARD)]),
        Panel("PCIe replays", "short",
              [(f"increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{matchers}}}[{_RATE}])", _OF_BOARD)],
              "Transfers that were repeated. DCGM allows 8 a minute."),
    )  # fmt: skip


_BOARDS_BY_NODE = f"by (Hostname) (DCGM_FI_DEV_%s{{{_POOL}}} < %s)"

#: By file.
DASHBOARDS: dict[str, Board] = {
    "fleet": Board(
        "GPUs: fleet",
        {
            "Now": (
                _number("Boards", "none", f"count(DCGM_FI_DEV_GPU_TEMP{{{_POOL}}})", "boards"),
                _number("Nodes", "none", f'count(up{{job="gpus",{_POOL}}})', "nodes"),
                _number("Nodes that do not answer", "none", f'count(up{{job="gpus",{_POOL}}} == 0) or vector(0)',
                        "nodes", critical=1),
                _number("Usage", "percent", f"avg(DCGM_FI_DEV_GPU_UTIL{{{_POOL}}} <= 100)", "usage"),
                _number("Power", "watt", f"sum(DCGM_FI_DEV_POWER_USAGE{{{_POOL}}} < 1e6)", "power"),
                _number("Boards in use", "none", f"count(1e9 > DCGM_FI_DEV_FB_USED{{{_POOL}}} > 1024) or vector(0)",
                        "in use", "Boards with more than 1 GiB of memory in use."),
                _number("Hottest board", "celsius", f"max(DCGM_FI_DEV_GPU_TEMP{{{_POOL}}} < 1e3)", "hottest",
                        warning=80, critical=87),
                _number("Slowed by heat", "none", f"count({_slowed(_POOL)} > 0) or vector(0)", "slowed",
                        warning=1),
                _number("Alerts that fire", "none", 'count(ALERTS{alertstate="firing"}) or vector(0)', "alerts",
                        warning=1),
                _number("Boards with an XID", "none",
                        f"count(count by (Hostname, gpu) (0 < DCGM_FI_DEV_XID_ERRORS{{{_POOL}}} < 1000)) or vector(0)",
                        "boards", "The last XID stays until the board is reset.", warning=1),
                _number("Pods with boards", "none",
                        f"count(count by (namespace, pod) (DCGM_FI_DEV_GPU_UTIL{{{_PODS}}})) or vector(0)", "pods"),
                _number("Faults that act", "none", "count(fakedev_fault_devices) or vector(0)", "faults",
                        "Of fakedev: a cluster of yours does not show this.", warning=1),
            ),
            "The fleet": (
                Panel("Usage of each board", "percent", [(f"DCGM_FI_DEV_GPU_UTIL{{{_POOL}}}", _OF_BOARD)],
                      "A row for each board.", "map", 24),
                Panel("Usage by node", "percent", [("avg " + _BOARDS_BY_NODE % ("GPU_UTIL", 101), _OF_NODE)]),
                Panel("Power by node", "watt", [("sum " + _BOARDS_BY_NODE % ("POWER_USAGE", "1e6"), _OF_NODE)]),
                Panel("Hottest board of each node", "celsius",
                      [("max " + _BOARDS_BY_NODE % ("GPU_TEMP", "1e3"), _OF_NODE)], warning=80, critical=87),
                Panel("Memory in use by node", "mbytes", [("sum " + _BOARDS_BY_NODE % ("FB_USED", "1e9"), _OF_NODE)]),
            ),
            "Work": (
                Panel("Usage by pod", "percent",
                      [(f"avg by (namespace, pod) (DCGM_FI_DEV_GPU_UTIL{{{_PODS}}})", "{{namespace}}/{{pod}}")]),
                Panel("Boards that pods hold", "none",
                      [(f"count by (namespace, pod) (DCGM_FI_DEV_FB_USED{{{_PODS}}})", "{{namespace}}/{{pod}}")],
                      kind="table"),
            ),
        },
        [("pool", "Pool", "label_values(DCGM_FI_DEV_GPU_TEMP, pool)")],
    ),
    "node": Board(
        "GPUs: node",
        {"Boards of $node": _boards(_NODES)},
        [("node", "Node", "label_values(DCGM_FI_DEV_GPU_TEMP, Hostname)")],
        _NODES,
    ),
    "device": Board(
        "GPUs: device",
        {
            "Now": (
                _number("Usage now", "percent", f"max(DCGM_FI_DEV_GPU_UTIL{{{_BOARD}}})", "usage"),
                _number("Power of its limit", "percentunit",
                        f"max((DCGM_FI_DEV_POWER_USAGE{{{_BOARD}}} < 1e6) / DCGM_FI_DEV_POWER_MGMT_LIMIT)", "power",
                        warning=0.95),
                _number("Degrees below its limit", "celsius",
                        f"min((DCGM_FI_DEV_GPU_MAX_OP_TEMP{{{_BOARD}}} < 1e3) - (DCGM_FI_DEV_GPU_TEMP < 1e3))",
                        "degrees", "Heat takes clock from 0 on."),
                _number("Clock of its highest", "percentunit",
                        f"max((DCGM_FI_DEV_SM_CLOCK{{{_BOARD}}} < 1e6) / DCGM_FI_DEV_MAX_SM_CLOCK)", "clock"),
                _number("Memory in use now", "percentunit",
                        f"max(DCGM_FI_DEV_FB_USED{{{_BOARD}}} / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE))", "memory",
                        warning=0.9, critical=0.95),
                _number("Last XID", "none", f"max(DCGM_FI_DEV_XID_ERRORS{{{_BOARD}}} < 1000)", "XID",
                        "Until the board is reset.", warning=1,
                        empty="no XID since the last reset: then dcgm-exporter has no row of it"),
            ),
            "Board $gpu of $node": _boards(_BOARD),
            "Errors": (
                Panel("Double-bit errors", "none", [(f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{_BOARD}}} < 1e18", _OF_BOARD)],
                      "Since the last reset.", critical=1),
                Panel("Rows of memory", "none", [
                    (f"DCGM_FI_DEV_ROW_REMAP_PENDING{{{_BOARD}}} < 1e3", _OF_BOARD + " waits to be remapped"),
                    (f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{_BOARD}}} < 1e3", _OF_BOARD + " could not be remapped"),
                ], "1: a reset is needed; the board is to be exchanged."),
                Panel("PCIe lanes", "none", [
                    (f"DCGM_FI_DEV_PCIE_LINK_WIDTH{{{_BOARD}}} < 1e3", _OF_BOARD),
                    (f"max(DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH{{{_BOARD}}} < 1e3)", "highest"),
                ]),
                Panel("NVLink retries", "short",
                      [(f"increase(DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{{{_BOARD}}}[{_RATE}])", _OF_BOARD)]),
            ),
        },
        [
            ("node", "Node", "label_values(DCGM_FI_DEV_GPU_TEMP, Hostname)"),
            ("gpu", "Board", 'label_values(DCGM_FI_DEV_GPU_TEMP{Hostname=~"$node"}, gpu)'),
        ],
        _BOARD,
    ),
    "faults": Board(
        "GPUs: faults and alerts",
        {
            "Now": (
                _number("Faults that act", "none", "count(fakedev_fault_devices) or vector(0)", "faults", width=6,
                        warning=1),
                _number("Devices with a fault", "none", "sum(fakedev_fault_devices) or vector(0)", "devices", width=6,
                        warning=1),
                _number("Alerts that fire", "none", 'count(ALERTS{alertstate="firing"}) or vector(0)', "alerts",
                        width=6, warning=1),
                _number("Critical alerts", "none",
                        'count(ALERTS{alertstate="firing",severity="critical"}) or vector(0)', "alerts", width=6,
                        critical=1),
            ),
            "What happened, and who saw it": (
                Panel("Faults", "none", [("fakedev_fault_devices", "{{kind}} on {{devices}}")],
                      "Of fakedev: a bar while a fault affects devices, with their number.", "times", 24,
                      warning=1, empty="no fault affects a device"),
                Panel("Alerts", "none", [
                    ('max by (alertname, Hostname, gpu) (ALERTS{alertstate="firing"})',
                     "{{alertname}} {{Hostname}}/{{gpu}}"),
                ], "A bar while an alert fires.", "times", 24, critical=1, empty="no alert fires"),
                Panel("Journal", "short", [
                    (f"sum by (kind) (increase(fakedev_journal_entries_total[{_RATE}]))", "{{kind}}"),
                ], "New entries of fakedev's journal: events, changes of faults and of devices, ends of workloads."),
                Panel("Alerts that fire now", "none", [('ALERTS{alertstate="firing"}', "{{alertname}}")],
                      kind="table", empty="no alert fires"),
            ),
            "What boards show": (
                Panel("XIDs of the last minutes", "none",
                      [("sum by (Hostname, gpu, xid) (DCGM_EXP_XID_ERRORS_COUNT)", _OF_BOARD + " XID {{xid}}")],
                      "The exporter counts those of its window.", empty="no XID in the window of the exporter"),
                Panel("Slowed boards", "percentunit", [
                    (f"{_slowed('')} / 1e9 > 0", _OF_BOARD + " by the driver, heat"),
                    (f"rate(DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS[{_RATE}]) / 1e9 > 0",
                     _OF_BOARD + " by the hardware, heat"),
                    (f"rate(DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS[{_RATE}]) / 1e9 > 0",
                     _OF_BOARD + " by the power brake"),
                ], "The share of time; only boards that are slowed.", warning=0.01, critical=0.5,
                    empty="no board is slowed"),
                Panel("Rows that wait to be remapped", "none",
                      [("sum by (Hostname) (DCGM_FI_DEV_ROW_REMAP_PENDING < 2)", _OF_NODE)], warning=1),
                Panel("PCIe replays", "short",
                      [(f"sum by (Hostname) (increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[{_RATE}]))", _OF_NODE)]),
                Panel("NVLinks that are down", "none",
                      [(f"sum by (Hostname) ({_links_up('')} == bool 0)", _OF_NODE)], critical=1),
                Panel("Nodes that do not answer", "none", [('1 - up{job="gpus"}', "{{node}}")],
                      "0 while its page is read.", "times", critical=1),
            ),
        },
    ),
    "queues": Board(
        "Work queues",
        {
            "Now": (
                _number("Requests that wait", "none", _by_queue('hpa_queue_waiting{name=~"$queue"}'), _OF_QUEUE,
                        width=6, warning=100, critical=500),
                _number("Requests that run", "none", _by_queue('hpa_queue_running{name=~"$queue"}'), _OF_QUEUE,
                        width=6),
                _number("Backends", "none", 'sum by (queue) (fakedev_queue_workers{queue=~"$queue"})', _OF_QUEUE,
                        width=6),
                _number("Oldest request that waits", "s", 'fakedev_queue_oldest_waiting_seconds{queue=~"$queue"}',
                        _OF_QUEUE, width=6, warning=30, critical=120),
            ),
            "Flow": (
                Panel("Requests", "reqps", [
                    (f'sum by (queue) (rate(fakedev_queue_puts_total{{queue=~"$queue"}}[{_RATE}]))',
                     f"{_OF_QUEUE}: put"),
                    *((_by_queue(f'rate(hpa_queue_{word}_total{{name=~"$queue"}}[{_RATE}])'), f"{_OF_QUEUE}: {word}")
                      for word in ("success", "failure")),
                ]),
                Panel("Requests in the queue", "none", [
                    (_by_queue('hpa_queue_waiting{name=~"$queue"}'), f"{_OF_QUEUE}: wait"),
                    (_by_queue('hpa_queue_running{name=~"$queue"}'), f"{_OF_QUEUE}: run"),
                    ('sum by (queue) (fakedev_queue_workers{queue=~"$queue"})', f"{_OF_QUEUE}: backends"),
                ]),
                Panel("Waits", "s", _quantiles("fakedev_queue_wait_seconds", "queue", _OF_QUEUE), warning=30,
                      critical=120),
                Panel("Runs", "s", _quantiles("fakedev_queue_run_seconds", "queue", _OF_QUEUE)),
            ),
            "Tester": (
                Panel("Requests of the tester", "reqps",
                      [(f"sum by (plan) (rate(fakedev_tester_started_total[{_RATE}]))", "{{plan}}")]),
                Panel("From the intended start to the answer", "s",
                      _quantiles("fakedev_tester_request_duration_seconds", "plan", "{{plan}}")),
            ),
        },
        [("queue", "Queue", "label_values(hpa_queue_waiting, name)")],
    ),
    "fakedev": Board(
        "fakedev itself",
        {
            "Clock": (
                Panel("Ticks", "ops", [
                    (f"rate(fakedev_ticks_total[{_RATE}])", "ticks"),
                    (f"rate(fakedev_ticks_missed_total[{_RATE}])", "missed"),
                    (f"rate(fakedev_tick_failures_total[{_RATE}])", "failed"),
                ]),
                Panel("Time of a tick", "s", [
                    (f"histogram_quantile({share}, rate(fakedev_tick_duration_seconds_bucket[{_RATE}]))", word)
                    for share, word in ((0.5, "half"), (0.99, "99 %"))
                ]),
                Panel("Delay of the reactor", "s",
                      [("fakedev_reactor_delay_max_seconds", "longest of a minute")],
                      "How long other work held the reactor; 20 ms is the aim.", warning=0.02, critical=0.1),
                Panel("Answers", "reqps",
                      [(f"sum by (page, code) (rate(fakedev_scrapes_total[{_RATE}]))", "{{page}} {{code}}")]),
            ),
            "Process": (
                Panel("Processor", "percentunit", [(f"rate(process_cpu_seconds_total[{_RATE}])", "{{instance}}")]),
                Panel("Memory", "bytes", [("process_resident_memory_bytes", "{{instance}}")]),
                Panel("File descriptors", "percentunit", [("process_open_fds / process_max_fds", "{{instance}}")],
                      warning=0.7, critical=0.9),
                Panel("Limits", "percentunit", [("fakedev_limit_used / (fakedev_limit_allowed > 0)", "{{limit}}")],
                      "What is used of each limit.", warning=0.7, critical=0.9),
                Panel("Workloads", "none", [("fakedev_workloads", "{{state}}")]),
                Panel("Connections that were closed", "ops",
                      [(f"sum by (port, reason) (rate(fakedev_line_connections_closed_total[{_RATE}]))",
                        "{{port}} {{reason}}")]),
            ),
        },
    ),
}  # fmt: skip


def queries() -> Iterator[tuple[str, str]]:
    """All queries of panels and annotations, each with its dashboard and title."""
    for name, board in DASHBOARDS.items():
        for panels in board.rows.values():
            for panel in panels:
                for expression, _ in panel.queries:
                    yield f"{name}: {panel.title}", expression
        for mark in marks(board):
            yield f"{name}: {mark.name}", mark.expression


def text_of(name: str) -> str:
    """The JSON of a dashboard."""
    board = DASHBOARDS[name]
    made = dashboard.Dashboard(board.title).uid(f"fakedev-{name}").tags(["fakedev", "gpu"]).refresh("10s")
    made = made.time("now-30m", "now").readonly().tooltip(DashboardCursorSync.CROSSHAIR)
    made = made.with_variable(dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus"))
    for variable, label, query in board.variables:
        values = dashboard.QueryVariable(variable).label(label).query(query).datasource(SOURCE)
        made = made.with_variable(
            values.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).multi(True).include_all(True).all_value(".*")
        )
    page = dashboard.TextBoxVariable("fakedev").label("fakedev's page").default_value("http://127.0.0.1:9400")
    made = made.with_variable(page)
    for mark in marks(board):
        mark_of_board = dashboard.AnnotationQuery().name(mark.name).datasource(SOURCE).enable(True)
        made = made.annotation(mark_of_board.icon_color(mark.color).expr(mark.expression))
    others = dashboard.DashboardLink("Dashboards").type(DashboardLinkType.DASHBOARDS).tags(["fakedev"])
    made = made.link(others.as_dropdown(True).keep_time(True).include_vars(True))
    made = made.link(_link("fakedev", "${fakedev}/"))
    for row, panels in board.rows.items():
        made = made.with_row(dashboard.Row(row))
        for panel in panels:
            made = made.with_panel(_built(panel, name))
    tree = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    for annotation, mark in zip(tree["annotations"]["list"], marks(board), strict=True):
        # Fields of Prometheus' annotations, which the library does not have.
        annotation |= dict(zip(("titleFormat", "textFormat"), mark.words, strict=True), step="10s")
    return json.dumps(_without_nulls(tree), indent=2, sort_keys=True) + "\n"


def _without_nulls(tree: Any) -> Any:
    """What is not set is left to Grafana; the first threshold has null for the lowest value."""
    if isinstance(tree, dict):
        return {
            key: _without_nulls(value)
            for key, value in tree.items()
            if value is not None or tree.keys() == {"color", "value"}
        }
    return [_without_nulls(each) for each in tree] if isinstance(tree, list) else tree


def _link(title: str, url: str) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(title).type(DashboardLinkType.LINK).url(url).target_blank("${fakedev}" in url)


def _links(panel: Panel, name: str) -> list[Any]:
    """Where a click on a series leads: from nodes to a node, from there to a board, and to fakedev's own page."""
    legends = " ".join(legend for _, legend in panel.queries)
    node, gpu = "${__field.labels.Hostname}", "${__field.labels.gpu}"
    chosen = "?${source:queryparam}&${__url_time_range}&var-node=" + node
    links = []
    if _OF_BOARD in legends and name != "device":
        links.append(_link("The board", f"/d/fakedev-device{chosen}&var-gpu={gpu}"))
    if _OF_NODE in legends and name != "node":
        links.append(_link("The node", f"/d/fakedev-node{chosen}"))
    if _OF_BOARD in legends:
        links.append(_link("In fakedev", f"${{fakedev}}/#fleet/{node}/{gpu}"))
    if _OF_QUEUE in legends:
        links.append(_link("In fakedev", "${fakedev}/#queues"))
    return links


def _built(panel: Panel, name: str) -> Any:
    kinds: dict[str, Any] = {
        "lines": timeseries.Panel, "number": stat.Panel, "map": heatmap.Panel, "times": statetimeline.Panel,
        "table": table.Panel,
    }  # fmt: skip
    made = kinds[panel.kind]().title(panel.title).unit(panel.unit).span(panel.width).datasource(SOURCE)
    made = made.height(4 if panel.kind == "number" else 8).data_links(_links(panel, name))
    if panel.unit in ("percent", "percentunit") and panel.kind != "table":
        made = made.min(0)
        if panel.unit == "percent":
            made = made.max(100)
    if panel.text:
        made = made.description(panel.text)
    if panel.empty:
        made = made.no_value(panel.empty)
    colors = {"orange": panel.warning, "red": panel.critical}
    limits = [Threshold(value, color) for color, value in colors.items() if value is not None]
    steps = [Threshold(None, "green"), *limits]
    made = made.thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
    if panel.kind == "number":
        made = made.graph_mode(BigValueGraphMode.AREA)
    elif panel.kind == "times":
        made = made.show_value(VisibilityMode.AUTO)
    elif panel.kind == "lines" and limits:
        made = made.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphTresholdsStyleMode.DASHED))
    for number, (expression, legend) in enumerate(panel.queries):
        query = prometheus.Dataquery().expr(expression).legend_format(legend).ref_id("ABCDEF"[number])
        made = made.with_target(
            query.instant().format(PromQueryFormat.TABLE) if panel.kind == "table" else query.range()
        )
    return made


if __name__ == "__main__":
    for each in DASHBOARDS:
        (HERE / f"{each}.json").write_text(text_of(each), encoding="utf-8")
