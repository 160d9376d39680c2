"""Every web path of fakedev, declared once: the web tree, links, statistics and documents are made from these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

_PAGE: Final = ("limit", "offset")
#: What every collection takes after the ``?``.
_LIST: Final = ("search", "sort", *_PAGE)
#: The keys of ``sort`` for lists of pods and nodes that answered requests, in addition to their names.
_ANSWERS: Final = ("answers", "failures", "last-error", "run-mean", "run-p50", "run-p99", "run-max")


@dataclass(frozen=True)
class WebPath:
    """One path, with what it takes.

    :param template: the path; parts in capitals are placeholders for names and numbers.
    :param summary: the content, in some words.
    :param query: the keys that GET takes after the ``?``.
    :param methods: HEAD goes with GET.
    :param in_metrics: also at addresses with ``serve: metrics``, else only at those with ``serve: all``.
    :param is_linked: on the start page of addresses with ``serve: metrics``.
    :param search: of a collection: in what ``search`` looks for a text, in words.
    :param sort: of a collection: the keys of ``sort``.
    """

    template: str
    summary: str
    query: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("GET",)
    in_metrics: bool = False
    is_linked: bool = False
    search: str = ""
    sort: tuple[str, ...] = ()

    def at(self, **names: object) -> str:
        """The path with names, without slashes, in place of the parts in capitals."""
        return self.braced.format(**names)

    @cached_property
    def braced(self) -> str:
        """The path with its parts in capitals in braces, as OpenAPI writes it."""
        return "/".join(f"{{{part}}}" if part.isupper() else part for part in self.template.split("/"))

    @property
    def fixed(self) -> str:
        """The path before its first part in capitals: there is the resource that finds the rest."""
        parts = self.template.split("/")
        return "/".join(parts[: next((place for place, part in enumerate(parts) if part.isupper()), len(parts))])


START: Final = WebPath("/", "the web page, or links", in_metrics=True)
METRICS: Final = WebPath(
    "/metrics", "the whole fleet, or the node that the Host header names", in_metrics=True, is_linked=True
)
NODE_METRICS: Final = WebPath("/nodes/NODE/metrics", "one node", in_metrics=True, is_linked=True)
DISCOVERY: Final = WebPath("/sd", "HTTP service discovery", ("pool", "shard"), in_metrics=True, is_linked=True)
HEALTH: Final = WebPath("/health", "whether the simulation runs", in_metrics=True, is_linked=True)
#: Other names of HEALTH.
HEALTH_ALIASES: Final = tuple(
    WebPath(template, HEALTH.summary, in_metrics=True) for template in ("/healthz", "/livez", "/-/healthy")
)
READY: Final = tuple(
    WebPath(template, "whether new work is taken", in_metrics=True) for template in ("/readyz", "/-/ready")
)
QUEUE_METRICS: Final = WebPath("/queues/metrics", "the work queues", in_metrics=True, is_linked=True)
WORKLOAD_METRICS: Final = WebPath("/workloads/metrics", "each workload")
VLLM_METRICS: Final = WebPath(
    "/cluster/vllm", "the inference engines of the cluster, as vLLM shows itself", in_metrics=True
)
OWN_METRICS: Final = WebPath("/-/metrics", "fakedev itself", ("name[]",))
RELOAD: Final = WebPath("/-/reload", "reads the configuration again", methods=("POST",))
#: As the topology server of fake-gpu-operator; only where its compatibility is on.
TOPOLOGY: Final = WebPath("/topology", "the pools as fake-gpu-operator describes them", in_metrics=True)
NODE_TOPOLOGY: Final = WebPath("/topology/nodes/NODE", "one node and who uses its GPUs, the same way", in_metrics=True)
TESTER: Final = tuple(
    WebPath(f"/tester/{name}", summary)
    for name, summary in (
        ("fails", "the number of failed requests"),
        ("nodes", "the answers by node and device"),
        ("parallel", "the number of parallel requests"),
        ("parallelism", "the same; the original also resets the statistics"),
        ("pods", "the answers by pod"),
        ("reqs-per-sec", "successful requests per second"),
        ("reqs-per-seq", "the same"),
        ("reset", "refused, with the request that resets the statistics"),
        ("stats", "all statistics of the load"),
    )
)

API: Final = "/api/v1"
WORKLOADS: Final = WebPath(
    f"{API}/workloads", "the workloads; starts one", _LIST, ("GET", "POST"),
    search="id, name, pod, namespace, container, device words",
    sort=("id", "name", "pod", "device-count", "load-percent", "run-seconds", "remaining-seconds"),
)  # fmt: skip
WORKLOAD: Final = WebPath(f"{API}/workloads/ID", "one workload, also by name; stops it", methods=("GET", "DELETE"))
ENDED_WORKLOADS: Final = WebPath(
    f"{API}/ended-workloads", "the workloads that ended last, newest first", _LIST,
    search="all values",
    sort=("id", "name", "pod", "code", "text", "cause", "ended-tick"),
)  # fmt: skip
ENDED_WORKLOAD: Final = WebPath(f"{API}/ended-workloads/ID", "one workload that has ended, also by name")
FAULTS: Final = WebPath(
    f"{API}/faults", "the faults; injects one; clears all", ("devices", *_LIST), ("GET", "POST", "DELETE"),
    search="id, kind, device words, node, metric",
    sort=("id", "kind", "state", "active-devices", "device-count", "remaining-seconds"),
)  # fmt: skip
FAULT: Final = WebPath(f"{API}/faults/ID", "one fault; clears it", methods=("GET", "DELETE"))
PAST_FAULTS: Final = WebPath(
    f"{API}/past-faults", "the last faults that are over, newest first", _LIST,
    search="all values",
    sort=("id", "kind", "affected", "since-seconds", "ended-tick"),
)  # fmt: skip
PAST_FAULT: Final = WebPath(f"{API}/past-faults/ID", "one fault that is over")
FAULT_KINDS: Final = WebPath(f"{API}/fault-kinds", "the kinds of faults with their parameters")
WHY: Final = WebPath(f"{API}/why", "why something is as it is, in lines", ("of", "metric"))
EXPORTERS: Final = WebPath(f"{API}/exporters", "the addresses that imitate exporters, with the age of what they show")
JOURNAL: Final = WebPath(
    f"{API}/journal", "the last events, newest first", ("kind", "devices", "node", "since", *_LIST),
    search="kind, scope, cause, text, devices",
    sort=("tick", "kind", "scope", "cause", "text"),
)  # fmt: skip
DEVICES: Final = WebPath(
    f"{API}/devices", "the devices with all their quantities", ("node", *_LIST),
    search="device, type, pool",
    sort=("device", "type", "usage_ratio", "memory_used_bytes", "power_watts", "temperature_celsius"),
)  # fmt: skip
DEVICE: Final = WebPath(f"{API}/devices/NODE/INDEX", "one device, and why it shows what it shows", ("metric",))
PART: Final = WebPath(f"{API}/devices/NODE/INDEX/PART", "one part of a device", ("metric",))
PARTS: Final = WebPath(f"{API}/devices/NODE/INDEX/parts", "the parts of a device")
LINKS: Final = WebPath(f"{API}/devices/NODE/INDEX/link", "the links of a device")
LINK: Final = WebPath(f"{API}/devices/NODE/INDEX/link/NUMBER", "one link of a device", ("metric",))
DEVICE_HISTORY: Final = WebPath(f"{API}/devices/NODE/INDEX/history", "the last ticks of a device", ("seconds",))
HISTORY: Final = WebPath(
    f"{API}/history", "the last ticks of the fleet, or of some devices", ("seconds", "devices", "quantity")
)
FIND: Final = WebPath(f"{API}/find", "the devices that a text finds, for the web page", ("text",))
STREAM: Final = WebPath(f"{API}/stream", "the fleet live, as server-sent events")
NODES: Final = WebPath(
    f"{API}/nodes", "the nodes", ("pool", *_LIST),
    search="node, pool, device type, identity",
    sort=("node", "pool", "device-type", "devices", "identity"),
)  # fmt: skip
NODE: Final = WebPath(f"{API}/nodes/NODE", "one node with its topology")
RACKS: Final = WebPath(
    f"{API}/racks", "the racks", _LIST, search="rack, pool",
    sort=("rack", "pool", "power-watts", "return-celsius", "limited", "unhealthy"),
)  # fmt: skip
RACK_ITEM: Final = WebPath(f"{API}/racks/RACK", "one rack with its trays")
IDENTITIES: Final = WebPath(f"{API}/identities", "the identities that the fleet shows")
QUEUES: Final = WebPath(
    f"{API}/queues", "the work queues", _LIST,
    search="queue, state",
    sort=(
        "queue", "state", "waiting", "running", "oldest-seconds", "workers-idle", "workers-busy",
        "arrivals-per-second", "services-per-second", "put", "success", "failure", "timeout", "lost", "buried",
    ),
)  # fmt: skip
QUEUE: Final = WebPath(f"{API}/queues/NAME", "one work queue")
QUEUE_HISTORY: Final = WebPath(f"{API}/queues/NAME/history", "the last hour of a queue", ("seconds",))
LOAD: Final = WebPath(f"{API}/tester", "the load with its plans; changes it", _PAGE, ("GET", "POST"))
LOAD_PLAN: Final = WebPath(f"{API}/tester/PLAN", "one plan with its statistics", _PAGE)
LOAD_TIMELINE: Final = WebPath(f"{API}/tester/PLAN/timeline", "the load since the last reset, for charts")
LOAD_NODES: Final = WebPath(
    f"{API}/tester/PLAN/nodes", "the answers of a plan by node", _LIST,
    search="node, last error",
    sort=("node", *_ANSWERS),
)  # fmt: skip
LOAD_DEVICES: Final = WebPath(
    f"{API}/tester/PLAN/devices", "the answers of a plan by device", _LIST,
    search="device, last error",
    sort=("device", *_ANSWERS),
)  # fmt: skip
LOAD_PODS: Final = WebPath(
    f"{API}/tester/PLAN/pods", "the answers of a plan by pod", _LIST,
    search="pod, last error",
    sort=("pod", *_ANSWERS),
)  # fmt: skip
CLOCK: Final = WebPath(
    f"{API}/clock", "the simulated clock; advances it, changes its speed", methods=("GET", "POST", "PATCH")
)
RESET: Final = WebPath(
    f"{API}/reset", "lets the fleet begin again with its configuration; the clock goes on", methods=("POST",)
)
SCENARIO: Final = WebPath(f"{API}/scenario", "the scenario that is played: what has happened, and what will")
OCCURRENCES: Final = WebPath(
    f"{API}/scenario/occurrences", "all occurrences of the scenario", _LIST,
    search="name, words, devices, node, state, problem",
    sort=("seconds", "name", "kind", "words", "state", "lasts-seconds"),
)  # fmt: skip
OPENAPI: Final = WebPath(f"{API}/openapi.json", "the API as OpenAPI 3.1")

#: Those that are lists of any length: they can be searched, sorted and read page by page.
COLLECTIONS: Final = (
    WORKLOADS, ENDED_WORKLOADS, FAULTS, PAST_FAULTS, JOURNAL, DEVICES, NODES, RACKS, QUEUES, LOAD_NODES, LOAD_DEVICES,
    LOAD_PODS, OCCURRENCES,
)  # fmt: skip
#: All of them, but for the files of the web page, which are below /page.
WEB_PATHS: Final = (
    START, METRICS, NODE_METRICS, DISCOVERY, HEALTH, *HEALTH_ALIASES, *READY, QUEUE_METRICS, WORKLOAD_METRICS,
    VLLM_METRICS, OWN_METRICS, RELOAD, TOPOLOGY, NODE_TOPOLOGY, *TESTER, WORKLOADS, WORKLOAD, ENDED_WORKLOADS,
    ENDED_WORKLOAD, FAULTS, FAULT, PAST_FAULTS, PAST_FAULT, FAULT_KINDS, WHY, EXPORTERS, JOURNAL,
    DEVICES, DEVICE, PART, PARTS, LINKS, LINK, DEVICE_HISTORY, HISTORY, FIND, STREAM, NODES, NODE, RACKS, RACK_ITEM,
    IDENTITIES, QUEUES, QUEUE, QUEUE_HISTORY, LOAD, LOAD_PLAN, LOAD_TIMELINE, LOAD_NODES, LOAD_DEVICES,
    LOAD_PODS, CLOCK, RESET, SCENARIO, OCCURRENCES, OPENAPI,
)  # fmt: skip
#: The first parts of paths; the pages of a configuration must begin with other parts.
FIRST_PARTS: Final = frozenset(path.template.split("/")[1] for path in WEB_PATHS if path is not START)
