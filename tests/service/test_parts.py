"""The parts of programs: what each provides, the order in which they start and stop, and starts that fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.application.service import IService
from zope.interface.verify import verifyObject

from fakedev.commands.dropins.frontend import FrontendOptions
from fakedev.config.load import load
from fakedev.config.start import record_head
from fakedev.queues.part import make_frontend
from fakedev.runtime.application import Application
from fakedev.runtime.clock import no_op
from fakedev.runtime.part import IPart, IReloadable, Part, parts_of
from fakedev.schema.addresses import parse_listen
from fakedev.schema.files import Files
from fakedev.service.program_run import Run
from fakedev.service.reload import SECTIONS
from fakedev.service.service import PAGE_ORDER, make_application
from fakedev.tester.load_run import LoadRun
from fakedev.tester.part import ClientPart, make_tester
from fakedev.tester.plan import ClosedLoad, Plan
from tests.support.application import SMALL, AppReactor, MemoryApplication, MemoryPort, application
from tests.support.kube.followed import FollowedCluster
from tests.support.logged_errors import LoggedErrors
from tests.support.paths import ROOT

QUEUES = """
queues:
  names: {{q: {{}}, kept: {{durable: FOLDER/log}}}}
  listen-clients: ["127.0.0.1:9997"]
  listen-backends: ["127.0.0.1:9999"]
  log-interval: 60s
"""
#: Every part of a service but a scenario, which has no cluster.
FULL = (
    """
fleet:
  pools: [{{name: h100, nodes: cluster, device: h100, devices-per-node: 8, identity: dcgm@4.8.2{pool}}}]
web: ["127.0.0.1:9400", {{listen: "127.0.0.1:9401", serve: metrics}}]
workloads: {{listen: ["127.0.0.1:9500"]}}
tester:
  plans: [{{name: closed, queue: q, frontend: "127.0.0.1:9", parallel: 2}}]
  reports: [FOLDER/report.json]
journal: {{file: FOLDER/journal}}
state: FOLDER/state
nvml: {{file: FOLDER/map, setters: ["0"]}}
hpc-jobs: {{folder: FOLDER/jobs}}
kubernetes: {{kubeconfig: {kubeconfig}, listen: ["127.0.0.1:9600"]{more}}}
"""
    + QUEUES
)
#: The same without a cluster.
LOCAL = (
    "journal: {file: FOLDER/journal}\nstate: FOLDER/state\nnvml: {file: FOLDER/map, setters: ['0']}\n"
    "hpc-jobs: {folder: FOLDER/jobs, from: workloads}\ntester:\n  reports: [FOLDER/report.json]\n"
    "  plans: [{name: closed, queue: q, frontend: '127.0.0.1:9', parallel: 2}]\n"
) + QUEUES.replace("{{", "{").replace("}}", "}")
CLUSTER = SMALL.replace("nodes: [a, b]", "nodes: cluster")


@pytest.fixture
def full(tmp_path: Path) -> Iterator[FollowedCluster]:
    """A service with every part, and a record."""
    (tmp_path / "jobs").mkdir()
    cluster = FollowedCluster(tmp_path, text=FULL.replace("FOLDER", str(tmp_path)), record=str(tmp_path / "record"))
    cluster.start()
    yield cluster
    if cluster.app.service.running:
        cluster.stop()


def verified(service: Application) -> list[IPart]:
    """The parts of a program; each has what its interfaces say, with the same parameters."""
    parts = parts_of(service)
    for part in parts:
        assert verifyObject(IPart, part)
        assert not IReloadable.providedBy(part) or verifyObject(IReloadable, part)
    return parts


def test_parts_of_a_service(full: FollowedCluster) -> None:
    """Each reloadable one has a section of the configuration; their groups are those of the page."""
    parts = verified(full.app.service)
    assert [part.name for part in parts if IReloadable.providedBy(part)] == list(SECTIONS)
    assert {name for part in parts for name in part.metrics()} == set(PAGE_ORDER)
    assert set(full.app.service.problems()) == {"record", "journal", "state", "nvml"}
    assert list(full.app.service.closed()) == ["workloads", "clients", "backends", "nodes"]
    assert len(full.app.service.listening()) == len(list(full.app.service.listeners)) == 7


def test_parts_of_other_programs() -> None:
    with application(scenario=str(ROOT / "etc/scenarios/heat.yaml")) as app:
        scenario = verified(app.service)
    with application(drop_in=True) as app:
        exporter = verified(app.service)
    options = FrontendOptions()
    frontend = verified(make_frontend(*options.settings(options.flags.parse(["a"])), AppReactor()))
    assert [part.name for part in scenario if part.name == "scenario"] == ["scenario"]
    assert [part.name for part in exporter] == ["fleet", "exporters", "web", "workloads"]
    assert [part.name for part in frontend] == ["web", "queues"]
    reactor = AppReactor()
    run = LoadRun(make_tester([Plan("a", "q", ClosedLoad(1, 1), "127.0.0.1:9")], reactor), reactor, no_op)
    client = ClientPart(run, parse_listen("127.0.0.1:9000"), reactor)
    assert verifyObject(IPart, client)
    assert [service.display for service in client.listeners()] == ["127.0.0.1:9000"]


def test_the_order_of_starts_and_stops(full: FollowedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock first, then what shows it, the addresses before what uses them; they stop the other way round."""
    names = [each.name for each in full.app.service]
    assert names == [
        "fleet", "reload", "exporters", "web-configs", "web", "workloads", "queues", "listeners", "tester", "process",
        "kubernetes", "nvml", "hpc-jobs", "announcement",
    ]  # fmt: skip
    assert next(each.name for each in full.app.service.getServiceNamed("fleet")) == "ticker"
    stopped: list[str] = []
    for service in [*full.app.service]:
        monkeypatch.setattr(service, "stopService", noting(service, stopped))
    full.stop()
    assert stopped == ["listeners", *(name for name in reversed(names) if name != "listeners")]
    ports = ["closed 9600", "closed 9500", "closed 9999", "closed 9997", "closed 9401"]
    assert full.app.reactor.told[1:] == [*ports, "closed 9400"]


def noting(service: IService, stopped: list[str]) -> object:
    """Its stop, which is noted."""
    stop = service.stopService

    def noted() -> object:
        stopped.append(str(service.name))
        return stop()

    return noted


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("journal: {file: FOLDER/none/j}\n", 1, "fakedev: the journal cannot be written: FOLDER/none/j: "),
        ("journal: {file: FOLDER/j}\nstate: /dev/null/s\n", 1, "fakedev: the state cannot be used: /dev/null/s: "),
        ("state: FOLDER/s\nnvml: {file: /dev/null/map}\n", 1, "fakedev: the file for NVML cannot be written: "),
        ("nvml: {file: FOLDER/map, setters: [no-such-user]}\n", 1, "fakedev: the file for NVML cannot be written: "),
        (
            "journal: {file: FOLDER/j}\nstate: FOLDER/s\nnvml: {file: FOLDER/map}\n"
            "kubernetes: {kubeconfig: FOLDER/k}\n", 2, "FOLDER/k: kubeconfig: no such file\n",
        ),
    ],
    ids=["journal", "state", "nvml", "setters", "kubernetes"],
)  # fmt: skip
def test_a_part_that_cannot_be_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, reason: str
) -> None:
    """A line of explanation, the exit code, and nothing is open: neither a file, nor a lock, nor the file for NVML."""
    small = CLUSTER if "kubernetes" in text else SMALL
    before = descriptors()
    with pytest.raises(SystemExit) as ended:
        MemoryApplication(small + text.replace("FOLDER", str(tmp_path)))
    assert ended.value.code == code
    assert capsys.readouterr().err.startswith(reason.replace("FOLDER", str(tmp_path)))
    assert descriptors() == before
    assert not (tmp_path / "map").exists()


def descriptors() -> set[str]:
    """What this process has open."""
    paths = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return {os.readlink(path) for path in paths if os.path.lexists(path)}


@pytest.mark.parametrize(
    ("text", "record", "ready_file", "reason"),
    [
        (LOCAL, "none/record", "", "the record cannot be written: FOLDER/none/record: no such file or folder"),
        (LOCAL.replace("FOLDER/log", "/dev/null"), "record", "", "the log of a queue cannot be used: /dev/null: "),
        (LOCAL, "record", "none/ready", "the ready file FOLDER/none/ready cannot be written"),
    ],
    ids=["record", "queue log", "ready file"],
)  # fmt: skip
def test_a_part_that_cannot_start(
    tmp_path: Path, logged_errors: LoggedErrors, text: str, record: str, ready_file: str, reason: str
) -> None:
    """The exit code is 1; a stop then closes all that was opened, as for a service in the process of a test."""
    files = Files(environ={})
    configuration = load(None, files, text=SMALL + text.replace("FOLDER", str(tmp_path)))
    run = Run(
        record_head(configuration, files), str(tmp_path / record), str(tmp_path / ready_file) if ready_file else "",
        owns_process=False,
    )  # fmt: skip
    before = descriptors()
    reactor = AppReactor()
    service = make_application(configuration, run, reactor)
    service.privilegedStartService()
    with pytest.raises(SystemExit) as ended:
        service.startService()
    assert ended.value.code == 1
    assert str(ended.value).startswith(reason.replace("FOLDER", str(tmp_path)))
    logged_errors.take_critical()
    assert not (tmp_path / "map").exists()
    assert not (tmp_path / "report.json").exists()
    stopped: list[object] = []
    service.stopService().addBoth(stopped.append)
    reactor.pump([0.1] * 30)
    assert (tmp_path / "report.json").exists() == bool(ready_file)  # only then was there a load
    assert (stopped, reactor.ports, reactor.getDelayedCalls()) == ([None], [], [])
    assert descriptors() == before


def test_an_address_that_is_taken(tmp_path: Path, logged_errors: LoggedErrors) -> None:
    """The file for NVML is removed, too, although it is made before the addresses."""
    reactor = AppReactor()
    reactor.listenTCP = taken  # type: ignore[method-assign]
    with pytest.raises(SystemExit):
        MemoryApplication(f"{SMALL}nvml: {{file: {tmp_path}/map}}\n", reactor=reactor)
    assert len(logged_errors.take_critical()) == 1
    assert os.listdir(tmp_path) == []


def taken(port: int, *_: object, **__: object) -> MemoryPort:
    """Another program listens there."""
    raise OSError(errno.EADDRINUSE, "in use")


def test_what_a_part_has_without_more() -> None:
    part = Part("some")
    assert verifyObject(IPart, part)
    assert (part.listeners(), part.metrics(), part.problems()) == ([], {}, {})
    assert (part.unready_reason(), part.drain()) == (None, None)
