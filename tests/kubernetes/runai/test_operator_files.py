"""Topologies of fake-gpu-operator: all forms of the file, what they become, and what is said of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.fleet.entities.naming import device_facts
from fakedev.fleet.spec.offers import MigStrategy
from fakedev.kubernetes.runai.operator import Topology
from fakedev.kubernetes.runai.operator_files import folded, read_topology
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError, Report
from tests.support.paths import ROOT

POOLS = """
nodePoolLabelKey: run.ai/simulated-gpu-node-pool
migStrategy: mixed
nodePools:
  default: {gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441, otherDevices: [{name: rdma/hca, count: 2}]}
  big:
    gpuProduct: NVIDIA-A100-SXM4-80GB
    gpuCount: 4
    gpuMemory: 81920
    numa: {zones: 2, gpusPerZone: [3, 1]}
    nodes: 2
"""
#: The same node in the spellings of its versions: the design document, ConfigMaps of 0.0.4, those since 0.0.50.
DESIGN = """
nodes:
  node-a:
    gpu-memory: 11441
    gpu-product: Tesla-K80
    gpus:
      - id: GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1
        metrics: {metadata: {namespace: ns, pod: p, container: c}, utilization: 10, fb-used: 5000}
"""
OLD = """
gpu-memory: 11441
gpu-product: Tesla-K80
gpus:
  - id: GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1
    status:
      allocated-by: {namespace: ns, pod: p, container: c}
      pod-gpu-usage-status: {uid-1: {utilization: {min: 10, max: 10}, fb-used: 5000, use-knative-utilization: false}}
"""
NEW = """
gpuMemory: 11441
gpuProduct: Tesla-K80
gpus:
  - id: GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1
    status:
      allocatedBy: {namespace: ns, pod: p, container: c}
      podGpuUsageStatus: {uid-1: {utilization: {min: 10, max: 10}, fbUsed: 5000, useKnativeUtilization: false}}
migStrategy: none
"""


def read(text: str, file: str = "topology.yml") -> Topology:
    """The topology of a good text."""
    report = Report()
    loaded = read_topology(text, file, report)
    assert loaded is not None, report.sorted_problems()
    return loaded.topology


def problems(text: str) -> list[str]:
    """What is said of a wrong text."""
    report = Report()
    assert read_topology(text, "topology.yml", report) is None
    return [str(problem) for problem in report.sorted_problems()]


def configured(text: str, rest: str = "") -> Configuration:
    """The configuration that names a topology with this text."""
    files = Files(environ={}, made={"/topology.yml": text})
    return load(None, files, text=f"topology: /topology.yml\nweb: []\n{rest}")


def in_config_map(text: str, head: str = "") -> str:
    """A text as ``kubectl get configmap -o yaml`` prints it."""
    inner = "".join(f"    {line}\n" for line in text.strip().splitlines())
    return f"apiVersion: v1\nkind: ConfigMap\n{head}data:\n  topology.yml: |\n{inner}"


def test_pools() -> None:
    """Pools with their boards, NUMA nodes, further resources, and nodes where there is no cluster."""
    topology = read(POOLS)
    default, big = topology.pools
    assert (default.board.product, default.board.memory_mib, default.count) == ("Tesla-K80", 11441, 2)
    assert default.nodes == ("default-0",)
    assert topology.others("default") == {"rdma/hca": 2}
    assert (big.numa, big.nodes) == ((0, 0, 0, 1), ("big-0", "big-1"))
    assert (topology.label_key, topology.mig_strategy) == ("run.ai/simulated-gpu-node-pool", MigStrategy.MIXED)


def test_the_newer_form_of_pools() -> None:
    """A profile with what differs from it; the number of GPUs, and resources beside GPUs."""
    text = """
nodePools:
  a: {gpu: {backend: mock, profile: h100}, resources: [{nvidia.com/gpu: 8}, {rdma/hca: 1}]}
  b:
    gpu:
      backend: fake
      overrides:
        device_defaults: {name: Custom, memory: {total_bytes: 42949672960}}
        devices: [{}, {index: 1}]
        system: {driver_version: "600.1", cuda_version: "13.0"}
"""
    first, second = read(text).pools
    assert (first.board.profile, first.count, first.others) == ("h100", 8, {"rdma/hca": 1})
    assert (second.board.product, second.board.memory_mib, second.count) == ("Custom", 40960, 2)
    assert (second.board.driver_version, second.board.cuda_version) == ("600.1", "13.0")


@pytest.mark.parametrize("text", [DESIGN, OLD, NEW], ids=["design", "old", "new"])
def test_a_node_in_all_spellings(text: str) -> None:
    (node,) = read(text, "topology-node-a.yml").nodes
    assert (node.name, node.board.product, node.board.memory_mib) == ("node-a", "Tesla-K80", 11441)
    (gpu,) = node.gpus
    (use,) = gpu.uses
    assert gpu.id == "8fc73fbd-91f0-697e-57ef-fc978bd54af1"
    assert (use.namespace, use.pod, use.container) == ("ns", "p", "c")
    assert (use.utilization, use.fb_used_mib) == ((10, 10), 5000)
    assert use.uid == ("" if text is DESIGN else "uid-1")


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("metadata: {name: topology-gpu-1}\n", "gpu-1"),
        ("metadata: {name: x, labels: {node-topology: 'true', node-name: gpu-2}}\n", "gpu-2"),
    ],
)
def test_config_maps(head: str, name: str) -> None:
    """ConfigMaps are read as kubectl prints them: they name their node."""
    assert [node.name for node in read(in_config_map(NEW, head)).nodes] == [name]
    assert len(read(in_config_map(POOLS)).pools) == 2


def test_a_list_of_config_maps() -> None:
    items = [
        {
            "kind": "ConfigMap",
            "metadata": {"name": f"topology-{name}"},
            "data": {"topology.yml": text % name},
        }
        for name, text in {
            "a": '{"gpuProduct": "Tesla-T4", "gpus": [{"id": "GPU-%s"}]}',
            "b": "gpuProduct: Tesla-T4\ngpus:\n- id: GPU-%s\n",
        }.items()
    ]
    topology = read(json.dumps({"kind": "List", "items": items}), "all.json")
    assert [(node.name, node.gpus[0].id) for node in topology.nodes] == [("a", "a"), ("b", "b")]


def test_values_of_the_chart() -> None:
    text = "draPlugin: {enabled: false}\ntopology:\n" + POOLS.replace("\n", "\n  ")
    assert [pool.name for pool in read(text).pools] == ["default", "big"]
    old = "initialTopology: {config: {node-autofill: {gpu-count: 2, gpu-product: Tesla-K80, gpu-memory: 11441}}}"
    (pool,) = read(old).pools
    assert (pool.name, pool.count, pool.board.memory_mib) == ("default", 2, 11441)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodePools: {a: {gpuProduct: T4}}", ["topology.yml:1: nodePools.a: 'gpuCount' is missing: the GPUs of each"]),
        ("nodePools: {a: {gpuCount: 2}}", ["topology.yml:1: nodePools.a: 'gpuProduct' is missing: the product name"]),
        ("nodePools:\n  a: {gpuProduct: x, gpuCount: 0}", ["topology.yml:2: nodePools.a.gpuCount: 0 is not within 1"]),
        ("nodePools: [a]", ["topology.yml:1: nodePools: must be a mapping of pools, not a list"]),
        ("migStrategy: mixd", ["topology.yml:1: migStrategy: 'mixd' is not one of none, single, mixed: did you m"]),
        ("{}", ["topology.yml:1: has neither pools nor nodes: give nodePools: {NAME: {gpuProduct"]),
        ("nodes: {a: {gpuProduct: x}}", ["topology.yml:1: a: has no GPUs: list them under gpus:, or give gpuCount"]),
        ("gpus: []\ngpuProduct: x", ["topology.yml:1: topology: has no GPUs: list them"]),
        (
            "nodes:\n  a:\n    gpuProduct: x\n    gpus:\n    - {id: GPU-1}\n    - {id: GPU-1}\n",
            ["topology.yml:6: a: GPUs 0 and 1 have the same id: give another"],
        ),
        (NEW.replace("max: 10", "max: 5"), ["topology.yml:8: utilization: min 10 is over max 5: exchange them"]),
        (
            "nodePools:\n  a:\n    gpuProduct: x\n    gpuCount: 4\n    numa: {zones: 2, gpusPerZone: [1, 1]}\n",
            ["topology.yml:5: nodePools.a.numa: gpusPerZone must have 2 numbers with the sum 4"],
        ),
        ("kind: ConfigMap\ndata: {other: x}", ["topology.yml:1: data: has no topology.yml with a text: there is"]),
        ("kind: ConfigMap\ndata:\n  topology.yml: 'kind: ConfigMap'", ["topology.yml:3: is a ConfigMap in"]),
        ("kind: ConfigMap\ndata:\n  topology.yml: |\n    a: 1\n    }", ["topology.yml:5: is not YAML"]),
        ("nodePools: }", ["topology.yml:1: is not YAML"]),
    ],
)  # fmt: skip
def test_problems(text: str, said: list[str]) -> None:
    found = problems(text)
    assert len(found) == len(said), found
    for problem, begin in zip(found, said, strict=True):
        assert problem.startswith(begin), problem


def test_lines_in_a_config_map() -> None:
    text = in_config_map(POOLS.replace("gpuMemory: 81920", "gpuMemory: much"), "metadata:\n  name: topology\n")
    line = 1 + text.splitlines().index("        gpuMemory: much")
    (problem,) = problems(text)
    assert problem.startswith(f"topology.yml:{line}: nodePools.big.gpuMemory: must be a whole number")


def test_what_a_topology_becomes() -> None:
    """Pools with product, memory and ids in place of the configuration's; the rest stays."""
    rest = "fleet: {seed: 7, pools: [{name: gone}]}\nworkloads: {listen: [], base: [{name: gone, profile: '1:0:0'}]}"
    configuration = configured(DESIGN, rest)
    (pool,) = configuration.fleet.pools
    assert configuration.fleet.seed == 7
    assert pool.device_type.name == "t4-16gb"
    assert pool.facts["product_name"] == "Tesla-K80"
    assert pool.device_type.memory_total_bytes == 11441 * 2**20
    assert pool.devices[0].facts["uuid"] == "8fc73fbd-91f0-697e-57ef-fc978bd54af1"
    (workload,) = configuration.fleet.base
    assert (workload.name, workload.devices, workload.pod) == ("ns/p/c", ("node-a/0",), "p")
    assert configuration.identities["node-a"].title == "run-ai@0.2"
    assert configuration.watch
    assert not configured(DESIGN, "watch: false").watch
    (note,) = configuration.notes
    assert note.startswith("/topology.yml:4: 'Tesla-K80' is not in the catalog: it behaves as Tesla T4")


def test_a_driver_decides_its_cuda() -> None:
    pools = [
        configured(DESIGN.replace("    gpus:", f"    driverVersion: 470.82.01\n{more}    gpus:")).fleet.pools[0]
        for more in ("", "    cudaVersion: '11.8'\n")
    ]
    facts = [device_facts(1, pool, pool.nodes[0], 0) for pool in pools]
    assert [(fact["driver_version"], fact["cuda_version"]) for fact in facts] == [
        ("470.82.01", "11.4"), ("470.82.01", "11.8"),
    ]  # fmt: skip


def test_pools_of_a_cluster() -> None:
    configuration = configured(POOLS, "workloads: {listen: []}\nkubernetes: {compatibility: fake-gpu-operator}")
    pools = configuration.fleet.pools
    assert [(pool.name, pool.has_cluster_nodes, pool.nodes) for pool in pools] == [
        ("default", True, ()), ("big", True, ()),
    ]  # fmt: skip
    assert {pool.in_cluster.mig_strategy for pool in pools} == {MigStrategy.MIXED}
    assert pools[1].devices[3].facts == {"numa_node": "1"}


@pytest.mark.parametrize(("low", "high"), [(0, 100), (10, 30), (0.0001, 100), (33.337, 100), (0, 0)])
def test_ranges(low: float, high: float) -> None:
    """Any range is a load with its fluctuation, within 0 to 100."""
    text = NEW.replace("min: 10, max: 10", f"min: {low}, max: {high}")
    files = Files(environ={}, made={"/topology-a.yml": text})
    configuration = load(None, files, text="topology: /topology-a.yml\nweb: []\nworkloads: {listen: []}\n")
    (activity,) = configuration.fleet.base[0].activities
    assert isinstance(activity.value, float)
    assert activity.value - activity.fluctuation == pytest.approx(low, abs=0.01)
    assert activity.value + activity.fluctuation == pytest.approx(high, abs=0.01)


def test_too_much_memory() -> None:
    configuration = configured(DESIGN.replace("5000", "20000"))
    assert configuration.fleet.base[0].uses[0].activities.highest == 11441 * 2**20
    assert any("ns/p/c uses 20000 MiB of GPU 0, which has 11441 MiB left" in note for note in configuration.notes)


def test_a_missing_file() -> None:
    with pytest.raises(ConfigurationError) as raised:
        load("/x/f.yaml", Files(environ={}), text="topology: none.yml")
    assert str(raised.value).splitlines() == ["/x/f.yaml:1: topology /x/none.yml: no such file"]


def test_a_pool_and_a_node_of_one_name() -> None:
    with pytest.raises(ConfigurationError, match="'node-a' is the name of a pool and of a node: rename the pool"):
        configured(DESIGN + "nodePools: {node-a: {gpuProduct: Tesla-T4, gpuCount: 1}}\n")


def test_unknown_keys_are_noted() -> None:
    """The operator has keys for its own parts; a misspelled one is named with what is near."""
    report = Report()
    assert read_topology(POOLS + "gpuOperator: {version: x}\nmigStrategi: none\n", "t.yml", report) is not None
    assert [note.split(": ", 1)[0] for note in report.notes] == ["t.yml:12", "t.yml:13"]
    assert "did you mean 'migStrategy'?" in report.notes[1]


def test_folded() -> None:
    assert len({folded(key) for key in ("gpu-memory", "gpuMemory", "gpu_memory")}) == 1


def test_the_page_for_who_switches() -> None:
    """The example of doc/switching.md is a good topology, and says what the page says of it."""
    page = Path(ROOT, "doc", "switching.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    topology = read(example)
    assert [pool.name for pool in topology.pools] == ["a100"]
    assert [node.name for node in topology.nodes] == ["node-a"]
    configuration = configured(example, "workloads: {listen: []}")
    assert [len(pool.nodes) for pool in configuration.fleet.pools] == [3, 1]
