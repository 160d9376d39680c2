"""The commands that the pages of doc show, run as they are written there; only addresses and folders differ."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Final

import pytest
import pytest_twisted

from tests.support.documents.checkout import Checkout, assert_shown, plain
from tests.support.documents.snippets import PAGES, Command, commands, page_commands, without_prompt
from tests.support.kube.api_server import node, pod
from tests.support.paths import ROOT
from tests.support.programs.asynchronous import connected, eventually, ready
from tests.support.programs.processes import AsyncProgram, StartAsync

pytestmark = pytest.mark.real

#: Pages, or parts of them, whose simple commands run one after the other, beside a service of the my.yaml of start.md.
SIMPLE: Final = (
    "clone.md", "configuration.md", "faults.md", "http.md", "identities.md", "service.md",
    "work-queue.md#A closed loop", "workloads.md#Series of workloads",
)  # fmt: skip
#: Pages whose commands another test below runs.
OTHERS: Final = (
    "cookbook.md", "kubernetes.md", "replay.md", "scenarios.md", "tester.md", "work-queue.md",
    "workloads.md",
)  # fmt: skip
#: Commands that cannot run here, or that other tests read from the text, by how they begin.
ELSEWHERE: Final = {
    "nc localhost 4499": "tests/documents/test_sessions.py types these sessions in",
    "etc/loop.sh": "tests/tester/real/test_loop.py runs it",
    ".venv/bin/fakedev faults --for": "it needs promtool, and tests/scenario/real/test_alert_rules.py runs it",
    ".venv/bin/fakedev upgrade": "the same; tests/scenario/real/test_upgrade.py runs it",
    ".venv/bin/fakedev scenario score hour": "tests/scenario/real/test_scenario_score.py runs it, with Prometheus",
    ".venv/bin/fakedev scenario tests hour": "the same",
    "promtool test rules hour": "the same",
    ".venv/bin/fakedev scenario run week.yaml": "tests/scenario/real/test_history.py runs both, with a file",
    "make ": "it would install into the environment of these tests, or run them again",
    "fakedev serve --config my.yaml --web-config-file": "tests/web/real/test_web_config.py starts one",
    "fakedev workloads --socket tls://": "tests/service/real/test_tls_clients.py runs the like",
    "fakedev status --url https://": "the same",
    "fakedev-workload -socket tls://": "the same",
    "fakedev-backend -faddr tls://": "the same",
    "fakedev learn --prometheus https://": "tests/clone/test_prometheus_server.py sends the like",
    "fakedev-node --service tls://": "tests/kubernetes/real/test_node_service.py runs the like",
    ".venv/bin/fakedev prometheus": "tests/commands/test_prometheus.py runs it",
    ".venv/bin/fakedev replay jobs trace": "tests/commands/test_learn.py reads such a trace",
    ".venv/bin/fakedev replay openb DIR": "the trace does not come with fakedev; tests/replay reads small ones like it",
    ".venv/bin/fakedev replay gentd26 DIR": "the same",
    ".venv/bin/fakedev replay pai DIR": "the same",
    ".venv/bin/fakedev replay philly DIR": "the same",
    "PYTHONPATH=. .venv/bin/python benchmarks/closed_loop.py": "it learns a simulated week, for minutes",
    ".venv/bin/fakedev serve --topology": "tests/kubernetes/real/test_topology.py runs it",
    ".venv/bin/fakedev serve --config gpus.yaml": "tests/kubernetes/cluster runs it against an API server",
    "docker ": "it needs Docker, and builds an image from the network",
    "curl http://127.0.0.1:9400/metrics": "it asks the container",
    "kubectl ": "it needs a cluster",
    "fakedev kube proof": "it needs a cluster; tests/kubernetes/followed/test_fault_objects.py has its table",
    "kind ": "it needs Docker",
    "helm install": "it needs a cluster; tests/manifests renders the chart",
    "etc/kubernetes/kwok-nodes.sh": "it needs a cluster; tests/manifests runs the script",
    "FAKEDEV_TEST_KUBECONFIG=": "it needs a cluster",
    "KUBEBUILDER_ASSETS=": "it needs a real API server",
    "fakedev serve --config my.yaml &": "tests/nvml/real/test_nvml.py starts one",
    'eval "$(fakedev nvml env': "it changes the shell; tests/nvml/test_build.py reads its lines",
    "nvitop": "tests/nvml/real/test_nvml.py runs it",
    "amd-smi monitor": "tests/nvml/test_amdsmi.py runs it",
    "amd-smi ras": "tests/nvml/test_amdsmi.py runs it",
    "nvidia-smi": "tests/nvml/real/test_nvml.py runs it",
    "fakedev nvml overrides": "tests/nvml/test_overrides.py runs it",
    ".venv/bin/fakedev clone --prometheus": "it needs Prometheus, and tests/clone/real/test_clone.py runs it",
    ".venv/bin/fakedev render --config cluster.yaml": "tests/commands/test_learn.py renders and learns such a history",
    ".venv/bin/fakedev serve --config learnt.yaml": "the same loads the result",
    "prometheus --config.file=empty.yml": "it needs blocks; tests/learn/real learns from a Prometheus",
    "mkdir -p COPY/wal": "it needs blocks",
    "promtool tsdb dump": "the same",
    "mkdir -p pages/dgx-0": "it takes a page a minute, for hours; tests/commands/test_learn.py learns such pages",
    ".venv/bin/fakedev replay gentd26 DIR --device l40s --tick 60s --for 6h": "it needs the trace",
    ".venv/bin/fakedev scenario run trace.yaml --openmetrics": "the same",
    ".venv/bin/fakedev learn": "tests/commands/test_learn.py and tests/learn/real run both",
    "nc localhost 9997                      $ nc": "two terminals side by side",
    ".venv/bin/fakedev-backend -name media": "there is no /usr/bin/transcode here",
    ".venv/bin/fakedev scale-test --scale 'kubectl": "it needs a cluster",
}
#: README and start.md are run by tests/documents/real/test_tour.py, by these parts of its commands.
TOUR: Final = re.findall(
    r'command_with\("([^"]+)"\)|if "([^"]+)" in|endswith\("([^"]+)"\)',
    (ROOT / "tests" / "documents" / "real" / "test_tour.py").read_text(encoding="utf-8"),
)


def is_elsewhere(command: Command) -> bool:
    """Whether it is in the table."""
    return any(command.text.startswith(begin) for begin in ELSEWHERE)


def test_all_commands_are_known() -> None:
    """A new command is run by a test, or is in the table with the reason why not."""
    assert [line for page in PAGES for line in without_prompt(page)] == []
    found = [command for page in PAGES for command in commands(page)]
    parts = [part for parts in TOUR for part in parts if part]
    lost = [
        str(command)
        for command in found
        if not is_elsewhere(command)
        and command.page not in (*SIMPLE, *OTHERS)
        and not (command.page in ("README.md", "start.md") and any(part in command.text for part in parts))
    ]
    assert lost == []
    assert [begin for begin in ELSEWHERE if not any(command.text.startswith(begin) for command in found)] == []


@pytest.fixture
def checkout(tmp_path: Path, start_async: StartAsync) -> Checkout:
    """The folder."""
    return Checkout(tmp_path, start_async)


def with_part(page: str, part: str) -> Command:
    """The command of a page that has this text."""
    return next(command for command in page_commands(page) if part in command.text)


@pytest.mark.requires_program("curl")
@pytest.mark.parametrize("page", SIMPLE)
@pytest_twisted.ensureDeferred
async def test_page(checkout: Checkout, page: str) -> None:
    """The commands of a page, in order."""
    service = await checkout.serve(per_node=page == "http.md")
    (checkout.folder / "scrape.prom").write_bytes((await service.fetch("/metrics")).body)
    name, _, part = page.partition("#")
    for command in page_commands(name, part):
        if is_elsewhere(command):
            continue
        if page == "identities.md" and "--check" in command.text:
            counters = checkout.folder / "etc" / "own" / "counters.csv"
            counters.write_text(counters.read_text().replace("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TMP"))
            await checkout.run(command, code=2)
        elif " serve " in command.text:
            await checkout.serve_and_stop(command)
        else:
            await checkout.run(command)


@pytest.mark.requires_program("promtool")
@pytest_twisted.ensureDeferred
async def test_history(checkout: Checkout) -> None:
    """A history of my.yaml, and its blocks."""
    for command in page_commands("scenarios.md", "History"):
        if not is_elsewhere(command):
            await checkout.run(command)
    assert list((checkout.folder / "data").glob("*/meta.json"))


@pytest_twisted.ensureDeferred
async def test_a_calibration(checkout: Checkout) -> None:
    """The plan, a run of it, and the device type that comes out: the one of the catalog, nearly."""
    for command in page_commands("clone.md", "Calibrate a board"):
        await checkout.run(command)
    text = (checkout.folder / "my-h100.yaml").read_text()
    assert "name: my-h100\n" in text
    assert "\n# kept" not in text, "the plan tells every coefficient"
    assert "<svg" in (checkout.folder / "run.html").read_text()


@pytest_twisted.ensureDeferred
async def test_the_plan_for_a_cluster(checkout: Checkout) -> None:
    """The configuration of the page, with nodes and pods as kubectl prints them."""
    (text, *_) = re.findall(r"```yaml\n(.*?)```", (ROOT / "doc" / "kubernetes.md").read_text(), re.DOTALL)
    (checkout.folder / "gpus.yaml").write_text(text)
    items = {"nodes": [node("a", {"fakedev/pool": "h100"})], "pods": [pod("train", "a", {"nvidia.com/gpu": "2"})]}
    for name, found in items.items():
        (checkout.folder / f"{name}.json").write_text(json.dumps({"kind": "List", "items": found}))
    printed = await checkout.run(with_part("kubernetes.md", "kube plan"))
    assert "status.capacity.nvidia.com/gpu: 8" in printed
    assert "pod default/train on a" in printed


@pytest_twisted.ensureDeferred
async def test_the_workload(checkout: Checkout) -> None:
    """Eleven minutes of work, in a simulated moment."""
    service = await checkout.serve()
    (command,) = page_commands("workloads.md", "fakedev-workload")
    program = checkout.start(f"{command.text} -socket {checkout.folder}/run/workload.sock -node dgx-0")
    await program.wait_for_text("Accepted")
    await service.fetch("/api/v1/clock", {"advance": "11m"})
    assert await program.wait() == 0


async def frontend(checkout: Checkout, command: Command) -> AsyncProgram:
    """A frontend that a page starts, on the addresses of this test."""
    ports = checkout.ports
    program, _, rest = command.text.partition(" ")
    addresses = f"-caddr localhost:{ports[9997]} -waddr localhost:{ports[9999]} -maddr localhost:{ports[9998]}"
    started = checkout.start(f"{program} {addresses} {rest}")
    await started.wait_for_text("backends of the queues")
    return started


def backend(checkout: Checkout, text: str) -> AsyncProgram:
    """A backend that a page starts."""
    program, _, rest = text.partition(" ")
    return checkout.start(f"{program} -faddr localhost:{checkout.ports[9999]} {rest}")


@pytest_twisted.ensureDeferred
async def test_a_frontend(checkout: Checkout) -> None:
    """It says where it listens."""
    command = with_part("work-queue.md", "frontend")
    program = await frontend(checkout, command)
    assert_shown(command, program.stderr)
    assert await program.stop() == 0


@pytest_twisted.ensureDeferred
async def test_a_backend(checkout: Checkout) -> None:
    """A request that is a simulated job."""
    service = await checkout.serve()
    _, queue, worker, session = page_commands("work-queue.md", "fakedev-backend")
    await frontend(checkout, queue)
    backend(checkout, worker.text)
    said, *shown = session.shown
    async with await connected(f"localhost:{checkout.ports[9997]}") as client:
        heard = [await client.say(said.replace("card7", "dgx-0/7"))]

        async def works() -> bool:
            return b'"Workload"' in (await service.fetch("/api/v1/workloads")).body

        await eventually(works, "the workload runs")
        await service.fetch("/api/v1/clock", {"advance": "1m"})
        heard.append(await client.line())
    names = re.compile(r"(pod|node)=\S+")
    assert [names.sub("", plain(line)) for line in heard] == [names.sub("", plain(line)) for line in shown]


@pytest_twisted.ensureDeferred
async def test_a_client(checkout: Checkout) -> None:
    """Load that is changed over HTTP; then a run with expectations, a shorter one."""
    await frontend(checkout, with_part("work-queue.md", "frontend"))
    backend(checkout, ".venv/bin/fakedev-backend -backoff 1 -protocol json -workers 30 sleep")
    watched, *asked, judged = page_commands("tester.md", "fakedev-client")
    program, _, rest = watched.text.partition(" ")
    client = checkout.start(f"{program} -caddr localhost:{checkout.ports[9996]} {rest}")
    await client.wait_for_text("statistics and control")
    for command in asked:
        await checkout.run(command)
    assert await client.stop(signal.SIGINT) == 0
    text = judged.text.replace("60s", "3s").replace("p99<2s", "p99<200s")  # a busy machine starts commands later
    text = text.replace("-headless", f"-headless -faddr localhost:{checkout.ports[9997]}")
    await checkout.run(Command(judged.page, text))
    assert (checkout.folder / "out.html").exists()


@pytest.mark.long
@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_scenarios(checkout: Checkout) -> None:
    """A scenario that comes with fakedev: checked, run, played, from a record, scored."""
    elsewhere = [*page_commands("scenarios.md", "Scores of alert rules"), *page_commands("scenarios.md", "History")]
    first, *rest = [command for command in page_commands("scenarios.md") if command not in elsewhere]
    await checkout.run(Command(first.page, first.text.replace("--check", "--record run.jsonl")))
    for command in (first, *rest):
        if " serve " in command.text:
            await checkout.serve_and_stop(command)
        else:
            await checkout.run(command)
    assert (checkout.folder / "score.xml").exists() and (checkout.folder / "again.yaml").exists()


def is_demonstration(command: Command) -> bool:
    """Whether it is one of the ten minutes of replay.md."""
    return command.page == "replay.md" and any(
        part in command.text for part in ("make_trace.py", "openb openb", "gentd26 gentd26", "curl", "kill")
    )


@pytest.mark.long
@pytest.mark.requires_program("curl")
@pytest_twisted.ensureDeferred
async def test_the_demonstration_of_replays(checkout: Checkout) -> None:
    """Traces of full size: a cluster that loses a node, boards with the usage of the trace, and the report."""
    python = checkout.folder / ".venv" / "bin" / "python"
    python.write_text(f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    shutil.copytree(ROOT / "benchmarks", checkout.folder / "benchmarks")
    cluster = None
    for command in filter(is_demonstration, page_commands("replay.md")):
        if command.text.startswith("kill"):
            assert cluster is not None and await cluster.stop(signal.SIGINT) == 0
        elif command.text.endswith("&"):
            options = f"--port {checkout.ports[9400]} --ready-file openb.json"
            cluster = checkout.start(f"{command.text.rstrip(' &')} {options}")
            await ready(cluster, checkout.folder / "openb.json")
        elif "--speed" in command.text:
            await checkout.serve_and_stop(command)
        else:
            printed = await checkout.run(command)
            assert "refused" not in printed and "MISSED" not in printed
    assert "<svg" in (checkout.folder / "gentd26.html").read_text()


@pytest_twisted.ensureDeferred
async def test_a_replay(checkout: Checkout) -> None:
    """The example trace: checked, run, played."""
    for command in page_commands("replay.md"):
        if is_elsewhere(command) or is_demonstration(command):
            continue
        if " serve " in command.text:
            await checkout.serve_and_stop(command)
        else:
            await checkout.run(command)


@pytest.mark.long
@pytest.mark.alone
@pytest_twisted.ensureDeferred
async def test_a_scale_test(checkout: Checkout) -> None:
    """Doublings of backends that share nothing."""
    await frontend(checkout, with_part("tester.md", "frontend"))
    command = with_part("tester.md", "--start")
    ports = checkout.ports
    text = command.text.replace("-protocol", f"-faddr localhost:{ports[9999]} -protocol")
    text = text.replace("--measure", f"--faddr localhost:{ports[9997]} --measure")
    assert "PASS: each doubling brought at least 1.5" in await checkout.run(Command(command.page, text))
