"""5,000 nodes in a real cluster: etcd, API server and scheduler of ``KUBEBUILDER_ASSETS``, four shards that follow it.

The API server treats them as it treats any service account: with the Roles of etc/kubernetes and its default limits.
Kubelets or KWOK are a thread here, which starts the pods that the scheduler has bound.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from signal import SIGKILL
from statistics import median, quantiles
from time import monotonic, sleep
from typing import Any
from urllib.request import Request, urlopen

from programs import HERE, Program, fakedev
from results import Section, Target

sys.path.insert(0, str(HERE.parent))

from fakedev.fleet.spec.limits import shard_number
from tests.support.kube.control_plane import ADMIN, ASSETS, ControlPlane, assets_folder
from tests.support.kube.manifests import MANIFESTS, objects_of

_NODES = int(os.environ.get("BENCH_NODES", "5000"))
_SHARDS = 4
_TITLE = f"Kubernetes: {_NODES:,} nodes of a real cluster in {_SHARDS} shards"
_FAULTS = _NODES // 10
_CHURN_SECONDS = 180
_PODS_PER_SECOND = 20_000 / 3600
_POD_SECONDS = 60.0
_QUIET_SECONDS = 60.0
#: Nodes that report a second: kubelets do so every 5 minutes while nothing changes.
_BEATS_PER_SECOND = _NODES / 300
_GPU = "nvidia.com/gpu"
_RULES = ("Namespace", "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
_IMAGES = [{"names": [f"registry.example/image-{each}@sha256:{each:064x}"], "sizeBytes": each} for each in range(40)]
_PODS_PATH = "/api/v1/namespaces/research/pods"
_MERGE = "application/merge-patch+json"


class Api:
    """The administrator's requests, a connection for each thread."""

    def __init__(self, plane: ControlPlane) -> None:
        self._address = plane.url.removeprefix("https://")
        self._context = ssl.create_default_context(cadata=plane.authority.pem)
        self._own = threading.local()

    def do(self, verb: str, path: str, body: object = None, content: str = "application/json") -> Any:
        """The answer of one request, from JSON if it is an object.

        :raises RuntimeError: for another code than 2xx.
        """
        for attempt in range(3):
            try:
                return self._do(verb, path, body, content)
            except OSError:  # the server has closed an idle connection
                self._own.connection = None
                if attempt == 2:
                    raise

    def _do(self, verb: str, path: str, body: object, content: str) -> Any:
        answer = self._sent(self._connection(), verb, path, body, content)
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{verb} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text) if text[:1] == b"{" else text.decode()

    def watch(self, path: str) -> Iterator[Any]:
        """The events of all objects there are and will be, over a connection of its own; begun again when it ends."""
        while True:
            with suppress(OSError, HTTPException):
                connection = HTTPSConnection(self._address, context=self._context)
                for line in self._sent(connection, "GET", f"{path}&watch=1&resourceVersion=0", None, ""):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        print(f"{path}: {event['object']}", file=sys.stderr, flush=True)
                        break
                    yield event
            sleep(1)

    def _connection(self) -> HTTPSConnection:
        if getattr(self._own, "connection", None) is None:
            self._own.connection = HTTPSConnection(self._address, context=self._context, timeout=120)
        return self._own.connection  # type: ignore[no-any-return]

    def _sent(self, connection: HTTPSConnection, verb: str, path: str, body: object, content: str) -> Any:
        headers = {"Authorization": f"Bearer {ADMIN}"} | ({"Content-Type": content} if content else {})
        connection.request(verb, path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()


@dataclass
class _Seen:
    """What the API server has shown, by the clock of this process.

    :ivar ready, allocatable: when a node had GPUs first; how many it has, and since when.
    :ivar bound, recorded: the node of each pod, and when the scheduler said so; when it had its annotation.
    :ivar events: when a node had its first Event of a fault.
    """

    ready: dict[str, float] = field(default_factory=dict)
    allocatable: dict[str, tuple[str, float]] = field(default_factory=dict)
    bound: dict[str, tuple[str, float]] = field(default_factory=dict)
    recorded: dict[str, float] = field(default_factory=dict)
    events: dict[str, float] = field(default_factory=dict)


class RealCluster:
    """The cluster, and what its nodes do."""

    def __init__(self, plane: ControlPlane, version: str) -> None:
        self.plane, self.version = plane, version
        self.api = Api(plane)
        self.seen = _Seen()
        self.pool = ThreadPoolExecutor(16)
        for item in objects_of((MANIFESTS / "mock.yaml").read_text()):
            if item["kind"] in _RULES:
                self.api.do("POST", _path_of(item), item)
        self.api.do("POST", "/api/v1/namespaces", _object("Namespace", "research"))
        for watch in (self._watch_nodes, self._watch_pods, self._watch_events):
            threading.Thread(target=watch, daemon=True).start()

    def add_nodes(self, count: int) -> None:
        """Nodes of the pool, as long as real ones."""
        quantities = {"cpu": "96", "memory": "1Ti", "pods": "110"}

        def add(number: int) -> None:
            name = f"node-{number}"
            node = _object("Node", name, labels={"fakedev/pool": "h100", "kubernetes.io/hostname": name},
                           annotations={"kwok.x-k8s.io/node": "fake"})  # fmt: skip
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            node["status"] = {"capacity": quantities, "allocatable": quantities, "images": _IMAGES,
                              "conditions": [ready]}  # fmt: skip
            self.api.do("POST", "/api/v1/nodes", node)

        list(self.pool.map(add, range(count)))

    def add_pod(self, name: str) -> None:
        """A pod with two GPUs, for the scheduler."""
        pod = _object("Pod", name, namespace="research")
        resources = {"limits": {_GPU: "2"}}
        pod["spec"] = {"containers": [{"name": "main", "image": "busybox", "resources": resources}]}
        self.api.do("POST", _PODS_PATH, pod)

    def remove_pod(self, name: str) -> None:
        self.api.do("DELETE", f"{_PODS_PATH}/{name}?gracePeriodSeconds=0")

    def beat(self, seconds: float) -> None:
        """Some time in which nodes report in turn that they are well."""
        end, number = monotonic() + seconds, 0
        while monotonic() < end:
            now = f"2026-11-27T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
            conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}]
            patch = {"status": {"conditions": conditions}}
            self.api.do("PATCH", f"/api/v1/nodes/node-{number % _NODES}/status", patch, _MERGE)
            number += 1
            sleep(1 / _BEATS_PER_SECOND)

    def requests(self) -> Counter[str]:
        """The API server's own count of changes, by verb, resource and subresource."""
        found: Counter[str] = Counter()
        for line in self.api.do("GET", "/metrics").splitlines():
            if line.startswith("apiserver_request_total{"):
                labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
                key = f"{labels['verb']} {labels['resource']}/{labels['subresource']}"
                key += "" if labels["code"].startswith("2") else f" {labels['code']}"
                found[key] += int(float(line.split()[-1]))
        return found

    def held(self) -> dict[str, tuple[str, str]]:
        """The node and the annotation with the devices of each pod, by name."""
        found = {}
        for pod in self.api.do("GET", _PODS_PATH)["items"]:
            metadata = pod["metadata"]
            recorded = metadata.get("annotations", {}).get("fakedev/devices", "")
            found[metadata["name"]] = pod["spec"].get("nodeName", ""), recorded
        return found

    def _watch_nodes(self) -> None:
        for each in self.api.watch("/api/v1/nodes?timeoutSeconds=86400"):
            name, now = each["object"]["metadata"]["name"], monotonic()
            count = each["object"]["status"].get("allocatable", {}).get(_GPU, "")
            if count:
                self.seen.ready.setdefault(name, now)
            if self.seen.allocatable.get(name, ("", 0.0))[0] != count:
                self.seen.allocatable[name] = count, now

    def _watch_pods(self) -> None:
        for each in self.api.watch("/api/v1/pods?fieldSelector=spec.nodeName!%3D&timeoutSeconds=86400"):
            pod = each["object"]
            name = pod["metadata"]["name"]
            if each["type"] == "ADDED" and name not in self.seen.bound:
                self.seen.bound[name] = pod["spec"]["nodeName"], monotonic()
                self.pool.submit(self._run, name)
            elif "fakedev/devices" in pod["metadata"].get("annotations", {}):
                self.seen.recorded.setdefault(name, monotonic())

    def _run(self, name: str) -> None:
        status = {"status": {"phase": "Running", "startTime": "2026-11-27T00:00:00Z"}}
        with suppress(RuntimeError):  # it is deleted meanwhile
            self.api.do("PATCH", f"{_PODS_PATH}/{name}/status", status, _MERGE)

    def _watch_events(self) -> None:
        for each in self.api.watch("/api/v1/events?timeoutSeconds=86400"):
            event = each["object"]
            if event.get("reason") == "DeviceUnhealthy":
                self.seen.events.setdefault(event["involvedObject"]["name"], monotonic())


def _object(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}


def _path_of(item: Mapping[str, Any]) -> str:
    group = item["apiVersion"]
    namespace = item["metadata"].get("namespace")
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"/{'apis' if '/' in group else 'api'}/{group}{inside}/{item['kind'].lower()}s"


@contextmanager
def real_cluster(assets: Path) -> Iterator[RealCluster]:
    """etcd, API server and scheduler, with their logs in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        plane = ControlPlane(assets, folder)

        def start(command: list[str]) -> None:
            with open(folder / f"{Path(command[0]).name}.log", "wb") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
            stack.callback(process.wait)
            stack.callback(process.kill)  # the API server would wait a minute for its watches

        start(plane.etcd())
        start(plane.api_server())
        _wait(lambda: Api(plane).do("GET", "/readyz") == "ok", 240)
        start(plane.scheduler())
        yield RealCluster(plane, Api(plane).do("GET", "/version")["gitVersion"])


def _wait(is_so: Callable[[], bool], seconds: float, every: float = 0.2) -> float:
    """Wait; how long it took.

    :raises RuntimeError: when it takes longer.
    """
    began = monotonic()
    while monotonic() < began + seconds:
        with suppress(OSError, RuntimeError):
            if is_so():
                return monotonic() - began
        sleep(every)
    raise RuntimeError(f"not so after {seconds:.0f} s")


def _following(cluster: RealCluster, shard: int) -> str:
    pool = "{name: h100, nodes: cluster, device: h100, devices-per-node: 8, identity: dcgm}"
    return f"""
version: 1
fleet: {{seed: 7, pools: [{pool}], shard: {shard}/{_SHARDS}}}
web: ["127.0.0.1:0"]
workloads: {{listen: []}}
kubernetes: {{kubeconfig: {cluster.plane.service_kubeconfig}, namespace: fakedev}}
log: {{level: warn}}
"""


def real_shards() -> Section:
    """All figures, of one cluster."""
    assets = assets_folder()
    if assets is None:
        text = f"{ASSETS} names no folder with etcd, kube-apiserver and kube-scheduler: not measured."
        return Section(_TITLE, text, ["measured"])
    with real_cluster(assets) as cluster:
        section = Section(
            _TITLE,
            f"""
Nodes of 8 H100s, a real etcd, kube-apiserver and kube-scheduler {cluster.version} with their default limits, TLS,
the Roles of etc/kubernetes, and {_SHARDS} processes at the default of 50 requests a second each. Made by
`{ASSETS}=FOLDER python benchmarks/run.py --write kubernetes-real`. A thread of the benchmark stands for KWOK: it starts
the pods that the scheduler has bound, and reports that nodes are well. All of it shares the cores of this machine.
*Nodes with GPUs* counts from the start of the shards, which find the nodes there. *Churn*: pods of 2 GPUs, each deleted
after {_POD_SECONDS:.0f} s; *bound to pages* is from the scheduler's event to the first page with the pod's name, pages
are read twice a second. *Fault*: XID 79 on a board of one node in ten; until the last has it, from the request.
*kill -9*: of one shard while pods run, and its next start with another name (the lease must run out).

Measured on {datetime.now(UTC):%Y-%m-%d}; load average when it began: {os.getloadavg()[1]:.0f}; nice {os.nice(0)}.
""",
            ["measured"],
        )
        empty = _empty(cluster)
        cluster.add_nodes(_NODES)
        with ExitStack() as stack:
            began = monotonic()
            programs = _started(cluster, stack)
            _first_nodes(section, cluster, programs, began, empty)
            for measure in (_quiet, _churn, _fault, _killed):
                print(f"{measure.__name__} ...", file=sys.stderr, flush=True)
                measure(section, cluster, programs)
    return section


def _started(cluster: RealCluster, stack: ExitStack) -> list[Program]:
    return [stack.enter_context(fakedev(_following(cluster, number)))[0] for number in range(_SHARDS)]


def _empty(cluster: RealCluster) -> int:
    """The memory of a shard without nodes."""
    with fakedev(_following(cluster, 0)) as (program,):
        sleep(5)
        return program.resident_bytes()


def _first_nodes(
    section: Section, cluster: RealCluster, programs: list[Program], began: float, empty: int
) -> None:  # fmt: skip
    _wait(lambda: len(cluster.seen.ready) == _NODES, 300)
    seconds = max(cluster.seen.ready.values()) - began
    section.add("nodes with GPUs, after", f"{seconds:.0f} s", judged=seconds, target=Target(240, unit=" s"))
    sleep(10)
    patches = cluster.requests()["PATCH nodes/status"] / _NODES
    section.add("patches a node", f"{patches:.3f}", judged=patches, target=Target(1))
    others = cluster.requests()["PATCH nodes/"] / _NODES
    section.add("patches a node, of spec and metadata", f"{others:.3f}", judged=others, target=Target(0))
    resident = [program.resident_bytes() for program in programs]
    grown = (sum(resident) - _SHARDS * empty) / _NODES / 1e3
    figures = ", ".join(f"{each / 1e6:.0f}" for each in resident)
    section.add("memory a node", f"{grown:.0f} kB (shards of {figures} MB; one without nodes {empty / 1e6:.0f})",
                judged=grown, target=Target(60, unit=" kB"))  # fmt: skip


def _quiet(section: Section, cluster: RealCluster, programs: list[Program]) -> None:
    for name, wait in (("nothing changes", sleep), ("nodes report every 5 minutes", cluster.beat)):
        before, used = _written(cluster), [program.cpu_seconds() for program in programs]
        wait(_QUIET_SECONDS)
        shares = [(program.cpu_seconds() - was) / _QUIET_SECONDS for program, was in zip(programs, used, strict=True)]
        most = max(shares)
        section.add(f"{name}: CPU of a shard", f"{most:.1%} of a core", judged=most, target=Target(0.02))
        if wait is sleep:
            grown = _written(cluster) - before
            section.add(f"{name}: objects written", f"{grown}", judged=grown, target=Target(0))


def _written(cluster: RealCluster) -> int:
    """Changes of nodes and pods."""
    return sum(count for key, count in cluster.requests().items() if key.startswith(("PATCH nodes", "PATCH pods")))


def _churn(section: Section, cluster: RealCluster, programs: list[Program]) -> None:
    made: dict[str, float] = {}
    removed: set[str] = set()
    shown: dict[str, float] = {}
    stop = threading.Event()
    used = sum(program.cpu_seconds() for program in programs)

    def look() -> None:
        with ThreadPoolExecutor(8) as pool:
            while not stop.wait(0.5):
                list(pool.map(look_at, [name for name in list(cluster.seen.bound) if name not in {*shown, *removed}]))

    def look_at(name: str) -> None:
        node, at = cluster.seen.bound[name]
        if f'pod="{name}"'.encode() in _page(programs, node):
            shown[name] = monotonic() - at

    looker = threading.Thread(target=look)
    looker.start()
    began = monotonic()
    while (now := monotonic()) < began + _CHURN_SECONDS:
        while len(made) < (now - began) * _PODS_PER_SECOND:
            name = f"churn-{len(made)}"
            made[name] = now
            cluster.pool.submit(cluster.add_pod, name)
        for name in [name for name, at in made.items() if at + _POD_SECONDS < now and name not in removed]:
            removed.add(name)
            cluster.pool.submit(cluster.remove_pod, name)
        sleep(0.1)
    share = (sum(program.cpu_seconds() for program in programs) - used) / _CHURN_SECONDS
    sleep(3)
    stop.set()
    looker.join()
    rate = len(cluster.seen.bound) / _CHURN_SECONDS * 3600
    section.add("churn: pods bound an hour", f"{rate:,.0f}", judged=rate, target=Target(19_000, most=False))
    recorded = [at - cluster.seen.bound[name][1] for name, at in cluster.seen.recorded.items()]
    for what, delays in (("to their devices in the API", recorded), ("to pages", [*shown.values()])):
        worst = quantiles(delays, n=100)[98]
        figures = f"p50 {median(delays):.2f} s, p99 {worst:.2f} s, longest {max(delays):.2f} s"
        section.add(f"churn: bound {what}", figures, judged=worst, target=Target(2, unit=" s"))
    section.add("churn: CPU of all shards", f"{share:.1%} of a core")
    never = [name for name in cluster.seen.bound if name not in shown and name not in removed]
    held = {name: each for name, each in cluster.held().items() if name not in removed}
    missing = [name for name, (node, ids) in held.items() if not ids or "null" in ids]
    twice = _twice(held)
    section.add("churn: pods never shown; without annotation; devices held twice",
                f"{len(never)}; {len(missing)} of {len(held)}; {twice}",
                judged=len(never) + len(missing) + twice, target=Target(0))  # fmt: skip


def _twice(held: Mapping[str, tuple[str, str]]) -> int:
    """Devices that more than one pod has."""
    counts = Counter(
        (node, each) for node, ids in held.values() if ids for devices in json.loads(ids).values() for each in devices
    )
    return sum(count > 1 for count in counts.values())


def _fault(section: Section, cluster: RealCluster, programs: list[Program]) -> None:
    struck = [f"node-{number}" for number in range(_FAULTS)]
    began = monotonic()
    for number, program in enumerate(programs):
        names = [name for name in struck if shard_number(name, _SHARDS) == number]
        program.post("/api/v1/faults", {"kind": "xid", "code": 79, "devices": [f"{name}/7" for name in names]})
    first = {shard_number(name, _SHARDS): name for name in reversed(struck)}
    for name in first.values():  # a shard shows all its faults from one tick on
        _wait(partial(_has_xid, programs, name), 60, 0.05)
    shown = monotonic() - began
    with suppress(RuntimeError):
        _wait(lambda: _lower(cluster, struck) == len(struck) and cluster.seen.events.keys() >= {*struck}, 60)
    section.add(f"fault on {len(struck)} nodes: on pages of all shards", f"{shown:.1f} s", judged=shown,
                target=Target(5, unit=" s"))  # fmt: skip
    for what, times in (
        ("in the last node's allocatable", (cluster.seen.allocatable[name][1] - began for name in struck)),
        ("as the last Event", (cluster.seen.events.get(name, began + 999) - began for name in struck)),
    ):
        _fault_row(section, what, len(struck), times)
    missing = [name for name in struck if not _has_xid(programs, name)]
    section.add(f"fault on {len(struck)} nodes: pages that do not show it", f"{len(missing)}", judged=len(missing),
                target=Target(0))  # fmt: skip
    for program in programs:
        urlopen(Request(f"http://{program.web}/api/v1/faults", method="DELETE")).close()
    seconds = _wait(lambda: _lower(cluster, struck) == 0, 60)
    section.add(f"{len(struck)} faults cleared: all allocatable again", f"{seconds:.1f} s")


def _has_xid(programs: list[Program], node: str) -> bool:
    page = _page(programs, node).decode()
    return bool(re.search(r'^DCGM_FI_DEV_XID_ERRORS\{gpu="7".*\} 79$', page, re.MULTILINE))


def _page(programs: list[Program], node: str) -> bytes:
    return programs[shard_number(node, _SHARDS)].get(f"/nodes/{node}/metrics")


def _lower(cluster: RealCluster, names: Iterable[str]) -> int:
    return sum(cluster.seen.allocatable[name][0] == "7" for name in names)


def _fault_row(section: Section, what: str, count: int, times: Iterable[float]) -> None:
    longest = max(times)
    section.add(f"fault on {count} nodes: {what}", f"{longest:.1f} s", judged=longest, target=Target(5, unit=" s"))


def _killed(section: Section, cluster: RealCluster, programs: list[Program]) -> None:
    before = cluster.held()
    patches = _written(cluster)
    os.kill(programs[0].pid, SIGKILL)
    began = monotonic()
    with fakedev(_following(cluster, 0)) as (again,):
        _wait(lambda: bool(again.open("/readyz").status == 200), 120)
        section.add("kill -9 of a shard: the next one is ready after", f"{monotonic() - began:.1f} s")
        sleep(10)
    now = cluster.held()
    moved = sum(now[name] != each for name, each in before.items() if name in now)
    grown = _written(cluster) - patches
    section.add("kill -9: pods moved; patches of nodes and pods", f"{moved} of {len(now)}; {grown}",
                judged=moved, target=Target(0))  # fmt: skip
