"""`fakedev serve --topology FILE`: a fleet as a topology of fake-gpu-operator describes it, followed as it changes."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID, uuid5

import pytest

from fakedev.api.tree import follow_topology
from fakedev.commands.main import main
from fakedev.config.load import load
from fakedev.fleet.fleet import Fleet
from fakedev.kubernetes.runai.operator_port import OperatorTopology
from fakedev.schema.files import Files
from tests.kubernetes.runai.test_operator_files import DESIGN, NEW, POOLS
from tests.support.application import MemoryApplication, application, parsed
from tests.support.wire.http_wire import Answer, answers

SERVE = 'topology: {}\nweb: ["127.0.0.1:9400"]\nworkloads: {{listen: []}}\n'


def metrics(app: MemoryApplication, name: str) -> dict[str, str]:
    """The values of a family on a page, by UUID."""
    rows = [row for row in app.get("/metrics").body.decode().splitlines() if row.startswith(name + "{")]
    return {row.split('UUID="')[1].split('"')[0]: row.rsplit(" ", 1)[1] for row in rows}


def test_pages(tmp_path: Path) -> None:
    """The operator's three families with the file's ids, pods, utilization and memory."""
    path = tmp_path / "topology.yml"
    path.write_text(DESIGN)
    with application(SERVE.format(path)) as app:
        app.tick(2)
        uuid = "GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1"
        assert metrics(app, "DCGM_FI_DEV_GPU_UTIL") == {uuid: "10"}
        assert metrics(app, "DCGM_FI_DEV_FB_USED") == {uuid: "5000"}
        assert metrics(app, "DCGM_FI_DEV_FB_FREE") == {uuid: str(11441 - 5000)}
        page = app.get("/nodes/node-a/metrics").body.decode()
        assert 'container="c",device="nvidia0",gpu="0",modelName="Tesla-K80",namespace="ns",pod="p"} 5000' in page


def test_topology_addresses(tmp_path: Path) -> None:
    """/topology and /topology/nodes/NODE are as the operator's topology server writes them."""
    path = tmp_path / "topology.yml"
    path.write_text(DESIGN + POOLS)
    with application(SERVE.format(path)) as app:
        app.tick()
        whole = app.json("/topology")
        assert whole["nodePools"]["default"] == {
            "gpuMemory": 11441, "gpuProduct": "Tesla-K80", "gpuCount": 2,
            "otherDevices": [{"name": "rdma/hca", "count": 2}],
        }  # fmt: skip
        assert (whole["nodePoolLabelKey"], whole["migStrategy"]) == ("run.ai/simulated-gpu-node-pool", "mixed")
        node = app.json("/topology/nodes/node-a")
        (gpu,) = node["gpus"]
        assert gpu["id"] == "GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1"
        assert gpu["status"]["allocatedBy"] == {"namespace": "ns", "pod": "p", "container": "c"}
        (usage,) = gpu["status"]["podGpuUsageStatus"].values()
        assert usage == {"utilization": {"min": 10, "max": 10}, "fbUsed": 5000, "useKnativeUtilization": False}
        assert [gpu["numaNode"] for gpu in app.json("/topology/nodes/big-1")["gpus"]] == [0, 0, 0, 1]
        assert app.json("/topology/nodes/default-0")["otherDevices"] == [{"name": "rdma/hca", "count": 2}]
        missing = app.get("/topology/nodes/node-b")
        assert (missing.status, missing.body) == (404, b"no node 'node-b'; did you mean node-a?\n")
        assert app.get("/topology/nodes/").body.decode().endswith("name a node, as /topology/nodes/default-0\n")


def test_uids_of_pods(tmp_path: Path) -> None:
    """A pod has the UID of the file; work that came by another way has one that never changes."""
    path = tmp_path / "topology-node-a.yml"
    path.write_text(NEW)
    serve = SERVE.format(path).replace("listen: []", 'listen: ["127.0.0.1:9500"]')
    with application(serve) as app:
        app.tick()
        assert app.connect().say("run x devices=node-a/0 profile=20 pod=late namespace=ns")[0].startswith("ok")
        app.tick()
        (gpu,) = app.json("/topology/nodes/node-a")["gpus"]
        first, second = gpu["status"]["podGpuUsageStatus"].items()
        assert first[0] == "uid-1"
        assert second == (
            str(uuid5(UUID(int=0), "ns/late")),
            {"utilization": {"min": 20, "max": 20}, "fbUsed": second[1]["fbUsed"], "useKnativeUtilization": False},
        )
        assert second[1]["fbUsed"] > 0  # it does not say how much: the memory follows its load


def test_without_a_topology() -> None:
    """The addresses are not there, and say how to get them."""
    with application() as app:
        for path in ("/topology", "/topology/nodes/a"):
            answer = app.get(path)
            assert (answer.status, b"--topology FILE" in answer.body) == (404, True)


@pytest.mark.parametrize(("compatibility", "is_on"), [("fake-gpu-operator", True), ("none", False)])
def test_compatibility(compatibility: str, is_on: bool) -> None:
    """Beside a cluster the addresses are there without a file, if the configuration asks; a pool may have no node."""
    text = "fleet: {pools: [{name: p, nodes: cluster, device: t4}]}\nweb: []\nworkloads: {listen: []}\n"
    text += f"kubernetes: {{compatibility: {compatibility}}}\n"
    configuration = load(None, Files(environ={}), text=text)
    topology = OperatorTopology(Fleet(configuration.fleet))
    follow_topology(topology, configuration)
    assert topology.is_on is is_on
    assert topology.cluster()["nodePools"]["p"]["gpuProduct"] == "Tesla T4"


def test_reload(tmp_path: Path) -> None:
    """A changed file takes effect without a restart; a wrong one changes nothing and says why."""
    path = tmp_path / "topology.yml"
    path.write_text(DESIGN)
    with application(SERVE.format(path)) as app:
        app.tick()
        path.write_text(DESIGN.replace("utilization: 10", "utilization: 80").replace("5000", "6000") + POOLS)
        assert reloaded(app).status == 200
        app.tick()
        uuid = "GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1"
        assert metrics(app, "DCGM_FI_DEV_GPU_UTIL")[uuid] == "80"
        assert metrics(app, "DCGM_FI_DEV_FB_USED")[uuid] == "6000"
        assert len(app.json("/topology")["nodePools"]) == 3
        path.write_text("nodes: {node-a: {gpuProduct: x}}")
        answer = reloaded(app)
        assert answer.status == 400
        assert f"{path}:1: node-a: has no GPUs" in answer.body.decode()
        assert len(app.json("/topology")["nodePools"]) == 3


def test_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record has the topologies: it is replayed to the same page where there are no files."""
    path, record = tmp_path / "topology.yml", tmp_path / "run.jsonl"
    path.write_text(DESIGN)
    with application(SERVE.format(path), record=str(record)) as app:
        app.tick(2)
        path.write_text(DESIGN.replace("utilization: 10", "utilization: 77"))
        assert reloaded(app).status == 200
        app.tick(3)
        page = app.get("/metrics").body.decode()
    path.unlink()
    assert main(["render", "--events", str(record), "--for", "6s", "--every", "6s"]) == 0
    assert capsys.readouterr().out.endswith(page)


@pytest.mark.parametrize("config", [False, True])
def test_the_option(config: bool, tmp_path: Path) -> None:
    """It stands for a key of the configuration, which gives all the rest; twistd has it too."""
    path, file = tmp_path / "topology.yml", tmp_path / "f.yaml"
    path.write_text(POOLS)
    file.write_text("fleet: {seed: 99, pools: [{name: gone}]}\nweb: [9401]\n")
    order = parsed(*(["--config", str(file)] if config else []), "--topology", str(path))
    assert [pool.name for pool in order.configuration.fleet.pools] == ["default", "big"]
    assert order.configuration.fleet.seed == (99 if config else 1)
    assert order.configuration.fleet.base == ()
    assert order.configuration.watch
    assert str(path) in order.run.head.files


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins where the program was started, also after twistd has changed the folder."""
    (tmp_path / "topology.yml").write_text(POOLS)
    monkeypatch.chdir(tmp_path)
    run = parsed("--topology", "topology.yml").run
    monkeypatch.chdir("/")
    assert run.read_again is not None
    assert [pool.name for pool in run.read_again()[0].fleet.pools] == ["default", "big"]


def test_a_wrong_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each problem is a line with its place, and the program ends with 2."""
    path = tmp_path / "topology.yml"
    path.write_text("nodePools:\n  a: {gpuProduct: x}\n  b: {gpuCount: 1}\n")
    for extra in ([], ["--check"]):
        with pytest.raises(SystemExit) as ended:
            main(["serve", "--topology", str(path), *extra])
        assert ended.value.code == 2
        lines = capsys.readouterr().err.splitlines()
        assert [line.split(": ")[0] for line in lines] == [f"{path}:2", f"{path}:3"]
    with pytest.raises(SystemExit):
        main(["serve", "--topology", "", "--check"])
    assert "--topology: is empty: give the path of a file" in capsys.readouterr().err


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check names the topology, and has a note for each product that the catalog lacks."""
    path = tmp_path / "topology.yml"
    path.write_text(POOLS)
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--topology", str(path), "--check"])
    out, notes = capsys.readouterr()
    assert (ended.value.code, out) == (0, f"{path}: good\n")
    assert notes == f"note: {path}:5: 'Tesla-K80' is not in the catalog: it behaves as Tesla T4 (t4-16gb) does\n"


def reloaded(app: MemoryApplication) -> Answer:
    """The answer to a request to read the configuration again."""
    peer = app.http()
    peer.send(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    app.tick()
    peer.read()
    (answer,) = answers(peer.transport.value())
    return answer
