"""Writes the dashboards of this folder, with Grafana's own library for that (pip install grafana-foundation-sdk).

    python etc/grafana/dashboards.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders import dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueGraphMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

HERE = Path(__file__).parent
SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
_NODES = 'Hostname=~"$node"'


class Panel(NamedTuple):
    """A panel.

    :ivar kind: lines, number, map (a heat map with a row for each series) or table.
    :ivar queries: expressions of PromQL, each with the name of its series.
    :ivar width: of 24.
    """

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    text: str = ""
    kind: str = "lines"
    width: int = 12


#: By file: title, and rows of panels.
DASHBOARDS: dict[str, tuple[str, dict[str, Sequence[Panel]]]] = {
    "fleet": (
        "GPUs: fleet",
        {
            "Now": (
                Panel("Boards", "none", [("count(DCGM_FI_DEV_GPU_TEMP)", "boards")], kind="number", width=4),
                Panel("Nodes", "none", [("count(count by (Hostname) (DCGM_FI_DEV_GPU_TEMP))", "nodes")],
                      kind="number", width=4),
                Panel("Usage", "percent", [("avg(DCGM_FI_DEV_GPU_UTIL)", "usage")], kind="number", width=4),
                Panel("Power", "watt", [("sum(DCGM_FI_DEV_POWER_USAGE < 1e6)", "power")], kind="number", width=4),
                Panel("Boards in use", "none", [("count(DCGM_FI_DEV_FB_USED > 1024 < 1e9)", "in use")],
                      kind="number", width=4),
                Panel("Slowed by heat", "none",
                      [("count(rate(DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS[$__rate_interval]) > 0) "
                        "or vector(0)", "slowed")], kind="number", width=4),
            ),
            "The fleet": (
                Panel("Usage of each board", "percent", [("DCGM_FI_DEV_GPU_UTIL", "{{Hostname}}/{{gpu}}")],
                      "A row for each board.", "map", 24),
                Panel("Usage by node", "percent", [("avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL)", "{{Hostname}}")]),
                Panel("Power by node", "watt", [("sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE < 1e6)", "{{Hostname}}")]),
                Panel("Hottest board of each node", "celsius",
                      [("max by (Hostname) (DCGM_FI_DEV_GPU_TEMP < 1e3)", "{{Hostname}}")]),
                Panel("Memory in use by node", "decmbytes",
                      [("sum by (Hostname) (DCGM_FI_DEV_FB_USED < 1e9)", "{{Hostname}}")]),
            ),
            "Trouble": (
                Panel("Throttled by heat", "percentunit",
                      [("rate(DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS[$__rate_interval]) / 1e9",
                        "{{Hostname}}/{{gpu}}")], "The share of time in which heat took clock from a board."),
                Panel("XIDs of the last minutes", "none",
                      [("sum by (Hostname, gpu, xid) (DCGM_EXP_XID_ERRORS_COUNT)",
                        "{{Hostname}}/{{gpu}} XID {{xid}}")]),
                Panel("Rows that wait to be remapped", "none",
                      [("sum by (Hostname) (DCGM_FI_DEV_ROW_REMAP_PENDING < 2)", "{{Hostname}}")]),
                Panel("PCIe replays", "none",
                      [("sum by (Hostname) (increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[$__rate_interval]))",
                        "{{Hostname}}")]),
            ),
            "Work": (
                Panel("Usage by pod", "percent",
                      [('avg by (namespace, pod) (DCGM_FI_DEV_GPU_UTIL{pod!=""})', "{{namespace}}/{{pod}}")]),
                Panel("Boards that pods hold", "none",
                      [('count by (namespace, pod) (DCGM_FI_DEV_FB_USED{pod!=""})', "{{namespace}}/{{pod}}")],
                      kind="table"),
            ),
        },
    ),
    "node": (
        "GPUs: node",
        {
            "Boards of $node": (
                Panel("Usage", "percent", [(f"DCGM_FI_DEV_GPU_UTIL{{{_NODES}}}", "{{Hostname}}/{{gpu}}")]),
                Panel("SM active", "percentunit", [(f"DCGM_FI_PROF_SM_ACTIVE{{{_NODES}}}", "{{Hostname}}/{{gpu}}")]),
                Panel("Power", "watt", [(f"DCGM_FI_DEV_POWER_USAGE{{{_NODES}}} < 1e6", "{{Hostname}}/{{gpu}}")]),
                Panel("Temperature, and its limit", "celsius", [
                    (f"DCGM_FI_DEV_GPU_TEMP{{{_NODES}}} < 1e3", "{{Hostname}}/{{gpu}}"),
                    (f"max(DCGM_FI_DEV_GPU_MAX_OP_TEMP{{{_NODES}}})", "limit"),
                ]),
                Panel("SM clock, and its highest", "rotmhz", [
                    (f"DCGM_FI_DEV_SM_CLOCK{{{_NODES}}} < 1e6", "{{Hostname}}/{{gpu}}"),
                    (f"max(DCGM_FI_DEV_MAX_SM_CLOCK{{{_NODES}}})", "highest"),
                ]),
                Panel("Memory in use", "decmbytes", [(f"DCGM_FI_DEV_FB_USED{{{_NODES}}} < 1e9",
                                                      "{{Hostname}}/{{gpu}}")]),
                Panel("Energy", "watt",
                      [(f"rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{_NODES}}}[$__rate_interval]) / 1e3",
                        "{{Hostname}}/{{gpu}}")], "The mean power by the counter of energy."),
                Panel("NVLinks that are up", "none",
                      [(f"sum by (Hostname, gpu) (DCGM_FI_DEV_NVLINK_GET_STATE{{{_NODES}}} == 1)",
                        "{{Hostname}}/{{gpu}}")]),
            ),
        },
    ),
    "queues": (
        "Work queues",
        {
            "Now": (
                Panel("Requests that wait", "none", [("sum by (queue) (hpa_queue_waiting)", "{{queue}}")],
                      kind="number", width=6),
                Panel("Requests that run", "none", [("sum by (queue) (hpa_queue_running)", "{{queue}}")],
                      kind="number", width=6),
                Panel("Backends", "none", [("sum by (queue) (fakedev_queue_workers)", "{{queue}}")],
                      kind="number", width=6),
                Panel("Oldest request that waits", "s", [("fakedev_queue_oldest_waiting_seconds", "{{queue}}")],
                      kind="number", width=6),
            ),
            "Flow": (
                Panel("Requests", "reqps", [
                    ("sum by (queue) (rate(fakedev_queue_puts_total[$__rate_interval]))", "{{queue}}: put"),
                    ("sum by (queue) (rate(hpa_queue_success_total[$__rate_interval]))", "{{queue}}: succeeded"),
                    ("sum by (queue) (rate(hpa_queue_failure_total[$__rate_interval]))", "{{queue}}: failed"),
                ]),
                Panel("Requests in the queue", "none", [
                    ("sum by (queue) (hpa_queue_waiting)", "{{queue}}: wait"),
                    ("sum by (queue) (hpa_queue_running)", "{{queue}}: run"),
                ]),
                Panel("Waits", "s", [
                    ("histogram_quantile(0.5, sum by (queue, le) "
                     "(rate(fakedev_queue_wait_seconds_bucket[$__rate_interval])))", "{{queue}}: half"),
                    ("histogram_quantile(0.95, sum by (queue, le) "
                     "(rate(fakedev_queue_wait_seconds_bucket[$__rate_interval])))", "{{queue}}: 95 %"),
                ]),
                Panel("Runs", "s", [
                    ("histogram_quantile(0.5, sum by (queue, le) "
                     "(rate(fakedev_queue_run_seconds_bucket[$__rate_interval])))", "{{queue}}: half"),
                    ("histogram_quantile(0.95, sum by (queue, le) "
                     "(rate(fakedev_queue_run_seconds_bucket[$__rate_interval])))", "{{queue}}: 95 %"),
                ]),
            ),
            "Tester": (
                Panel("Requests of the tester", "reqps",
                      [("sum by (plan) (rate(fakedev_tester_started_total[$__rate_interval]))", "{{plan}}")]),
                Panel("From the intended start to the answer", "s",
                      [("histogram_quantile(0.95, sum by (plan, le) "
                        "(rate(fakedev_tester_request_duration_seconds_bucket[$__rate_interval])))",
                        "{{plan}}: 95 %")]),
            ),
        },
    ),
    "fakedev": (
        "fakedev itself",
        {
            "Clock": (
                Panel("Ticks", "ops", [
                    ("rate(fakedev_ticks_total[$__rate_interval])", "ticks"),
                    ("rate(fakedev_ticks_missed_total[$__rate_interval])", "missed"),
                    ("rate(fakedev_tick_failures_total[$__rate_interval])", "failed"),
                ]),
                Panel("Time of a tick", "s", [
                    ("histogram_quantile(0.5, rate(fakedev_tick_duration_seconds_bucket[$__rate_interval]))", "half"),
                    ("histogram_quantile(0.99, rate(fakedev_tick_duration_seconds_bucket[$__rate_interval]))", "99 %"),
                ]),
                Panel("Delay of the reactor", "s",
                      [("histogram_quantile(0.99, rate(fakedev_reactor_delay_seconds_bucket[$__rate_interval]))",
                        "99 %")], "How long other work held the reactor; 20 ms is the aim."),
                Panel("Answers", "reqps",
                      [("sum by (page, code) (rate(fakedev_scrapes_total[$__rate_interval]))", "{{page}} {{code}}")]),
            ),
            "Process": (
                Panel("Processor", "percentunit",
                      [("rate(process_cpu_seconds_total[$__rate_interval])", "{{instance}}")]),
                Panel("Memory", "bytes", [("process_resident_memory_bytes", "{{instance}}")]),
                Panel("File descriptors", "none", [("process_open_fds", "{{instance}}")]),
                Panel("Limits", "percentunit",
                      [("fakedev_limit_used / (fakedev_limit_allowed > 0)", "{{limit}}")],
                      "What is used of each limit."),
                Panel("Workloads", "none", [("fakedev_workloads", "{{state}}")]),
                Panel("Connections that were closed", "ops",
                      [("sum by (port, reason) (rate(fakedev_line_connections_closed_total[$__rate_interval]))",
                        "{{port}} {{reason}}")]),
            ),
        },
    ),
}  # fmt: skip


def queries() -> Iterator[tuple[str, str]]:
    """All queries, each with the title of its panel."""
    for name, (_, rows) in DASHBOARDS.items():
        for panels in rows.values():
            for panel in panels:
                for expression, _ in panel.queries:
                    yield f"{name}: {panel.title}", expression


def text_of(name: str) -> str:
    """The JSON of a dashboard."""
    title, rows = DASHBOARDS[name]
    made = dashboard.Dashboard(title).uid(f"fakedev-{name}").tags(["fakedev", "gpu"]).refresh("10s")
    made = made.time("now-30m", "now").readonly()
    made = made.with_variable(dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus"))
    if name == "node":
        nodes = dashboard.QueryVariable("node").label("Node").query("label_values(DCGM_FI_DEV_GPU_TEMP, Hostname)")
        made = made.with_variable(nodes.datasource(SOURCE).refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).multi(True))
    for row, panels in rows.items():
        made = made.with_row(dashboard.Row(row))
        for panel in panels:
            made = made.with_panel(_built(panel))
    tree = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    return json.dumps(_without_nulls(tree), indent=2, sort_keys=True) + "\n"


def _without_nulls(tree: Any) -> Any:
    """What is not set is left to Grafana."""
    if isinstance(tree, dict):
        return {key: _without_nulls(value) for key, value in tree.items() if value is not None}
    return [_without_nulls(each) for each in tree] if isinstance(tree, list) else tree


def _built(panel: Panel) -> Any:
    kinds: dict[str, Any] = {
        "lines": timeseries.Panel, "number": stat.Panel, "map": heatmap.Panel, "table": table.Panel,
    }  # fmt: skip
    made = kinds[panel.kind]().title(panel.title).unit(panel.unit).span(panel.width).datasource(SOURCE)
    made = made.height(4 if panel.kind == "number" else 8)
    if panel.text:
        made = made.description(panel.text)
    if panel.kind == "number":
        made = made.graph_mode(BigValueGraphMode.AREA)
    for number, (expression, legend) in enumerate(panel.queries):
        query = prometheus.Dataquery().expr(expression).legend_format(legend).ref_id("ABCDEF"[number])
        made = made.with_target(query.instant() if panel.kind == "table" else query.range())
    return made


if __name__ == "__main__":
    for each in DASHBOARDS:
        (HERE / f"{each}.json").write_text(text_of(each), encoding="utf-8")
