"""The folder with the jobs of GPUs: followed, and written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, execute
from twisted.internet.task import Clock

from fakedev.exporters.hpc_jobs import HpcJobFolder, read_jobs
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import WorkloadHub
from fakedev.runtime.turns import FairShare
from tests.support.configurations import loaded, problems
from tests.support.fleet.fleets import start, stop
from tests.support.identities import loaded as identities_loaded

CONFIGURATION = """
fleet: {pools: [{name: p, nodes: [a], device: h100, devices-per-node: 3, identity: own.yaml}]}
web: []
workloads: {listen: []}
"""
OWN = "name: own\nbased-on: dcgm\nshared-devices: each\n"


def at_once(work: Callable[[], Any]) -> Deferred[Any]:
    return execute(work)


#: The second GPU is divided.
DIVIDED = CONFIGURATION.replace("per-node: 3", "per-node: 3, devices: [{index: 1, mig: [3g.40gb, 2g.20gb]}]")


class Scene:
    """A node of three GPUs, and a folder."""

    def __init__(
        self, folder: Path, is_written: bool = False, text: str = CONFIGURATION, is_by_instance: bool = True
    ) -> None:
        configuration = loaded(text, {"own.yaml": OWN})
        self.identity = configuration.identities["p"]
        self.fleet = Fleet(configuration.fleet)
        self.clock = Clock()
        self.folder = folder
        hub = WorkloadHub(self.fleet, FairShare(self.clock))
        self.service = HpcJobFolder(
            hub, str(folder), "a", is_written, 30.0, self.clock, at_once, is_by_instance=is_by_instance,
            is_slurm=self.identity.shows_slurm_jobs,
        )  # fmt: skip
        self.service.startService()

    def later(self) -> None:
        self.clock.advance(30)
        self.fleet.advance()

    def shown(self, *names: str, family: str = "DCGM_FI_DEV_GPU_TEMP") -> list[tuple[str, ...]]:
        """Some labels of each row of a family; empty for those that a row does not have."""
        page = Page(LabelCache(self.identity, DeviceSource(self.fleet, self.identity.shared_devices)),
                    self.fleet.roster.nodes).render(self.fleet.state).decode()
        rows = [line for line in page.splitlines() if line.startswith(f"{family}{{")]
        return [tuple((row.partition(f'{name}="')[2].partition('"')[0]) for name in names) for row in rows]


def test_jobs_of_a_folder(tmp_path: Path) -> None:
    """A row for each job of a GPU, by index or UUID; they come and go with the files, at each interval."""
    scene = Scene(tmp_path / "jobs")
    scene.fleet.advance()
    assert scene.shown("gpu", "hpc_job") == [("0", ""), ("1", ""), ("2", "")]
    scene.folder.mkdir()
    uuid = scene.fleet.labels.facts(scene.fleet.roster.nodes[0])[2]["uuid"]
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


def test_jobs_of_instances(tmp_path: Path) -> None:
    """By the GPU's index and GPU_I_ID; a file of the divided GPU itself, and of an instance it lacks, are notes."""
    scene = Scene(tmp_path, text=DIVIDED)
    first, second = (facts["mig_id"] for _, facts in scene.fleet.labels.part_facts(scene.fleet.roster.nodes[0]))
    (tmp_path / "0").write_text("16")
    (tmp_path / f"1.{first}").write_text("17\n18")
    (tmp_path / f"1.{second}").write_text("19")
    scene.later()
    assert scene.service.problem == ""
    assert scene.shown("gpu", "GPU_I_ID", "hpc_job") == [
        ("0", "", "16"), ("1", first, "17"), ("1", first, "18"), ("1", second, "19"), ("2", "", ""),
    ]  # fmt: skip
    (tmp_path / f"1.{first}").rename(tmp_path / "1")
    scene.later()
    assert scene.shown("gpu", "GPU_I_ID", "hpc_job")[1:3] == [("1", first, ""), ("1", second, "19")]
    assert scene.service.problem == f"{tmp_path}/1: GPU 1 is divided: jobs of its instances are in files as 1.1"
    (tmp_path / "1").rename(tmp_path / "2.7")
    scene.later()
    assert scene.service.problem == f"{tmp_path}/2.7: there is no instance 2.7 (GPU.GPU_I_ID)"


def test_jobs_of_divided_gpus_before(tmp_path: Path) -> None:
    """Up to 4.5.2-4.8.1 all instances have the jobs of their GPU."""
    scene = Scene(tmp_path, text=DIVIDED, is_by_instance=False)
    (tmp_path / "1").write_text("17")
    scene.later()
    assert scene.shown("gpu", "hpc_job") == [("0", ""), ("1", "17"), ("1", "17"), ("2", "")]
    names = {"3.3.9": False, "4.8.1": False, "4.8.2": True, "4.8.3": True}
    assert {name: identities_loaded(f"dcgm@{name}").jobs_of_instances for name in names} == names


def test_jobs_of_amd(tmp_path: Path) -> None:
    """The prolog's JSON: a file for each GPU of the job, each with all of them; without a job the labels are empty."""
    text = CONFIGURATION.replace("h100", "mi300x").replace("own.yaml", "amd-device-metrics")
    scene = Scene(tmp_path, text=text)
    names = ("gpu_id", "job_id", "job_user", "job_partition")

    def shown() -> list[tuple[str, ...]]:
        return [row[:4] for row in scene.shown(*names, family="gpu_power_usage")]

    job = {"SLURM_JOB_ID": "912", "SLURM_JOB_USER": "ann", "SLURM_JOB_PARTITION": "gpu", "CUDA_VISIBLE_DEVICES": "0,2"}
    for name in ("0", "2"):
        (tmp_path / name).write_text(json.dumps(job, indent=1))
    scene.later()
    assert shown() == [("0", "912", "ann", "gpu"), ("1", "", "", ""), ("2", "912", "ann", "gpu")]
    assert len(scene.fleet.workloads.by_id) == 2
    start(scene.fleet, "a/1", labels={"job_id": "913"})
    for name in ("0", "2"):
        (tmp_path / name).unlink()
    (tmp_path / "1").write_text('{"SLURM_JOB_ID": 9')
    scene.later()
    assert shown() == [("0", "", "", ""), ("1", "913", "", ""), ("2", "", "", "")]
    assert scene.service.problem.endswith("/1: is no JSON object of texts, as AMD's Slurm prolog writes it")


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


def test_files_for_amd(tmp_path: Path) -> None:
    """As its prolog writes them: a file for each GPU of the job, each with all of them; they are read as written."""
    text = CONFIGURATION.replace("h100", "mi300x").replace("own.yaml", "amd-device-metrics")
    scene = Scene(tmp_path, is_written=True, text=text)
    start(scene.fleet, "a/[0-1]", labels={"job_id": "9\"1", "job_user": "ann", "job_partition": "gpu"})
    start(scene.fleet, "a/1", labels={"job_id": "92"})
    start(scene.fleet, "a/2", labels={"hpc_job": "93"})
    scene.fleet.advance()
    scene.later()
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == dict.fromkeys(("0", "1"), (
        '{ "SLURM_JOB_ID": "9\\"1", "SLURM_JOB_USER": "ann", "SLURM_JOB_PARTITION": "gpu", "SLURM_CLUSTER_NAME": "", '
        '"SLURM_JOB_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "0,1", "SLURM_SCRIPT_CONTEXT": "prolog_slurmd" }\n'
    ))  # fmt: skip
    other = Scene(tmp_path, text=text)
    other.later()
    assert other.shown("gpu_id", "job_id", "job_user", family="gpu_power_usage") == [
        ("0", "9\\", "ann"), ("1", "9\\", "ann"), ("2", "", "")
    ]  # fmt: skip
    stop(scene.fleet, "w1")
    scene.fleet.advance()
    scene.later()
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    assert '"SLURM_JOB_ID": "92"' in (tmp_path / "1").read_text()


def test_files_of_instances(tmp_path: Path) -> None:
    """Workloads on instances have files of these, which are read as they were written."""
    scene = Scene(tmp_path, is_written=True, text=DIVIDED)
    start(scene.fleet, "a/1/1", labels={"hpc_job": "21"})
    scene.fleet.advance()
    scene.later()
    other = Scene(tmp_path, text=DIVIDED)
    other.later()
    (name,) = read_jobs(str(tmp_path))
    assert [row for row in other.shown("gpu", "GPU_I_ID", "hpc_job") if row[2]] == [(*name.split("."), "21")]


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
    assert scene.service.problem.startswith(str(path))
    path.unlink()
    path.mkdir()
    (path / "0").write_text("5")
    scene.later()
    assert (scene.shown("hpc_job")[0], scene.service.problem) == (("5",), "")


def test_a_job_that_cannot_be_shown(tmp_path: Path) -> None:
    """It is told once with its file, and the others are shown."""
    scene = Scene(tmp_path)
    (tmp_path / "0").write_text("x" * 2000 + "\n17\n")
    scene.later()
    first = scene.service.problem
    assert first.startswith(f"{tmp_path}/0: the job 'xxxx")
    scene.later()
    assert scene.service.problem == first
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
    text = f"{CONFIGURATION}hpc-jobs:\n  folder: x\n  node: ab\n"
    assert problems(text, {"own.yaml": OWN}) == ["f.yaml:7: node: no node 'ab'; did you mean 'a'?"]


def test_without() -> None:
    assert loaded("web: []").hpc_jobs is None
