"""How many queries of public dashboards have data on pages of fakedev, in doc/dashboards.md, by promtool.

The dashboards are not part of the project: ``PYTHONPATH=. python -m tests.support.documents.dashboards FOLDER`` reads them
from a folder for each repository, ``OWNER+NAME``, and writes the rows again. Pages are those of boards with each fault.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

from fakedev.base.console import tell_notes
from fakedev.commands.alert_rules import Trials, board_of, text_of
from fakedev.exporters.settings.catalog import Catalog, named_identity
from fakedev.scenario.alert_rules import labels_of, metrics_of
from fakedev.scenario.dashboard_queries import Query, queries_of, trees_in
from fakedev.scenario.promtool import measured
from fakedev.scenario.rule_files import read_rules
from fakedev.schema.files import Files
from fakedev.schema.places import Report
from tests.support.paths import DOCUMENTS, ROOT

PAGE: Final = DOCUMENTS / "dashboards.md"
BEGIN: Final = "<!-- dashboards: begin -->\n"
END: Final = "<!-- dashboards: end -->"
#: Names of a reason that are shown.
_SHOWN: Final = 4


class Dashboard(NamedTuple):
    """A file of a repository.

    :ivar repository: as GitHub spells it; ``source``: what else is said of it.
    :ivar identity: of the pages: a name, or a path in the checkout; ``device``: of the boards; empty for the usual one.
    :ivar labels: of all series, as a scrape configuration adds them.
    """

    repository: str
    path: str
    identity: str
    device: str = ""
    labels: dict[str, str] = {}


_NVIDIA: Final = "etc/alert-rules/dcgm-identity.yaml"
_AMD: Final = "etc/amd-device-metrics/labels-1.5.yaml"
_PRIVATE_AI: Final = "gitops/stage03-model-monitoring/observability"
CASES: Final = (
    Dashboard("NVIDIA/dcgm-exporter", "grafana/dcgm-exporter-dashboard.json", "dcgm"),
    Dashboard("NVIDIA/gpu-monitoring-tools", "grafana/dcgm-exporter-dashboard.json", "dcgm"),
    Dashboard("NVIDIA/deepops", "src/dashboards/gpu-dashboard.json", "dcgm"),
    Dashboard("NVIDIA/gpu-operator", "assets/state-dcgm-exporter/1000_prometheus_rule_openshift.yaml", "dcgm"),
    Dashboard("NVIDIA/k8s-test-infra", "local/observability/dashboards/mokka-gpu.json", _NVIDIA),
    Dashboard(
        "aws-samples/awsome-distributed-training",
        "4.validation_and_observability/4.prometheus-grafana/1click-dashboards-deployment/dashboards/"
        "DCGM_exporter_dashboard.json",
        "dcgm",
    ),
    Dashboard("awslabs/data-on-eks", "infra/terraform/grafana-dashboards/ray-batch-inference-dashboard.json", "dcgm"),
    Dashboard("canonical/hardware-observer-operator", "src/dashboards_dcgm/GPU.json", _NVIDIA),
    Dashboard("darsh97/gpu-observability", "grafana/dashboards/gpu-observability.json", "dcgm"),
    Dashboard("mitchross/k3s-argocd-proxmox", "monitoring/prometheus-stack/gpu-dashboard.yaml", _NVIDIA),
    Dashboard("adnan-drina/private-ai-demo", f"{_PRIVATE_AI}/console-dashboard-nvidia.yaml", "dcgm"),
    Dashboard("adnan-drina/private-ai-demo", f"{_PRIVATE_AI}/grafana-dashboard-gpu-infra.yaml", "dcgm"),
    Dashboard(
        "adnan-drina/private-ai-demo", f"{_PRIVATE_AI}/grafana-dashboard-vllm-guidellm.yaml", "dcgm"
    ),
    Dashboard(
        "adnan-drina/private-ai-demo", f"{_PRIVATE_AI}/grafana-dashboard-ai-metrics.yaml", "dcgm",
        labels={"exported_pod": "a"},
    ),
    Dashboard(
        "adnan-drina/private-ai-demo", f"{_PRIVATE_AI}/grafana-dashboard-enhanced.yaml", "dcgm",
        labels={"exported_pod": "a"},
    ),
    Dashboard("utkuozdemir/nvidia_gpu_exporter", "docs/grafana/dashboard.json", "nvidia-gpu-exporter@1-nvml"),
    Dashboard("utkuozdemir/nvidia_gpu_exporter", "docs/grafana/dashboard-overview.json", "nvidia-gpu-exporter@1-nvml"),
    *(
        Dashboard("ROCm/device-metrics-exporter", f"grafana/dashboard_{name}.json", _AMD, labels={"cluster_name": "c"})
        for name in ("gpu", "node", "overview", "job", "system")
    ),
    Dashboard("intel/xpumanager", "xpumd/charts/xpumd/json/dashboard.json", "xpumd", labels={"node": "n"}),
    Dashboard(
        "opea-project/GenAIInfra", "kubernetes-addons/Observability/habana/Dashboard-Gaudi-HW.json", "gaudi",
        "intel-gaudi-3",
    ),
)  # fmt: skip


def queries(case: Dashboard, folder: Path) -> list[Query]:
    """The queries of a dashboard."""
    report = Report()
    path = str(folder / case.repository.replace("/", "+") / case.path)
    found = queries_of([(path, tree) for tree in trees_in(text_of(path), path, report)])
    report.raise_if_any()
    return found


def row(case: Dashboard, folder: Path) -> str:
    """The row of a dashboard: its queries with data, and why the others have none."""
    asked = queries(case, folder)
    identity = str(ROOT / case.identity) if "/" in case.identity else case.identity
    expressions = [query.evaluable for query in asked]
    rules = read_rules(
        json.dumps({"groups": [{"name": "q", "rules": [{"alert": "q", "expr": each} for each in expressions]}]}), "q.json"
    )
    trials = Trials(rules, identity, case.device or board_of(identity), case.labels, lambda share: None)
    pages = trials.scraped()
    results = measured([], expressions, pages, trials.last_seconds)
    names, labels = (frozenset().union(*(getattr(each, what) for each in pages)) for what in ("names", "labels"))
    own = families(identity)
    missing: dict[str, set[str]] = {}
    count = 0
    for query, result in zip(asked, results, strict=True):
        if result is not None and not isinstance(result, str):
            count += 1
            continue
        unknown = metrics_of(query.evaluable) - names
        why, what = (
            ("not promtool's PromQL", {query.name}) if isinstance(result, str)
            else ("of other exporters", unknown - own) if unknown - own
            else ("only with a counters file or board that has them", unknown) if unknown
            else ("labels", set(labels_of(query.evaluable) - labels)) if labels_of(query.evaluable) - labels
            else ("nothing to show on these boards", {query.name})
        )  # fmt: skip
        missing.setdefault(why, set()).update(what)
    reasons = "; ".join(f"{why}: {_listed(what)}" for why, what in sorted(missing.items())) or "-"
    where = f"{case.repository}, `{case.path.rsplit('/', 1)[-1]}`"
    return f"| {where} | `{case.identity}` | {count} of {len(asked)} | {reasons} |"


def _listed(names: set[str]) -> str:
    shown = [f"`{name}`" for name in sorted(names)[:_SHOWN]]
    return ", ".join(shown + ([f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []))


def families(identity: str) -> set[str]:
    """The families of an identity, and those that its exporter has besides."""
    report = Report()
    found = named_identity(identity, Catalog(Files(environ=os.environ), report), report, "dashboards")
    tell_notes(report.notes)
    return {family.name for family in found.families}


def with_rows(page: str, folder: Path) -> str:
    """The page with the rows as they are now."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"no place for the rows in {PAGE}"
    head = "| dashboard | identity | queries with data | without |\n|---|---|---|---|\n"
    return before + BEGIN + head + "\n".join(row(case, folder) for case in CASES) + "\n" + end + after


if __name__ == "__main__":
    PAGE.write_text(with_rows(PAGE.read_text(encoding="utf-8"), Path(sys.argv[1])), encoding="utf-8")
