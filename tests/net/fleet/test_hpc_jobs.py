"""The folder with the jobs of GPUs: followed, and written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, execute
from twisted.internet.task import Clock

from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.exposition.label_cache import LabelCache
from fakedev.exposition.page import Page
from fakedev.exposition.sources import DeviceSource
from fakedev.net.fleet.hpc_jobs import HpcJobFolder, read_jobs
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.lines.fair_share import FairShare
from fakedev.sim.fleet import Fleet
from tests.support.configurations import loaded, problems
from tests.support.fleets import start, stop

CONFIGURATION = """
fleet: {pools: [{name: p, nodes: [a], device: h100, devices-per-node: 3, identity: own.yaml}]}
web: []
workloads: {listen: []}
"""
OWN = "name: own\nbased-on: dcgm\nshared-devices: each\n"


def at_once(work: Callable[[], Any]) -> Deferred[Any]:
    """In place of a thread."""
    return execute(work)


class Scene:
    """A node of three GPUs, and a folder."""

    def __init__(self, folder: Path, is_written: bool = False) -> None:
        configuration = loaded(CONFIGURATION, {"own.yaml": OWN})
        self.identity = configuration.identities["p"]
        self.fleet = Fleet(configuration.fleet)
        self.clock = Clock()
        self.folder = folder
        hub = WorkloadHub(self.fleet, FairShare(self.clock))
        self.service = HpcJobFolder(hub, str(folder), "a", is_written, 30.0, self.clock, at_once)
        self.service.startService()

    def later(self) -> None:
        """One interval later, and a tick."""
        self.clock.advance(30)
        self.fleet.advance()

    def shown(self, *names: str) -> list[tuple[str, ...]]:
        """Some labels of each row of a family; empty for those that a row does not have."""
        page = Page(LabelCache(self.identity, DeviceSource(self.fleet, self.identity.shared_devices)),
                    self.fleet.roster.nodes).render(self.fleet.state).decode()
        rows = [line for line in page.splitlines() if line.startswith("DCGM_FI_DEV_GPU_TEMP{")]
        return [tuple((row.partition(f'{name}="')[2].partition('"')[0]) for name in names) for row in rows]


def test_jobs_of_a_folder(tmp_path: Path) -> None:
    """A row for each job of a GPU, by index or UUID; they come and go with the files, at each interval."""
    scene = Scene(tmp_path / "jobs")
    scene.fleet.advance()
    assert scene.shown("gpu", "hpc_job") == [("0", ""), ("1", ""), ("2", "")]
    scene.folder.mkdir()
    uuid = scene.fleet.facts(scene.fleet.roster.nodes[0])[2]["uuid"]
    (scene.folder / "0").write_text("17\n18\n17\n\n")
    (scene.folder / f"GPU-{uuid}").write_text("19")
    for name in ("7", "notes", ".hidden"):
        (scene.folder / name).write_text("no GPU")
    scene.later()
    assert scene.shown("gpu", "hpc_job") == [("0", "17"), ("0", "18"), ("1", ""), ("2", "19")]
    (scene.folder / "0").write_text("18\n")
    (scene.folder / f"GPU-{uuid}").unlink()
    scene.later()
    assert scene.shown("gpu", "hpc_job") == [("0", "18"), ("1", ""), ("2", "")]
    assert [entry.spec.name for entry in scene.fleet.workloads.by_id.values()] == ["hpc-job"]


def test_jobs_and_pods(tmp_path: Path) -> None:
    """A row for each pod and each job, with the labels of both."""
    scene = Scene(tmp_path)
    (tmp_path / "0").write_text("17\n18\n")
    start(scene.fleet, "a/0", pod="one")
    scene.later()
    assert scene.shown("pod", "hpc_job")[:2] == [("one", "17"), ("one", "18")]
    stop(scene.fleet, "w1")
    scene.later()
    assert scene.shown("pod", "hpc_job")[:2] == [("", "17"), ("", "18")]


def test_a_pod_with_a_job_of_its_own(tmp_path: Path) -> None:
    """No series is there twice: the pod's own label wins."""
    scene = Scene(tmp_path)
    (tmp_path / "0").write_text("17\n18\n")
    start(scene.fleet, "a/0", pod="one", labels={"hpc_job": "9"})
    scene.later()
    assert scene.shown("pod", "hpc_job")[:2] == [("one", "9"), ("", "")]


def test_files_of_workloads(tmp_path: Path) -> None:
    """Written for workloads with the label, changed and removed with them; what others keep there stays."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "2").write_text("of an earlier run\n")
    (folder / "notes").write_text("mine")
    scene = Scene(folder, is_written=True)
    start(scene.fleet, "a/[0-1]", labels={"hpc_job": "21"})
    start(scene.fleet, "a/1", labels={"hpc_job": "22"})
    scene.fleet.advance()
    scene.later()
    assert read_jobs(str(folder)) == {"0": ("21",), "1": ("21", "22"), "notes": ("mine",)}
    stop(scene.fleet, "w1")
    scene.fleet.advance()
    scene.later()
    assert read_jobs(str(folder)) == {"1": ("22",), "notes": ("mine",)}


def test_bounds(tmp_path: Path) -> None:
    """Of a file 64 KiB and 64 jobs count; a folder that is missing has no jobs."""
    (tmp_path / "0").write_bytes(b"".join(b"job-%d\n" % number for number in range(100_000)))
    (tmp_path / "1").write_bytes(b"\xff\xfe")
    jobs = read_jobs(str(tmp_path))
    assert (len(jobs["0"]), jobs["1"]) == (64, ("\ufffd\ufffd",))
    assert read_jobs(str(tmp_path / "none")) == {}


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    """It is told once, with its name; when there is a folder, its jobs are shown."""
    path = tmp_path / "jobs"
    path.write_text("")
    scene = Scene(path)
    scene.later()
    assert scene.service.trouble.startswith(str(path))
    path.unlink()
    path.mkdir()
    (path / "0").write_text("5")
    scene.later()
    assert (scene.shown("hpc_job")[0], scene.service.trouble) == (("5",), "")


def test_a_job_that_cannot_be_shown(tmp_path: Path) -> None:
    """It is told once with its file, and the others are shown."""
    scene = Scene(tmp_path)
    (tmp_path / "0").write_text("x" * 2000 + "\n17\n")
    scene.later()
    first = scene.service.trouble
    assert first.startswith(f"{tmp_path}/0: the job 'xxxx")
    scene.later()
    assert scene.service.trouble == first
    assert scene.shown("hpc_job")[0] == ("17",)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("{folder: jobs}", ("/conf/jobs", "a", False, 30.0)),
        ("{folder: /x, node: a, from: workloads, every: 5s}", ("/x", "a", True, 5.0)),
    ],
)
def test_in_the_configuration(given: str, expected: tuple[object, ...]) -> None:
    """A folder relative to the file, the first node, followed every 30 s."""
    jobs = loaded(f"{CONFIGURATION}hpc-jobs: {given}\n", {"own.yaml": OWN}).hpc_jobs
    assert jobs is not None
    assert (jobs.folder, jobs.node, jobs.is_written, jobs.every_seconds) == expected


def test_no_such_node() -> None:
    """An error at its line."""
    text = f"{CONFIGURATION}hpc-jobs:\n  folder: x\n  node: ab\n"
    assert problems(text, {"own.yaml": OWN}) == ["f.yaml:7: node: no node 'ab'; did you mean 'a'?"]


def test_without() -> None:
    """There is no folder."""
    assert load(None, Files(environ={}), text="web: []").hpc_jobs is None
