"""How many queries of public dashboards have data on pages of fakedev, in doc/dashboards.md, by promtool.

The dashboards are not part of the project: ``python -m tests.support.documents.dashboards FOLDER`` reads them
from a folder for each repository, ``OWNER+NAME``, and writes the rows again.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from fakedev.commands.alert_rules import text_of
from fakedev.config.sample_page import sample_page
from fakedev.exporters.samples import read_page
from fakedev.scenario.rules.alert_rules import labels_of, metrics_of
from fakedev.scenario.rules.dashboard_queries import Query, queries_of, trees_in
from fakedev.scenario.rules.promtool import measured
from fakedev.scenario.rules.trials import SCRAPE_SECONDS, Scraped, Trial
from fakedev.scenario.scores.upgrade_report import Measured
from fakedev.schema.places import Report
from tests.support.paths import DOCUMENTS, ROOT

PAGE: Final = DOCUMENTS / "dashboards.md"
BEGIN: Final = "<!-- dashboards: begin -->\n"
END: Final = "<!-- dashboards: end -->"
#: Windows of queries have up to an hour.
_SCRAPES: Final = 240
#: What the busy board of a page has had: an error code, or errors that make it unhealthy while its work goes on.
_XID: Final[dict[str, object]] = {"kind": "xid", "code": 63}
_FAULTS: Final = {
    "h100": _XID, "a10": _XID, "l4": {**_XID, "code": 54}, "l40s": {**_XID, "code": 64},
    "mi300x": {"kind": "cache-errors", "uncorrectable": 1},
}  # fmt: skip
#: A job of Slurm, besides its pod.
_OWNER: Final = {"job_id": "7", "job_user": "u", "job_partition": "p"}
#: Names of a reason that are shown.
_SHOWN: Final = 4
#: How the names of an exporter's metrics begin, by a part of its identity's name; queries of other names ask others.
_OWN_NAMES: Final = {
    "amd-device-metrics": "gpu_|pcie_|xgmi_", "nvidia-gpu-exporter": "nvidia_smi_", "xpumd": "hw_",
    "gaudi": "habanalabs_", "dcgm": "(?i:DCGM_)",
}  # fmt: skip
_LOWER: Final = re.compile(r"\bdcgm_fi_\w++")


class Dashboard(NamedTuple):
    """A file of a repository.

    :ivar identity: of the pages: a name, or a path in the checkout; ``OWN``: dcgm with the counters that are asked.
    :ivar devices: boards of the catalog, each with a page; ``TYPE/PROFILE`` is one that is divided.
    :ivar labels: of all series, as a scrape configuration adds them.
    :ivar pods: the pod that the scrape configuration adds to each page, in the order of the devices.
    :ivar scrape_seconds: the interval for which it is made.
    :ivar ignores_case: it is for Azure Monitor, which finds metrics whose names are written in lower case.
    """

    repository: str
    path: str
    identity: str
    devices: tuple[str, ...] = ("h100", "a10")
    labels: tuple[tuple[str, str], ...] = ()
    pods: tuple[str, ...] = ()
    scrape_seconds: int = SCRAPE_SECONDS
    ignores_case: bool = False

    @property
    def own_names(self) -> str:
        """A pattern of the names of its exporter's metrics."""
        return next(names for part, names in _OWN_NAMES.items() if part in self.identity)


OWN: Final = "dcgm, own counters"
_SMI: Final = ("h100", "a10", "a100-80gb/3g.40gb")
_MI: Final = ("mi300x", "mi250x")
_AMD: Final = "etc/amd-device-metrics/labels-1.5.yaml"
#: AMD's exporter takes this label from its configuration.
_CLUSTER: Final = (("cluster_name", "c"),)
_PRIVATE_AI: Final = "gitops/stage03-model-monitoring/observability"
_NODE: Final = (("node", "n"), ("amd_com_gpu_family", "AI"))
#: What its own scrapes add.
_SCRAPED: Final = tuple({
    "namespace": "private-ai-demo", "exported_namespace": "private-ai-demo",
    "job": "private-ai-demo/nvidia-dcgm-metrics",
}.items())  # fmt: skip
_FORGE: Final = "sources/otel-lgtm-stack/v1.0.7/templates"
CASES: Final = (
    Dashboard("NVIDIA/dcgm-exporter", "grafana/dcgm-exporter-dashboard.json", "dcgm"),
    Dashboard("NVIDIA/gpu-monitoring-tools", "grafana/dcgm-exporter-dashboard.json", "dcgm"),
    Dashboard("NVIDIA/deepops", "src/dashboards/gpu-dashboard.json", "dcgm"),
    Dashboard("NVIDIA/gpu-operator", "assets/state-dcgm-exporter/1000_prometheus_rule_openshift.yaml", OWN),
    Dashboard("NVIDIA/k8s-test-infra", "local/observability/dashboards/mokka-gpu.json", OWN),
    Dashboard(
        "aws-samples/awsome-distributed-training",
        "4.validation_and_observability/4.prometheus-grafana/1click-dashboards-deployment/dashboards/"
        "DCGM_exporter_dashboard.json",
        "dcgm",
    ),
    Dashboard("awslabs/data-on-eks", "infra/terraform/grafana-dashboards/ray-batch-inference-dashboard.json", "dcgm"),
    Dashboard("canonical/hardware-observer-operator", "src/dashboards_dcgm/GPU.json", OWN),
    Dashboard("darsh97/gpu-observability", "grafana/dashboards/gpu-observability.json", "dcgm"),
    Dashboard("mitchross/k3s-argocd-proxmox", "monitoring/prometheus-stack/gpu-dashboard.yaml", OWN),
    Dashboard("adnan-drina/private-ai-demo", f"{_PRIVATE_AI}/console-dashboard-nvidia.yaml", "dcgm"),
    Dashboard("adnan-drina/private-ai-demo", f"{_PRIVATE_AI}/grafana-dashboard-gpu-infra.yaml", OWN),
    Dashboard(
        "adnan-drina/private-ai-demo", f"{_PRIVATE_AI}/grafana-dashboard-vllm-guidellm.yaml", "dcgm"
    ),
    Dashboard(
        "adnan-drina/private-ai-demo", f"{_PRIVATE_AI}/grafana-dashboard-ai-metrics.yaml", "dcgm",
        labels=_SCRAPED, pods=("mistral-24b-predictor-0", "mistral-24b-quantized-predictor-0"),
    ),
    Dashboard(
        "adnan-drina/private-ai-demo", f"{_PRIVATE_AI}/grafana-dashboard-enhanced.yaml", "dcgm",
        labels=_SCRAPED,
    ),
    *(
        Dashboard("utkuozdemir/nvidia_gpu_exporter", f"docs/grafana/{name}.json", "nvidia-gpu-exporter@1-nvml", _SMI)
        for name in ("dashboard", "dashboard-overview")
    ),
    Dashboard(
        "d-uzlov/k8s-homelab", "metrics/component-monitoring/nvidia/dashboards/nvidia-gpu.json",
        "nvidia-gpu-exporter@1", _SMI,
    ),
    *(
        Dashboard("ROCm/device-metrics-exporter", f"grafana/dashboard_{name}.json", _AMD, _MI, _CLUSTER)
        for name in ("gpu", "node", "overview", "job", "system")
    ),
    Dashboard(
        "intel/xpumanager", "xpumd/charts/xpumd/json/dashboard.json", "xpumd", ("max-1550",), (("node", "n"),),
        scrape_seconds=5,
    ),
    Dashboard("silogen/cluster-forge", f"{_FORGE}/dashboards-gpu.yaml", _AMD, _MI, _NODE),
    Dashboard("silogen/cluster-forge", f"{_FORGE}/dashboards-cluster-health-overview.yaml", _AMD, _MI, _NODE),
    *(
        Dashboard("nebius/soperator", f"helm/soperator-monitoring-dashboards/dashboards/{name}.json", OWN,
                  labels=(("exported_pod", "w"),))
        for name in (
            "gpu_cluster_stats", "cluster_health", "jobs_overview", "workers_overview", "workers_detailed_stats",
        )
    ),
    *(
        Dashboard("oracle-quickstart/oci-hpc-oke", f"terraform/files/grafana/dashboards/gpu/{name}.json", OWN)
        for name in ("cluster-level-metrics", "gpu-health-status", "gpu-metrics")
    ),
    Dashboard("oracle-quickstart/oci-hpc", "playbooks/roles/grafana/files/alert-rules.yaml", OWN),
    Dashboard(
        "oracle-quickstart/oci-hpc", "playbooks/roles/prometheus/files/recording_rules.yml", OWN,
        ("h100", "a10", "l4", "l40s"),
    ),
    Dashboard("truefoundry/infra-charts", "charts/tfy-grafana/dashboards/Truefoundry Addons/gpu.json", OWN),
    Dashboard(
        "GoogleCloudPlatform/monitoring-dashboard-samples", "dashboards/nvidia-gpu/nvidia-dcgm-prometheus.json", OWN
    ),
    *(
        Dashboard("Azure/cyclecloud-monitoring", f"infra/dashboards/{name}.json", OWN, ignores_case=True,
                  labels=(("physical_host", "p"), ("hostname", "h"), ("cluster", "c")))
        for name in ("gpu_device", "gpu_level", "cluster_view_timeseries")
    ),
    Dashboard("ChrisAdkin8/k8s-ai-observability", "manifests/dashboards/gpu-sim-dcgm.json", "dcgm"),
    Dashboard("twilson217/superpod-dcgm-exporter", "grafana/dcgm-single-job-stats.json", OWN),
    Dashboard(
        "opea-project/GenAIInfra", "kubernetes-addons/Observability/habana/Dashboard-Gaudi-HW.json", "gaudi",
        ("intel-gaudi-3",),
    ),
)  # fmt: skip


def queries(case: Dashboard, folder: Path) -> list[Query]:
    """The queries of a dashboard."""
    report = Report()
    path = str(folder / case.repository.replace("/", "+") / case.path)
    text = text_of(path)
    text = _LOWER.sub(lambda found: found[0].upper(), text) if case.ignores_case else text
    found = queries_of([(path, tree) for tree in trees_in(text, path, report)])
    report.raise_if_any()
    return found


def rows(folder: Path) -> list[str]:
    """The rows of all dashboards; those with the same pages are evaluated together."""
    groups: dict[tuple[object, ...], list[Dashboard]] = {}
    for case in CASES:
        groups.setdefault((case.identity, case.devices, case.labels, case.pods, case.scrape_seconds), []).append(case)
    found = {case: row for cases in groups.values() for case, row in zip(cases, _rows(cases, folder), strict=True)}
    return [found[case] for case in CASES]


def _rows(cases: list[Dashboard], folder: Path) -> list[str]:
    """The rows of dashboards with the same pages: the queries with data, and why the others have none."""
    asked = [queries(case, folder) for case in cases]
    expressions = [query.evaluable for each in asked for query in each]
    with TemporaryDirectory() as own:
        identity = _identity(cases[0], expressions, Path(own))
        pods = cases[0].pods or ("",) * len(cases[0].devices)
        pages = [_scraped(identity, cases[0], *page) for page in zip(cases[0].devices, pods, strict=True)]
    every = cases[0].scrape_seconds
    by_page = [measured([], expressions, [page], _SCRAPES * every, every) for page in pages]
    # What has data on the boards of any page has data.
    of_query = zip(*by_page, strict=True)
    results = iter([next((each for each in some if isinstance(each, Measured)), some[0]) for some in of_query])
    names, labels = (frozenset().union(*(getattr(page, what) for page in pages)) for what in ("names", "labels"))
    made = []
    for case, of_case in zip(cases, asked, strict=True):
        missing: dict[str, set[str]] = {}
        answers = [(query, next(results)) for query in of_case]
        asking = [answer for answer in answers if isinstance(answer[1], Measured) or _asks(case, answer[0], names)]
        without = [(query, each) for query, each in asking if not isinstance(each, Measured)]
        for query, result in without:
            why, what = _reason(query, result, names, labels)
            missing.setdefault(why, set()).update(what)
        reasons = "; ".join(f"{why}: {_listed(what)}" for why, what in sorted(missing.items())) or "-"
        shown = f"{case.repository}, `{case.path.rsplit('/', 1)[-1]}`"
        counts = f"{len(asking) - len(without)} of {len(asking)} | {len(of_case) - len(asking)}"
        made.append(f"| {shown} | `{case.identity}` | {counts} | {reasons} |")
    return made


def _identity(case: Dashboard, expressions: list[str], folder: Path) -> str:
    """The name or path of an identity; one with its own counters is written."""
    if case.identity != OWN:
        return str(ROOT / case.identity) if "/" in case.identity else case.identity
    names = sorted({name for expression in expressions for name in metrics_of(expression) if name.startswith("DCGM_")})
    (folder / "own.csv").write_text("".join(f"{name}, gauge, .\n" for name in names))
    text = "name: own\nbased-on: dcgm\ncounters: {file: own.csv, unknown: skip}\n"
    (folder / "own.yaml").write_text(text)
    return str(folder / "own.yaml")


def _scraped(identity: str, case: Dashboard, given: str, pod: str) -> Scraped:
    """The series of a node with an idle board and a busy one, which has had an error; they stay as they are.

    :param pod: that a scrape configuration adds; empty for none.
    """
    added = {"instance": "n:9400", "job": "gpus", **dict(case.labels), **({"exported_pod": pod} if pod else {})}
    found = Scraped(Trial())
    device, _, profile = given.partition("/")
    faults = [{**_FAULTS[device], "devices": "*/1", "start": "30s"}] if device in _FAULTS else []
    page = read_page(sample_page(identity, device, (profile,) if profile else (), faults, owner=_OWNER)[1])
    for name, family in page.families.items():
        for sample in family.samples:
            labels = {**dict(sample.labels), **added}
            text = ",".join(f"{label}={json.dumps(value, ensure_ascii=False)}" for label, value in labels.items())
            found.series[f"{name}{{{text}}}"] = [(number, sample.number) for number in range(_SCRAPES + 1)]
            found.names.add(name)
            for label, value in labels.items():
                found.labels[label].add(value)
    return found


def _asks(case: Dashboard, query: Query, names: frozenset[str]) -> bool:
    """Whether a query without data asks this exporter, and no other program."""
    return all(name in names or re.match(case.own_names, name) for name in metrics_of(query.evaluable))


def _reason(query: Query, result: str | None, names: frozenset[str], labels: frozenset[str]) -> tuple[str, set[str]]:
    """Why a query has no data, and the names that are concerned."""
    if isinstance(result, str):
        return "not PromQL", {query.name}
    if unknown := metrics_of(query.evaluable) - names:
        return "not on these pages", set(unknown)
    if unknown := labels_of(query.evaluable) - labels:
        return "labels of a scrape configuration", set(unknown)
    return "no such case", {query.name}


def _listed(names: set[str]) -> str:
    shown = [f"`{name}`" for name in sorted(names)[:_SHOWN]]
    return ", ".join(shown + ([f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []))


def with_rows(page: str, folder: Path) -> str:
    """The page with the rows as they are now."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"no place for the rows in {PAGE}"
    head = "| dashboard | identity | ask it, with data | ask others | without |\n|---|---|---|---|---|\n"
    return before + BEGIN + head + "\n".join(rows(folder)) + "\n" + end + after


if __name__ == "__main__":
    PAGE.write_text(with_rows(PAGE.read_text(encoding="utf-8"), Path(sys.argv[1])), encoding="utf-8")
