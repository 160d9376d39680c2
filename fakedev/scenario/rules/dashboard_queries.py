"""The PromQL of dashboards and autoscalers, and how it can be evaluated: variables and templates are filled in.

Read are Grafana's JSON, dashboards of Google Cloud's monitoring, KEDA's ScaledObject, HorizontalPodAutoscaler, and the
rules of prometheus-adapter, by which an autoscaler's metric is a query.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fakedev.scenario.rules.alert_rules import metrics_of
from fakedev.scenario.rules.rule_files import plain_tree, read_plain
from fakedev.schema.places import Report
from fakedev.schema.reader import is_json

#: Keys under which dashboards and ScaledObjects have PromQL.
_KEYS: Final = ("expr", "query", "definition", "prometheusQuery")
#: Variables of Grafana that are no queries, and data sources that do not speak PromQL. The type of a source that is
#: "datasource" is no such source: the panel names another one for each query.
_NO_QUERIES: Final = frozenset(("datasource", "custom", "interval", "constant", "textbox", "adhoc"))
_OTHER_SOURCES: Final = frozenset(("loki", "tempo", "elasticsearch", "influxdb"))
#: What shows that a text in a document is a dashboard, or has rules of an adapter.
_EMBEDDED: Final = ('"panels":', "seriesQuery:")
_DOCUMENT: Final = re.compile(r"^---(?=\s|$)[^\n]*+$", re.MULTILINE)
#: A variable of Grafana in its three notations, with its name in one of the groups.
_VARIABLE: Final = re.compile(r"\$(\w++)|\$\{(\w++)[^{}]*+\}|\[\[(\w++)[^\[\]]*+\]\]")
_MATCHER: Final = re.compile(r"(?<!\w)(\w++)\s*+(=~|!~|!=|=)\s*+(\"[^\"]*+\"|'[^']*+')")
_WINDOW: Final = re.compile(r"\[([^\[\]:]++)(:?)([^\[\]:]*+)\]")
_LABEL_VALUES: Final = re.compile(r"\s*+label_values\(\s*+(?:(\S.*),)?\s*+(\w++)\s*+\)\s*+", re.DOTALL)
#: The name of a metric in quotes, as Prometheus 3 takes it, with variables; older ones want it before the braces.
_QUOTED_NAME: Final = re.compile(r"\{\s*+\"((?:[\w:]|\$\{\w++\}|\$\w)++)\"\s*+(?:,|(?=\}))")
_QUERY_RESULT: Final = re.compile(r"\s*+query_result\((.*)\)\s*+", re.DOTALL)
#: How long windows are that a variable sets.
_WINDOW_TEXT: Final = "5m"
_SECONDS: Final = {"__range_s": "300", "__interval_ms": "60000", "__range_ms": "300000"}
_PATTERN: Final = re.compile(r"(?<!\w)__name__\s*+=~\s*+[\"']([^\"']*+)[\"']")
_TEMPLATE: Final = re.compile(r"<<\s*+\.(\w++)\s*+>>")


class Query(NamedTuple):
    """A query.

    :ivar place: its file; ``name``: of the panel or the object, with the titles around it.
    :ivar values: of variables, by name.
    """

    place: str
    name: str
    expression: str
    values: Mapping[str, str]

    @property
    def evaluable(self) -> str:
        """The expression as Prometheus takes it: a variable in a matcher selects all, and a window has 5 minutes."""
        text = self.expression
        if found := _QUERY_RESULT.fullmatch(text):
            text = found[1]
        if found := _LABEL_VALUES.fullmatch(text):
            series = found[1] or "{}"
            # A variable may select all; something must be selected by a value that is not empty.
            if series.startswith("{"):
                series = f'{{__name__=~".+",{series[1:]}'.replace(",}", "}")
            text = f"count by ({found[2]}) ({series}) unless count({series})"
        text = _MATCHER.sub(_any_value, text)
        text = _WINDOW.sub(_window, text)
        return _VARIABLE.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        name = found[1] or found[2] or found[3]
        usual = _WINDOW_TEXT if name.startswith("__") else found[0]
        return _SECONDS.get(name) or self.values.get(name, usual)


def _any_value(found: re.Match[str]) -> str:
    return f'{found[1]}=~".*"' if _VARIABLE.search(found[3]) else found[0]


def _window(found: re.Match[str]) -> str:
    """A window with variables; in a subquery there may be some in its step, too."""
    window, step = (_WINDOW_TEXT if _VARIABLE.search(window) else window for window in (found[1], found[3]))
    return f"[{window}{found[2]}{step}]"


def trees_in(text: str, file: str, report: Report) -> list[Any]:
    """The documents of a file, all scalars as texts; problems are reported."""
    text = text.replace("\ufeff", "")  # no text file may hold it, but links of AMD's dashboards do
    begins = [] if is_json(text, file) else [found.start() for found in _DOCUMENT.finditer(text)]
    ends = zip([0, *begins], [*begins, len(text)], strict=True)
    parts = [(begin, end) for begin, end in ends if text[begin:end].strip(" \r\n-")]
    # Lines before a document stay empty, so that its problems have their lines.
    nodes = (read_plain("\n" * text.count("\n", 0, begin) + text[begin:end], file, report) for begin, end in parts)
    trees = [plain_tree(node) for node in nodes if node is not None]
    return [branch for tree in trees for branch in (tree, *_embedded(tree, file, report))]


def _embedded(tree: object, file: str, report: Report) -> Iterator[Any]:
    """The dashboards and rules of an adapter that are texts in a document: in ConfigMaps and GrafanaDashboards."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            if isinstance(value, str) and any(mark in value for mark in _EMBEDDED):
                yield from trees_in(value, f"{file}: {key}", report)
            else:
                yield from _embedded(value, file, report)
    elif isinstance(tree, list):
        for value in tree:
            yield from _embedded(value, file, report)


def queries_of(trees: Iterable[tuple[str, object]]) -> list[Query]:
    """The queries of all documents, each once.

    :param trees: documents with their files.
    """
    every = [(file, tree) for file, tree in trees]
    adapters = [rule for _, tree in every for rule in _adapter_rules(tree)]
    found: dict[tuple[str, str, str], Query] = {}
    for file, tree in every:
        values = _variables(tree)
        queries = [*_in_tree(tree, ""), *_of_autoscaler(tree, adapters)]
        queries += [(rule.name, rule.expression("")) for rule in _adapter_rules(tree)]
        for name, expression in queries:
            plain = _QUOTED_NAME.sub(r"\1{", expression)
            found.setdefault((file, name, plain), Query(file, name, plain, values))
    return list(found.values())


def _in_tree(tree: object, path: str) -> Iterator[tuple[str, str]]:
    """Names and PromQL of a dashboard or a ScaledObject."""
    entries: Iterable[tuple[str, object]] = ()
    if isinstance(tree, Mapping):
        source = tree.get("datasource")
        is_other = isinstance(source, Mapping) and source.get("type") in _OTHER_SOURCES
        metadata = tree.get("metadata")
        title = tree.get("title") or tree.get("name") or (metadata.get("name") if isinstance(metadata, Mapping) else "")
        path = f"{path}/{title}" if title and isinstance(title, str) else path
        entries = () if is_other or tree.get("type") in _NO_QUERIES else tree.items()
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        entries = (("", value) for value in tree)
    for key, value in entries:
        if isinstance(value, str) and key in _KEYS:
            if value:
                yield path.strip("/"), value
        else:
            yield from _in_tree(value, path)


def _variables(tree: object) -> dict[str, str]:
    """The present values of a dashboard's variables."""
    listed = tree.get("templating", {}) if isinstance(tree, Mapping) else {}
    variables = listed.get("list", ()) if isinstance(listed, Mapping) else ()
    return {
        variable["name"]: value
        for variable in variables
        if isinstance(variable, Mapping) and "name" in variable
        and isinstance(value := (variable.get("current") or {}).get("value"), str) and not value.startswith("$")
    }  # fmt: skip


class _AdapterRule(NamedTuple):
    """A rule of prometheus-adapter: the metrics of autoscalers that it makes, each by a query.

    :ivar series: the names of the series that it selects; ``matches``, ``shown_as``: how they are called then.
    """

    series: str
    selector: str
    matches: str
    shown_as: str
    query: str
    group_label: str

    @property
    def name(self) -> str:
        """What autoscalers call its metric."""
        try:
            pattern = re.compile(self.matches or "^(.*)$")
        except re.error:
            return self.series
        found = pattern.search(self.series)
        # An empty name is the first group, or all of it.
        shown_as = self.shown_as or ("$1" if pattern.groups else "$0")
        text = re.sub(r"\$\{?(\d)\}?", r"\\g<\1>", shown_as)
        return found.expand(text) if found else self.series

    def selects(self, series: str) -> bool:
        """Whether its selector is a pattern that finds a series, whose name is the metric's."""
        found = None if self.series or self.shown_as else _PATTERN.search(self.selector)
        try:
            return found is not None and re.fullmatch(found[1], series) is not None
        except re.error:
            return False

    def of(self, series: str) -> _AdapterRule:
        """The same rule for one of the series that its pattern finds."""
        return self._replace(series=series, selector=_PATTERN.sub("", self.selector).strip(" ,"))

    def expression(self, matchers: str) -> str:
        """Its query, with further matchers."""
        given = ",".join(filter(None, (self.selector, matchers)))
        values = {"Series": self.series, "LabelMatchers": given, "GroupBy": self.group_label}
        # Which series a selector by pattern finds is only known from the series themselves.
        query = self.query if self.series else f"{{{given}}}"
        return _TEMPLATE.sub(lambda found: values.get(found[1], found[0]), query)


def _adapter_rules(tree: object) -> Iterator[_AdapterRule]:
    """The rules of a document: as the adapter reads them, in a ConfigMap, or in the values of its chart."""
    if isinstance(tree, Mapping):
        if isinstance(tree.get("seriesQuery"), str):
            yield _adapter_rule(tree)
            return
        for value in tree.values():
            yield from _adapter_rules(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _adapter_rules(value)


def _adapter_rule(tree: Mapping[str, Any]) -> _AdapterRule:
    selector = tree["seriesQuery"]
    series = next(iter(metrics_of(selector)), "")
    inner = selector.partition("{")[2].rpartition("}")[0].strip(" ,")
    name, resources = tree.get("name") or {}, tree.get("resources") or {}
    overrides = resources.get("overrides") or {}
    labels = {override.get("resource"): label for label, override in overrides.items() if isinstance(override, Mapping)}
    template = str(resources.get("template", "<<.Resource>>"))
    label = labels.get("pod") or next(iter(labels.values()), "") or _TEMPLATE.sub("pod", template)
    query = tree.get("metricsQuery") or "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)"
    return _AdapterRule(series, inner, name.get("matches", ""), name.get("as", ""), str(query), label)


def _of_autoscaler(tree: object, adapters: Sequence[_AdapterRule]) -> Iterator[tuple[str, str]]:
    """The metrics of a HorizontalPodAutoscaler, as queries of the adapter's rules, or of series with their names."""
    if not isinstance(tree, Mapping) or tree.get("kind") != "HorizontalPodAutoscaler":
        return
    name = (tree.get("metadata") or {}).get("name", "")
    for each in (tree.get("spec") or {}).get("metrics") or ():
        metric = next((of["metric"] for of in each.values() if isinstance(of, Mapping) and "metric" in of), None)
        if metric is None:
            continue
        labels = ((metric.get("selector") or {}).get("matchLabels") or {}).items()
        matchers = ",".join(f'{label}="{value}"' for label, value in labels)
        rule = next((rule for rule in adapters if rule.name == metric["name"]), None)
        rule = rule or next((rule.of(metric["name"]) for rule in adapters if rule.selects(metric["name"])), None)
        expression = f"{metric['name']}{{{matchers}}}" if matchers else metric["name"]
        yield f"{name}/{metric['name']}", rule.expression(matchers) if rule else expression
