"""The dashboards, what Grafana reads at its start, and the stack in containers: what can be checked without them."""

from __future__ import annotations

import json
import re
import sys
from importlib import util
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from yamllint import linter
from yamllint.config import YamlLintConfig

from fakedev.commands.prometheus import prometheus
from tests.support.paths import ROOT

GRAFANA = ROOT / "etc" / "grafana"
STACK = ROOT / "etc" / "stack"


def dashboards() -> Any:
    """The script that makes the dashboards, as a module."""
    spec = util.spec_from_file_location("dashboards", GRAFANA / "dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules["dashboards"] = module
    spec.loader.exec_module(module)
    return module


def test_they_are_what_the_script_makes() -> None:
    """Each file, and no other."""
    made = dashboards()
    assert {path.stem for path in GRAFANA.glob("*.json")} == set(made.DASHBOARDS)
    for name in made.DASHBOARDS:
        text = (GRAFANA / f"{name}.json").read_text(encoding="utf-8")
        assert text == made.text_of(name), f"run python etc/grafana/dashboards.py: {name}.json is not what it makes"


def test_grafana_reads_them() -> None:
    """Grafana's own library reads each file, and writes what is in it."""
    for path in GRAFANA.glob("*.json"):
        tree = json.loads(path.read_text(encoding="utf-8"))
        again = json.loads(json.dumps(Dashboard.from_json(tree), cls=JSONEncoder))
        for key in ("title", "uid", "time", "refresh", "tags", "links"):
            assert again[key] == tree[key]
        assert len(again["panels"]) == len(tree["panels"])


def links_of(tree: Any) -> list[str]:
    """The addresses that a click on a series of its panels leads to."""
    defaults = [panel["fieldConfig"]["defaults"] for panel in tree["panels"] if panel["type"] != "row"]
    return [link["url"] for default in defaults for link in default.get("links", ())]


def variables_of(tree: Any) -> set[str]:
    return {each["name"] for each in tree["templating"]["list"]}


def test_links() -> None:
    """They use variables of their dashboard, and lead to variables of one of this folder, or to the service."""
    trees = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in GRAFANA.glob("*.json")}
    leads = {name: {url.partition("?")[0] for url in links_of(tree)} for name, tree in trees.items()}
    assert leads["fleet"] >= {"/d/fakedev-node", "/d/fakedev-device"}
    for tree in trees.values():
        for url in links_of(tree):
            assert set(re.findall(r"\${([a-z]\w*)", url)) <= variables_of(tree)
            path, _, query = url.partition("?")
            if path.startswith("/"):
                there = trees[path.removeprefix("/d/fakedev-")]
                assert set(re.findall(r"var-(\w+)=", query)) <= variables_of(there)
            else:
                assert path.startswith("${fakedev}/#")


def test_panels() -> None:
    """Each has a title of its own in its dashboard, a unit, and its source by the variable."""
    for path in GRAFANA.glob("*.json"):
        tree = json.loads(path.read_text(encoding="utf-8"))
        panels = [panel for panel in tree["panels"] if panel["type"] != "row"]
        titles = [panel["title"] for panel in panels]
        assert len(set(titles)) == len(titles)
        assert all(panel["fieldConfig"]["defaults"]["unit"] and panel["targets"] for panel in panels)
        assert {panel["datasource"]["uid"] for panel in panels} == {"${source}"}
        assert tree["uid"] == f"fakedev-{path.stem}"


@pytest.mark.parametrize(
    "path",
    [STACK / "compose.yaml", STACK / "fakedev.yaml", *sorted((GRAFANA / "provisioning").rglob("*.yaml"))],
    ids=lambda path: path.name,
)
def test_the_files_are_tidy(path: Path) -> None:
    """yamllint has no remark."""
    disabled = ", ".join(f"{name}: disable" for name in ("document-start", "braces", "brackets", "comments"))
    rules = YamlLintConfig(f"extends: default\nrules: {{line-length: {{max: 160}}, {disabled}}}")
    assert [str(each) for each in linter.run(path.read_text(encoding="utf-8"), rules)] == []


def test_the_containers() -> None:
    """Each file that they mount is there, and Grafana finds Prometheus by its name."""
    tree = yaml.safe_load((STACK / "compose.yaml").read_text(encoding="utf-8"))
    mounts = [each.split(":") for service in tree["services"].values() for each in service.get("volumes", ())]
    assert all((STACK / source).exists() for source, *_ in mounts)
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in tree["services"]


def test_the_prometheus_of_the_containers(capsys: pytest.CaptureFixture[str]) -> None:
    """Its configuration is what fakedev prints."""
    rules = ("--rules", "rules/gpu.rules.yml", "--rules", "rules/fakedev.rules.yml")
    order = ["--config", str(STACK / "fakedev.yaml"), "--interval", "5s", "--target", "fakedev:9400", *rules]
    assert prometheus(order) == 0
    assert capsys.readouterr().out == (STACK / "prometheus.yml").read_text(encoding="utf-8")
