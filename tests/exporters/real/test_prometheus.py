"""Prometheus itself: its linter reads our pages, and the server scrapes us as it would the vendors' exporters."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_twisted
from twisted.internet.error import ConnectError

from tests.catalog.test_identities_rendered import every_device, page_of
from tests.support.application import GREEN_AND_BLUE, SMALL, application
from tests.support.documents import promtool_remarks
from tests.support.identities import TITLES
from tests.support.paths import ORIGINALS
from tests.support.programs.asynchronous import eventually, fetch, serve
from tests.support.programs.ports import free_port
from tests.support.programs.processes import StartAsync, require_program, run

pytestmark = pytest.mark.real

GOLDEN = ORIGINALS.parent / "golden"
DCGM = {
    'counter metrics should have "_total" suffix',
    "label names should be written in 'snake_case' not 'camelCase'",
    "metric name should not include type 'counter'",
}
#: Identity, a device that has all it shows, the vendor's page, the lint remarks on that where it is not at hand.
IDENTITIES = [
    ("dcgm", "h100", "dcgm-exporter-4.8.2.DERIVED-default-2xH100.prom", DCGM),
    ("xpumanager", "flex-170", "intel-xpumanager-1.3.DERIVED.prom", set()),
    ("collectd", "flex-170", "collectd-gpu-sysman.DERIVED.prom", set()),
    ("dcgm@3.0", "a100", "dcgm-exporter-3.0-a100-idle-mig-disabled.0.prom", DCGM),
    ("dcgm@3.2.5", "a100", "", DCGM),
    ("dcgm@3.3.7", "a100", "", DCGM),
    ("dcgm@4.4.1-4.6.0", "h100", "", DCGM),
    ("dcgm@main", "h100", "", DCGM),
    ("nvidia-gpu-exporter@1-nvml", "h200", "", {
        "metric name should not include type 'histogram'",
        'non-counter metrics should not have "_total" suffix',
        'non-histogram and non-summary metrics should not have "_count" suffix',
    }),
    ("dcgm-fake@2026.01", "h100", "", {"label names should be written in 'snake_case' not 'camelCase'"}),
    ("dcgm@4.8.3", "h100", "dcgm-exporter-4.8.3.DERIVED-default-2xH100.prom", DCGM),
    ("run-ai", "h100", "", {"label names should be written in 'snake_case' not 'camelCase'"}),
    ("xpumd", "max-1550", "", set()),
    (
        "amd-device-metrics", "mi300x", "",
        {
            "metric name should not include type 'counter'",
            'non-counter metrics should not have "_total" suffix',
            'non-histogram and non-summary metrics should not have "_count" suffix',
        },
    ),
    (
        "nvidia-gpu-exporter", "h100", "",
        {
            "metric name should not include type 'histogram'",
            'non-counter metrics should not have "_total" suffix',
            'non-histogram and non-summary metrics should not have "_count" suffix',
        },
    ),
    ("neuron", "h100", "", set()),
    ("tpu", "h100", "", {'non-counter metrics should not have "_total" suffix'}),
    (
        "gaudi", "h100", "",
        {
            "no help text",
            "metric names should be written in 'snake_case' not 'camelCase'",
            'non-histogram and non-summary metrics should not have "_count" suffix',
        },
    ),
]  # fmt: skip

FLEET = GREEN_AND_BLUE + """\
    - {name: red, nodes: [d], device: flex-170, devices-per-node: 2, identity: collectd}
"""


async def remarks(start_async: StartAsync, page: bytes) -> set[tuple[str, str]]:
    """What promtool says of a page: (metric, remark); a page that it cannot parse is a failure."""
    checked = await run(start_async, require_program("promtool"), "check", "metrics", text=page)
    said = checked.stdout + checked.stderr
    assert checked.exit_code in (0, 3), said
    assert "error while" not in said and "parsing error" not in said
    found = set()
    for line in said.splitlines():
        metric, _, remark = line.partition(" ")
        found.add((metric, remark))
    return found


@pytest.mark.requires_program("promtool")
@pytest.mark.parametrize("title", TITLES)
def test_promtool_on_every_device(title: str) -> None:
    """Each identity and release on all device types, with work and without: no remark but those of the document."""
    fleet, identity = every_device(title)
    found = promtool_remarks.remarks(page_of(fleet, identity).encode())
    assert found.keys() <= promtool_remarks.WHY.keys()


@pytest.mark.parametrize(("identity", "device", "golden", "expected"), IDENTITIES)
@pytest_twisted.ensureDeferred
async def test_promtool(
    start_async: StartAsync, identity: str, device: str, golden: str, expected: set[str]
) -> None:
    """No parse error on any identity's page; remarks only where the vendor's own page has them.

    The pages are of an application in memory: its answers are those of a service, and one starts much sooner.
    """
    pool = f"{{name: p, nodes: [a, b], device: {device}, devices-per-node: 2, identity: {identity}}}"
    with application(SMALL[: SMALL.index("  pools:")] + f"  pools: [{pool}]\n" + SMALL[SMALL.index("web:") :]) as app:

        async def kinds(path: str) -> set[str]:
            """The kinds of remarks on one of our pages."""
            return {remark for _, remark in await remarks(start_async, app.get(path).body)}

        (said,) = app.connect().say("run x devices=a/0 profile=60:5:0 pod=p namespace=n container=c")
        assert said.startswith("ok ")
        app.tick()
        found = await remarks(start_async, app.get("/metrics").body)
        assert {remark for _, remark in found} <= expected
        if golden and (GOLDEN / golden).is_file():
            vendor = (GOLDEN / golden).read_bytes()
            of_vendor = await remarks(start_async, vendor)
            assert {remark for _, remark in of_vendor} == expected
            families = {line.split()[2].decode() for line in vendor.splitlines() if line.startswith(b"# TYPE")}
            assert {each for each in found if each[0] in families} <= of_vendor
        if identity == "dcgm":  # other pages have nothing of an identity, or only a part of the same lines
            assert await kinds("/nodes/b/metrics") <= expected
            assert await kinds("/workloads/metrics") == set()
            assert await kinds("/-/metrics") == set()


def test_the_document() -> None:
    require_program("promtool")
    document = promtool_remarks.DOCUMENT.read_text(encoding="utf-8")
    assert promtool_remarks.with_own_section(document) == document


async def prometheus(
    start_async: StartAsync, folder: Path, scrape_configs: str, interval: str = "250ms", *options: str
) -> str:
    """A Prometheus with its data in a folder; its address.

    :param interval: of scrapes and of the evaluation of rules.
    :param options: further ones of Prometheus.
    """
    require_program("prometheus")
    where = f"127.0.0.1:{free_port()}"
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: {interval}, scrape_timeout: {interval}, evaluation_interval: {interval}}}\n"
        f"scrape_configs:\n{scrape_configs}"
    )
    program = start_async([
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={where}", "--log.level=warn", *options,
    ])  # fmt: skip

    async def is_ready() -> bool:
        assert program.exit_code is None, program.stderr
        try:
            return (await fetch(where, "/-/ready")).status == 200
        except ConnectError:
            return False

    await eventually(is_ready, "Prometheus is ready")
    return where


async def asked(prometheus_address: str, query: str) -> list[dict[str, Any]]:
    page = await fetch(prometheus_address, f"/api/v1/query?query={quote(query)}")
    result: list[dict[str, Any]] = json.loads(page.body)["data"]["result"]
    return result


@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_a_real_prometheus(start_async: StartAsync, tmp_path: Path) -> None:
    """It finds every node by /sd, sees `up 1` everywhere, no scrape error, and the labels of the exporters."""
    service = await serve(start_async, tmp_path, fleet=FLEET)
    address = service.web[0]
    where = await prometheus(start_async, tmp_path, f"""
  - job_name: gpus
    http_sd_configs: [{{url: "http://{address}/sd", refresh_interval: 1s}}]
  - job_name: workloads
    metrics_path: /workloads/metrics
    static_configs: [{{targets: ["{address}"]}}]
  - job_name: fakedev
    metrics_path: /-/metrics
    static_configs: [{{targets: ["{address}"]}}]
""")  # fmt: skip
    instances = {"a:9400", "b:9400", "c:9400", "d:9400", address}

    async def all_up() -> bool:
        up = await asked(where, "up")
        return len(up) == 6 and all(each["value"][1] == "1" for each in up)

    await eventually(all_up, "all six targets are up")
    async with await service.connect() as peer:
        await peer.say("run x devices=a/0 profile=80:5:0 pod=my-pod namespace=here container=main")
        busy = 'DCGM_FI_DEV_GPU_UTIL{exported_pod="my-pod"} or DCGM_FI_DEV_GPU_UTIL{pod="my-pod"}'
        (series,) = await eventually(lambda: asked(where, busy), "the workload's device is seen")
        assert series["metric"]["Hostname"] == "a"
        assert series["metric"]["instance"] == "a:9400"
        await eventually(lambda: asked(where, 'fakedev_workload_load_ratio{name="x"} == 0.8'), "the workload is seen")
    assert {each["metric"]["instance"] for each in await asked(where, "up")} == instances
    others = await asked(where, 'xpum_power_watts or {__name__=~"collectd.*"}')
    assert {other["metric"]["instance"] for other in others} == {"c:9400", "d:9400"}

    async def without_error() -> bool:
        # A scrape may take longer than the quarter of a second between two of them: the next one will not.
        targets = json.loads((await fetch(where, "/api/v1/targets")).body)["data"]["activeTargets"]
        assert len(targets) == 6
        return {(target["lastError"], target["health"]) for target in targets} == {("", "up")}

    await eventually(without_error, "the last scrapes had no error")
    own_page = (await fetch(where, "/metrics")).body.decode()
    counts = re.findall(r"^(prometheus_target_scrapes_sample_\w+_total) (\d+)$", own_page, flags=re.MULTILINE)
    assert len(counts) >= 3
    assert {count for _, count in counts} == {"0"}, counts


@pytest.mark.long
@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_a_reload_leaves_no_gap(start_async: StartAsync, tmp_path: Path) -> None:
    """Nodes come and go around one that stays: none of its series misses a scrape or starts again at zero."""
    service = await serve(start_async, tmp_path, fleet=FLEET)
    config = tmp_path / "fakedev.yaml"
    address = service.web[0]
    where = await prometheus(start_async, tmp_path, f"""
  - job_name: gpus
    http_sd_configs: [{{url: "http://{address}/sd", refresh_interval: 1s}}]
""", "1s")  # fmt: skip
    peer = await service.connect()
    assert (await peer.say("run x devices=a/0 profile=80:5:0 pod=my-pod")).startswith("ok ")
    stays = '{instance="a:9400",__name__=~"DCGM.*|up"}'

    async def scrapes() -> float:
        found = await asked(where, 'count_over_time(up{instance="a:9400"}[5m])')
        return float(found[0]["value"][1]) if found else 0.0

    async def has_scraped(times: float) -> bool:
        return await scrapes() > times

    await eventually(lambda: has_scraped(4), "some scrapes")
    written = config.read_text()
    for text in ("nodes: [z, a, c2]", "nodes: [a]", "nodes: [b, a]"):
        before = await scrapes()
        config.write_text(written.replace("nodes: [a, b]", text))
        answer = await service.fetch("/-/reload", method="POST")
        assert answer.status == 200, answer
        await eventually(partial(has_scraped, before + 4), "more scrapes")
    answers = await asked(where, f"{stays}[5m]")
    times = {tuple(time for time, _ in answer["values"]) for answer in answers if "pod" not in answer["metric"]}
    # Of `up` there is a sample for each scrape: all others have one too.
    assert len(times) == 1
    assert {each["value"][1] for each in await asked(where, 'min_over_time(up{instance="a:9400"}[5m])')} == {"1"}
    resets = await asked(where, 'resets(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{instance="a:9400"}[5m])')
    assert {reset["value"][1] for reset in resets} == {"0"}
    await eventually(lambda: asked(where, 'up{instance="b:9400"} == 1'), "the node that came back")
    assert (await peer.say("list")).startswith("ok 1 lines")
