"""``fakedev kube``: a plan from files, and what its options and mistakes give."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakedev.commands.main import main
from fakedev.fleet.spec.offers import KubernetesSettings
from tests.support.kube.api_server import node, pod

GPU = "nvidia.com/gpu"
CONFIG = """
fleet:
  seed: 7
  pools: [{name: h100, nodes: cluster, device: h100, devices-per-node: 8, identity: dcgm@4.8.2}]
kubernetes: {}
"""
LABEL = "fakedev/pool"


class Files:
    """Files of a plan, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("my.yaml", CONFIG)
        struck = pod("lazy", "a", {GPU: "1"}, annotations={"run.ai/simulated-gpu-utilization": "much"})
        wanted = (("train", "a", 2), ("xlarge", "a", 6), ("elsewhere", "b", 1))
        pods = [struck, *(pod(name, on, {GPU: str(count)}) for name, on, count in wanted)]
        nodes = [node("a", {LABEL: "h100"}), node("b"), node("c", {LABEL: "h1000"})]
        nodes.append(node("d", {LABEL: "h100"}, has_kubelet=True))
        self.write("nodes.json", json.dumps({"kind": "List", "items": nodes}))
        self.write("pods.json", json.dumps({"kind": "PodList", "items": pods}))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def plan(self, *more: str, pods: bool = True) -> int:
        given = ["--config", str(self.folder / "my.yaml"), "--nodes", str(self.folder / "nodes.json")]
        return main(["kube", "plan", *given, *(["--pods", str(self.folder / "pods.json")] if pods else []), *more])


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_plan_for_people(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes with what would be patched, pods with their devices and work, Events, and nodes with mistakes."""
    assert files.plan() == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert "node a: pool h100, 8 devices, no kubelet: fakedev lists the devices" in lines
    assert "node d: pool h100, 8 devices, its kubelet lists the devices" in lines
    assert "  patch nodes/a/status" in lines
    assert f"    status.capacity.{GPU}: 8" in lines
    assert "    metadata.labels.nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3" in lines
    assert "pod default/train on a" in lines
    (devices,) = [line for line in lines if line.startswith("  container main: ") and line.count("GPU-") == 2]
    assert any(line.startswith("  runs on a/") and "profile" in line for line in lines), devices
    assert any("Event at pod default/lazy: UnreadableAnnotation: " in line and "'much'" in line for line in lines)
    assert any("Event at pod default/xlarge: UnexpectedAdmissionError: " in line for line in lines)
    assert not any("elsewhere" in line for line in lines)
    assert "  no devices" in lines
    (mistake,) = [line for line in lines if line.startswith("node c is not simulated: ")]
    assert "did you mean h100?" in mistake


def test_a_plan_for_programs(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole patches, as they would be sent; the same twice."""
    assert files.plan("--json") == 0
    first = capsys.readouterr().out
    planned = json.loads(first)
    assert set(planned) == {"nodes", "pods", "events", "problems"}
    status = planned["nodes"][0]["patches"]["nodes/a/status"]["status"]
    assert status["allocatable"] == {GPU: "8"}
    of_train = next(each for each in planned["pods"] if each["pod"] == "train")
    assert len(of_train["containers"]["main"]) == 2
    ids = {device["id"] for device in planned["nodes"][0]["devices"]}
    assert set(of_train["containers"]["main"]) < ids
    assert of_train["workloads"][0]["pod"] == "train"
    assert files.plan("--json") == 0
    assert capsys.readouterr().out == first


def test_nodes_without_pods(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods may be left out; a single object is taken like a list."""
    files.write("nodes.json", json.dumps(node("a", {LABEL: "h100"})))
    assert files.plan(pods=False) == 0
    assert "node a: pool h100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", ":1: is no JSON: "),
        ("[]", "is no object of Kubernetes: give the output of `kubectl get nodes -o json`"),
        ('{"items": 3}', "is no object of Kubernetes"),
        ('{"items": [3]}', "item 0: it: must be an object"),
        ('{"items": [{"metadata": {}}]}', "item 0: metadata.name: missing"),
        (json.dumps({"items": [pod("p")]}), "item 0: kind: is Pod, and not Node"),
        ('{"items": [{"metadata": {"name": "n", "labels": 3}}]}', "item 0: metadata.labels: must be an object"),
        ('{"items": [{"metadata": {"name": "n"}, "status": []}]}', "item 0: status: must be an object"),
        ('{"items": [{"metadata": {"name": "n"}, "spec": {"taints": {}}}]}', "item 0: spec.taints: must be a list"),
    ],
)
def test_bad_files(files: Files, text: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    files.write("nodes.json", text)
    assert files.plan(pods=False) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(str(files.folder / "nodes.json"))
    assert reason in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda item: item["spec"].update(containers=3),
        lambda item: item["spec"].update(containers=[3]),
        lambda item: item["spec"]["containers"][0].update(resources=[]),
        lambda item: item["metadata"].update(annotations=[]),
        lambda item: item.update(status="Running"),
    ],
)
def test_bad_pods(files: Files, spoil: Callable[[Any], None], capsys: pytest.CaptureFixture[str]) -> None:
    """A file that no API server has written is told as such."""
    item = pod("train", "a", {GPU: "1"})
    spoil(item)
    files.write("pods.json", json.dumps({"items": [item]}))
    assert files.plan() == 2
    said = capsys.readouterr()
    assert said.err.startswith(str(files.folder / "pods.json"))
    assert said.err.count("\n") == 1


def test_a_missing_file(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    (files.folder / "pods.json").unlink()
    assert files.plan() == 2
    assert capsys.readouterr().err.startswith(str(files.folder / "pods.json"))


def test_options_of_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubeconfig, context and namespace reach the cleaning; --context needs a kubeconfig."""
    given: list[tuple[KubernetesSettings, bool, str]] = []

    def clean(settings: KubernetesSettings, tell: Callable[[str], None], *, is_dry: bool, selector: str) -> int:
        given.append((settings, is_dry, selector))
        return 0

    monkeypatch.setattr("fakedev.kubernetes.cleaning.clean_cluster", clean)
    monkeypatch.chdir(tmp_path)
    assert main(["kube", "clean", "--kubeconfig", "kube", "--context", "c", "--namespace", "gpus", "--dry-run",
                 "--selector", "team=a"]) == 0  # fmt: skip
    ((settings, is_dry, selector),) = given
    assert (settings.kubeconfig, settings.context, settings.namespace) == (str(tmp_path / "kube"), "c", "gpus")
    assert (is_dry, selector) == (True, "team=a")
    with pytest.raises(SystemExit) as ended:
        main(["kube", "clean", "--context", "c"])
    assert ended.value.code == 2


def test_options_of_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its exit code is that of the proof; a wrong duration is refused."""
    given: list[tuple[str, float]] = []

    def prove(settings: KubernetesSettings, show: Callable[[str], None], *, wait_seconds: float) -> int:
        given.append((settings.kubeconfig, wait_seconds))
        return 1

    monkeypatch.setattr("fakedev.kubernetes.cleaning.prove_faults", prove)
    monkeypatch.chdir(tmp_path)
    assert main(["kube", "proof", "--kubeconfig", "kube", "--wait", "1m"]) == 1
    assert given == [(str(tmp_path / "kube"), 60.0)]
    with pytest.raises(SystemExit) as ended:
        main(["kube", "proof", "--wait", "soon"])
    assert ended.value.code == 2
    assert "--wait" in capsys.readouterr().err
