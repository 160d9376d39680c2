"""The PromQL of dashboards and autoscalers, and what is filled in so that it can be evaluated."""

from __future__ import annotations

import json

import pytest

from fakedev.scenario.rules.dashboard_queries import Query, queries_of, trees_in
from fakedev.schema.places import ConfigurationError, Report

ADAPTER = """
rules:
- seriesQuery: 'DCGM_FI_DEV_GPU_UTIL{pod!=""}'
  resources: {overrides: {exported_namespace: {resource: namespace}, exported_pod: {resource: pod}}}
  name: {matches: "^DCGM_FI_DEV_(.*)$", as: "gpu_$1"}
  metricsQuery: 'avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'
- seriesQuery: '{__name__=~"DCGM_FI_PROF_.*",pod!=""}'
  metricsQuery: 'max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'
"""
AUTOSCALER = """
kind: HorizontalPodAutoscaler
metadata: {name: chat}
spec:
  metrics:
  - {type: Resource, resource: {name: cpu}}
  - {type: Pods, pods: {metric: {name: gpu_GPU_UTIL}}}
  - {type: External, external: {metric: {name: DCGM_FI_PROF_DRAM_ACTIVE, selector: {matchLabels: {pod: x}}}}}
  - {type: External, external: {metric: {name: queue_length, selector: {matchLabels: {queue: gpu}}}}}
"""


def found(text: str, file: str = "a.yaml") -> list[tuple[str, str]]:
    """Names and expressions of the queries of a file."""
    report = Report()
    queries = queries_of([(file, tree) for tree in trees_in(text, file, report)])
    report.raise_if_any()
    return [(query.name, query.expression) for query in queries]


def test_a_character_that_no_text_file_may_hold() -> None:
    """A byte order mark in a link, as in a dashboard of AMD, is left out."""
    text = '{"panels": [{"links": [{"url": "/d?v=\ufeff"}], "targets": [{"expr": "up"}]}]}'
    assert found(text, "f.json") == [("", "up")]


def test_a_dashboard() -> None:
    """The titles around a query are its name; what is no PromQL is left out."""
    text = """
    {"title": "GPUs", "templating": {"list": [
      {"name": "source", "type": "datasource", "query": "prometheus"}, {"name": "n", "type": "custom", "query": "1,2"},
      {"name": "node", "type": "query", "definition": "label_values(up, node)",
       "query": {"query": "label_values(up, node)"}}]},
     "panels": [{"title": "Heat", "datasource": {"type": "prometheus"}, "targets": [{"expr": "a"}, {"expr": "b"}]},
                {"title": "Log", "datasource": {"type": "loki"}, "targets": [{"expr": "{app=\\"x\\"}"}]}]}
    """
    assert found(text, "board.json") == [
        ("GPUs/node", "label_values(up, node)"), ("GPUs/Heat", "a"), ("GPUs/Heat", "b"),
    ]  # fmt: skip


def test_panels_with_several_sources() -> None:
    """The source "-- Mixed --" has the type of Grafana's own sources; each query names its own."""
    mixed = {"type": "datasource", "uid": "-- Mixed --"}
    targets = [{"expr": "a", "datasource": {"type": "prometheus"}}, {"expr": "{b}", "datasource": {"type": "loki"}}]
    text = json.dumps({"panels": [{"title": "Heat", "datasource": mixed, "targets": targets}]})
    assert found(text, "f.json") == [("Heat", "a")]


def test_google_cloud() -> None:
    """Dashboards of Google Cloud's monitoring have PromQL under a key of their own."""
    query = {"timeSeriesQuery": {"prometheusQuery": "avg(DCGM_FI_DEV_GPU_TEMP)"}}
    text = json.dumps({"mosaicLayout": {"tiles": [{"widget": {"title": "Heat", "scorecard": query}}]}})
    assert found(text, "f.json") == [("Heat", "avg(DCGM_FI_DEV_GPU_TEMP)")]


def test_a_template_of_helm() -> None:
    """It is no YAML; the same in a block text is."""
    with pytest.raises(ConfigurationError, match=r"a.yaml:3: is a template of Helm: give the file that `helm temp"):
        found("kind: ConfigMap\nmetadata:\n  namespace: {{ .Release.Namespace }}\n")
    assert found("expr: a\ntext: |\n  {{ $labels.gpu }} is hot\n") == [("", "a")]


def test_autoscalers() -> None:
    """A ScaledObject has PromQL; the metric of an autoscaler is a query by the adapter's rules, or a series."""
    scaled = "kind: ScaledObject\nmetadata: {name: s}\nspec: {triggers: [{type: prometheus, metadata: {query: up}}]}\n"
    assert found(f"{scaled}---\n{ADAPTER}---{AUTOSCALER}") == [
        ("s", "up"),
        ("gpu_GPU_UTIL", 'avg(DCGM_FI_DEV_GPU_UTIL{pod!=""}) by (exported_pod)'),
        ("", '{__name__=~"DCGM_FI_PROF_.*",pod!=""}'),
        ("chat/gpu_GPU_UTIL", 'avg(DCGM_FI_DEV_GPU_UTIL{pod!=""}) by (exported_pod)'),
        ("chat/DCGM_FI_PROF_DRAM_ACTIVE", 'max(DCGM_FI_PROF_DRAM_ACTIVE{pod!="",pod="x"}) by (pod)'),
        ("chat/queue_length", 'queue_length{queue="gpu"}'),
    ]  # fmt: skip


def test_texts_in_a_document() -> None:
    """A ConfigMap may hold the rules of an adapter or a dashboard, and a GrafanaDashboard has one."""
    lines = "".join(f"    {line}\n" for line in ADAPTER.strip().splitlines())
    assert found(f"kind: ConfigMap\ndata:\n  config.yaml: |\n{lines}")[0][0] == "gpu_GPU_UTIL"
    panel = """{"title": "GPUs", "panels": [{"title": "Heat", "targets": [{"expr": "a"}]}]}"""
    assert found(f"kind: GrafanaDashboard\nspec:\n  json: |\n    {panel}\n") == [("GPUs/Heat", "a")]


@pytest.mark.parametrize(
    ("expression", "evaluable"),
    [
        ('avg(a{gpu=~"$gpu", host="${host:regex}", job!="x"})', 'avg(a{gpu=~".*", host=~".*", job!="x"})'),
        ('a{node!~"[[node]]"}', 'a{node=~".*"}'),
        ("rate(a[$__rate_interval]) + rate(b[${__range}:$step])", "rate(a[5m]) + rate(b[5m:5m])"),
        ("topk($n, a) > $limit", "topk(3, a) > $limit"),
        ("sum(increase(a[5m])) / $__range_s", "sum(increase(a[5m])) / 300"),
        ('label_replace(a, "b", "$1", "c", "(.*)")', 'label_replace(a, "b", "$1", "c", "(.*)")'),
        ('label_values(a{b="c"}, gpu)', 'count by (gpu) (a{b="c"}) unless count(a{b="c"})'),
        (
            'label_values({b="$c"}, gpu)',
            'count by (gpu) ({__name__=~".+",b=~".*"}) unless count({__name__=~".+",b=~".*"})',
        ),
        ("label_values(gpu)", 'count by (gpu) ({__name__=~".+"}) unless count({__name__=~".+"})'),
        ("query_result(max(a))", "max(a)"),
    ],
)
def test_what_is_filled_in(expression: str, evaluable: str) -> None:
    """A matcher with a variable selects all; other variables have the values that the dashboard has."""
    assert Query("", "", expression, {"n": "3"}).evaluable == evaluable


def test_names_in_quotes() -> None:
    """As Prometheus 3 takes them, and dashboards of AMD have them; older ones do not."""
    targets = [{"expr": each} for each in ('sum({"${p}gpu_x", a="b"} > 0)', '{"up"}', 'up{a="{b}"}')]
    expressions = [expression for _, expression in found(json.dumps({"panels": [{"targets": targets}]}), "f.json")]
    assert expressions == ['sum(${p}gpu_x{ a="b"} > 0)', "up{}", 'up{a="{b}"}']


def test_a_problem_has_its_line() -> None:
    report = Report()
    assert trees_in("a: b\n---\nc: [\n", "a.yaml", report) == [{"a": "b"}]
    with pytest.raises(ConfigurationError, match=r"^a\.yaml:[34]: "):
        report.raise_if_any()
