"""What is wrong with a configuration: each class of error with its text and line."""

# ruff: noqa: E501 - the tables hold whole messages
from __future__ import annotations

import pytest

from fakedev.fleet.entities.naming import device_facts
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.fleet import Fleet
from fakedev.schema import sections
from fakedev.schema.places import MAX_PROBLEMS
from tests.support.configurations import loaded, pool, problems

SAFE = "web: []\nworkloads: {listen: []}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # shapes and keys
        (
            "- a",
            ["f.yaml:1: must be a mapping of version, fleet, topology, web, web-config, workloads, faults, limits, journal, state, hpc-jobs, nvml, kernel-log, otlp, log, watch, queues, tester, kubernetes, not a list"],
        ),
        ("fleet: 3", ["f.yaml:1: fleet: must be a mapping of seed, tick, exact-sensors, speed, epoch, shard, pools, cluster, not '3'"]),
        ("fleet:\n  sed: 3", ["f.yaml:2: fleet: unknown key 'sed'; did you mean 'seed'?"]),
        ("log: {zzz: 3}", ["f.yaml:1: log: unknown key 'zzz'; known here: level, format"]),
        ("web: 9400", ["f.yaml:1: web: must be a list of addresses, not '9400': put [ ] around it"]),
        ("fleet: {pools: [{}]}", ["f.yaml:1: fleet.pools.0: 'name' is missing: Name of the pool; unique."]),
        ("fleet: {pools: []}", ["f.yaml:1: fleet.pools: needs at least 1 in its list"]),
        ("version: 2", ["f.yaml:1: version: 2 is not within 1 to 1"]),
        ("tester: x", ["f.yaml:1: tester: must be a mapping of plans, reports, not 'x'"]),
        # scalars
        ("fleet:\n  seed: 1.5", ["f.yaml:2: fleet.seed: must be a whole number within 0 to 9223372036854775807, not '1.5'"]),
        ('fleet: {seed: "7"}', ["f.yaml:1: fleet.seed: must be a whole number within 0 to 9223372036854775807, not '7' in quotes"]),
        ("fleet: {seed: [7]}", ["f.yaml:1: fleet.seed: must be a whole number, not a list"]),
        ("fleet: {seed: -1}", ["f.yaml:1: fleet.seed: -1 is not within 0 to 9223372036854775807"]),
        ("fleet: {speed: .nan}", ["f.yaml:1: fleet.speed: must be a number within 0 to 10000, not '.nan'"]),
        ("fleet: {speed: 1e999}", ["f.yaml:1: fleet.speed: 1e999 is too large for a number"]),
        ("fleet: {speed: -1}", ["f.yaml:1: fleet.speed: -1.0 is not within 0 to 10000"]),
        ("fleet: {tick: 10}", ["f.yaml:1: fleet.tick: '10' is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m"]),
        ("fleet: {tick: 2h}", ["f.yaml:1: fleet.tick: 2h is not within 1ms to 1h"]),
        ("fleet: {epoch: 1:30}", ["f.yaml:1: fleet.epoch: '1:30' is no time: give start, 2026-01-31T12:00:00Z or seconds since 1970"]),
        ("fleet: {epoch: 1969-01-01}", ["f.yaml:1: fleet.epoch: '1969-01-01' is before 1970"]),
        ("log: {level: warning}", ["f.yaml:1: log.level: must be one of debug, info, warn, error, not 'warning'; did you mean warn?"]),
        ("web: [{listen: /a, mode: 888}]", ["f.yaml:1: web.0.mode: must be three octal digits, as 660, not '888'"]),
        ("web: [{listen: 9400, open: yes}]", ["f.yaml:1: web.0.open: must be true or false, not 'yes'"]),
        ("web: [{listen: 9400, token: short}]", ["f.yaml:1: web.0.token: a token is 8 to 1024 printable ASCII characters without blanks"]),
        ("version: ${V}", ["f.yaml:1: the environment variable V is not set: set it, or write ${V:-default}", "f.yaml:1: version: must be a whole number within 1 to 1, not '${V}'"]),
        ('version: "${V"', ["f.yaml:1: '${V' is no variable: write ${NAME} or ${NAME:-default}, or $$ for a dollar", "f.yaml:1: version: must be a whole number within 1 to 1, not '${V' in quotes"]),
        # pools
        ("fleet: {pools: [{name: -a}]}", ["f.yaml:1: fleet.pools.0.name: '-a' is no pool name: at most 63 letters, digits, '.', '_' and '-', the first and the last no sign"]),
        ("fleet: {pools: [{name: a}, {name: a, nodes: [b]}]}", ["f.yaml:1: the pool 'a' is there twice (first at f.yaml:1): names are unique"]),
        ("fleet: {pools: [{name: a}, {name: b, nodes: [a-0]}]}", ["f.yaml:1: the node 'a-0' is there twice (first at f.yaml:1): names are unique"]),
        (pool(nodes="[x, y,\n x]"), ["f.yaml:2: the node 'x' is there twice (first at f.yaml:1): names are unique"]),
        (pool(nodes="[a/b]"), ["f.yaml:1: fleet.pools.0.nodes.0: 'a/b' is no node name: at most 253 letters, digits, '.', '_' and '-', the first and the last no sign"]),
        (pool(nodes="0"), ["f.yaml:1: fleet.pools.0.nodes: 0 is not within 1 to 100000"]),
        (pool(nodes="{a: b}"), ["f.yaml:1: fleet.pools.0.nodes: must be a whole number or list of names or path of a CSV file, not a mapping"]),
        (pool(nodes="x"), ["f.yaml:1: nodes: 'x' is no number and no .csv file; names go into a list, as [x]"]),
        (pool(nodes="2", node_name="x"), ["f.yaml:1: node-name: 'x' is the same for all 2 nodes: put {} where the number goes"]),
        (pool(nodes="2", node_name='"x-{}-{}"'), ["f.yaml:1: fleet.pools.0.node-name: 'x-{}-{}' must have one {} where the number goes ({03} for three digits), as dgx-{}"]),
        (pool(node_name='"x{}-"'), ["f.yaml:1: node-name: 'x0-' is no node name: at most 253 letters, digits, '.', '_' and '-', the first and the last no sign"]),
        (pool(nodes="[x]", node_name='"y{}"'), ["f.yaml:1: node-name: is for a number of nodes, and these have names"]),
        (pool(nodes="100000", devices_per_node="1024"), ["f.yaml:1: the fleet has 102400000 devices so far: at most 1000000"]),
        (pool(device="gtx1080"), ["f.yaml:1: no device type 'gtx1080': fakedev devices lists all; a file of your own is named by its path"]),
        (pool(device="h10"), ["f.yaml:1: no device type 'h10'; did you mean 'h100'? fakedev devices lists all; a file of your own is named by its path"]),
        (pool(identity="dcgm@9"), ["f.yaml:1: no identity 'dcgm@9': the last release that is known is 4.7.1-4.9.0; did you mean 'dcgm'? fakedev identities lists all; a file of your own is named by its path"]),
        (pool(device="none.yaml"), ["f.yaml:1: the device type none.yaml: no such file"]),
        (pool(devices="[{index: 8}]"), ["f.yaml:1: device 8: a node has 8 devices, 0 to 7"]),
        (pool(devices="[{index: 1},\n{index: 1}]"), ["f.yaml:2: device 1 is there twice: put both into one"]),
        (pool(devices="[{uuid: x}]"), ["f.yaml:1: fleet.pools.0.devices.0: 'index' is missing: Number of the device on each node, from 0.", "f.yaml:1: fleet.pools.0.devices.0.uuid: 'x' is no UUID of 36 characters, as 927d7444-b45a-7c49-8402-5e686e46a026"]),
        (pool(devices="[{index: 0, pci: 1b}]"), ["f.yaml:1: fleet.pools.0.devices.0.pci: '1b' is no PCI address, as 0000:1b:00.0"]),
        (pool(devices='[{index: 0, serial: s},\n{index: 1, serial: s}]'), ["f.yaml:2: serial: 's' is there twice (first in line 1)"]),
        (pool(devices="[{index: 0,\nlabels: {file: card1}}]"), ["f.yaml:1: devices 0 and 1 have the same file, 'card1': give one of them another"]),
        (pool(labels="{uuid: x}"), ["f.yaml:1: labels: 'uuid' differs from device to device: give it under devices, for one index"]),
        (pool(labels="{node: x}"), ["f.yaml:1: fleet.pools.0.labels: the label 'node' is computed and cannot be given"]),
        (pool(labels="{a b: x}"), ["f.yaml:1: fleet.pools.0.labels: 'a b' is no label name: letters, digits and _ only, no digit first"]),
        # endpoints
        ('web: ["*:9400"]', ["f.yaml:1: *:9400 lets other machines change things: give it a token, or serve: metrics, or allow it by open: true"]),
        ('web: [9400,\n"*:9400"]', ["f.yaml:2: *:9400 is listened on twice (first at f.yaml:1)", "f.yaml:2: *:9400 lets other machines change things: give it a token, or serve: metrics, or allow it by open: true"]),
        ("web: [/a]\nworkloads: {listen: [/a]}", ["f.yaml:2: /a is listened on twice (first at f.yaml:1)"]),
        ("web: [{listen: 9400, mode: 660}]", ["f.yaml:1: mode: is for UNIX sockets, and 127.0.0.1:9400 is none"]),
        ("web: [{listen: 9400, pool: dg}]", ["f.yaml:1: no pool 'dg'; did you mean 'dgx'?"]),
        ("web: [{listen: 9400, identity: xpu}]", ["f.yaml:1: no identity 'xpu'; did you mean 'xpumd'? fakedev identities lists all; a file of your own is named by its path"]),
        ("workloads: {listen: ['*:9998']}", ["f.yaml:1: *:9998 lets other machines run workloads: give it tokens:, listen on loopback or a UNIX socket, or allow it by open: true"]),
        ("workloads: {listen: [{listen: /a, node: dgx-1}]}", ["f.yaml:1: no node 'dgx-1'; did you mean 'dgx-0'?"]),
        ("workloads: {listen: [{listen: /a, allow: [fault]}]}", ["f.yaml:1: workloads.listen.0.allow.0: must be one of workloads, faults, clock, not 'fault'; did you mean faults?"]),
        # base workloads
        ("workloads: {base: [{name: x}]}", ["f.yaml:1: profile: must be load:fluctuation:seconds, or a list of activities"]),
        ("workloads: {base: [{profile: 98:1:0}]}", ["f.yaml:1: name: a workload needs a name"]),
        ("workloads:\n  base:\n    - name: x\n      profile: 101:0:0", ["f.yaml:4: profile: activity 1: load 101 is not within 0 to 100"]),
        ("workloads: {base: [{name: x, profile: 98:5:0}]}", ["f.yaml:1: profile: activity 1: load 98 + fluctuation 5 is over 100"]),
        ("workloads: {base: [{name: x, profile: 98:1:0, devices: card9}]}", ["f.yaml:1: devices: no device 'card9'; did you mean card7?"]),
        ("workloads: {base: [{name: x, profile: 98:1:0, node: dgx-9}]}", ["f.yaml:1: node: no node 'dgx-9'; did you mean dgx-0?"]),
        ("workloads: {base: [{name: x, profile: [[1, a]]}]}", ["f.yaml:1: profile: activity 1: fluctuation must be a number"]),
        ("workloads: {base: [{name: x, profile: 9:1:0, ttl: 5}]}", ["f.yaml:1: workloads.base.0.ttl: '5' is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m"]),
        ("workloads: {base: [none.json]}", ["f.yaml:1: the workload none.json: no such file"]),
    ],
)  # fmt: skip
def test_problem(text: str, expected: list[str]) -> None:
    """Each fault gets its line, what is wrong, and what would be right."""
    assert problems(text) == expected


def test_too_many_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration is read no further: to look for what is meant costs milliseconds for each problem."""
    looked: list[str] = []
    monkeypatch.setattr(sections, "nearest_name", lambda name, names: looked.append(name) or "")
    found = problems("".join(f"key-{number}: 1\n" for number in range(10_000)))
    assert len(found) == MAX_PROBLEMS + 1
    assert found[0].startswith("f.yaml:1: unknown key 'key-0'")
    assert found[-1] == f"f.yaml:{MAX_PROBLEMS}: there may be more: these are the first {MAX_PROBLEMS} problems"
    assert len(looked) == MAX_PROBLEMS


def test_all_problems_at_once() -> None:
    """Nothing hides behind the first problem; they come in the order of the file."""
    text = "fleet:\n  tick: x\n  pools:\n    - {name: a, device: h10}\nlogg: {}\nweb:\n  - '*:1'\nworkloads:\n  max-connections: 0\n"
    assert [line.split(":")[1] for line in problems(text)] == ["2", "4", "5", "7", "9"]


def test_pools_that_cannot_share_a_page() -> None:
    """Identities with families of the same name need one identity, or endpoints that choose."""
    pools = "fleet: {pools: [{name: a, device: dg1, identity: collectd}, {name: b, device: dg1, identity: own.yaml}]}\n"
    own = "name: own\nlabels: [{name: node, value: '{node}'}, {name: gpu, value: '{index}'}]\nfamilies:\n" + "\n".join(
        f"- {{name: {name}, type: gauge, help: h, format: go, quantity: power_watts}}"
        for name in ("x", "collectd_gpu_sysman_power_watts")
    )
    clash = (
        "pools a and b both have the family collectd_gpu_sysman_power_watts, as collectd@6 and own: "
        "give them one identity, or give this endpoint its own pool: or identity:"
    )
    assert problems(pools + "web: [9400]", {"own.yaml": own}) == [f"f.yaml:2: {clash}"]
    assert problems(pools, {"own.yaml": own}) == [f"f.yaml:1: {clash}"]
    choosing = "web: [{listen: 9400, pool: a}, {listen: 9401, identity: collectd}]"
    assert problems(pools + choosing, {"own.yaml": own}) == []


def test_nodes_that_would_be_the_same_series() -> None:
    """An identity that shows no node cannot show two on one page."""
    own = "name: own\nlabels: [{name: gpu, value: '{index}'}]\nfamilies: [{name: x, type: gauge, help: h, format: go, quantity: power_watts}]"
    text = "fleet: {pools: [{name: a, nodes: 2, identity: own.yaml}]}\nweb: [9400]"
    assert problems(text, {"own.yaml": own}) == [
        "f.yaml:1: own has no label that distinguishes its 2 nodes: their series would be the same on /metrics; "
        "give it a label with {node}"
    ]
    assert problems(text.replace("nodes: 2", "nodes: 1"), {"own.yaml": own}) == []


def test_nodes_that_facts_of_their_devices_tell_apart() -> None:
    """Each in a pool of its own: another UUID is enough; one that two devices have, or that two nodes get, is not."""
    own = "name: own\nlabels: [{name: uuid, value: '{uuid}'}]\nfamilies: [{name: x, type: gauge, help: h, format: go, quantity: power_watts}]"
    first, second = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"

    def found(nodes: int, one: str, other: str) -> list[str]:
        pools = ", ".join(
            f"{{name: {name}, nodes: {count}, device: h100, devices-per-node: 1, identity: own.yaml, devices: [{{index: 0, uuid: {uuid}}}]}}"
            for name, count, uuid in (("a", nodes, one), ("b", 1, other))
        )
        return problems(f"fleet: {{pools: [{pools}]}}\nweb: [9400]", {"own.yaml": own})

    assert found(1, first, second) == []
    assert any("distinguishes its 2 nodes" in each for each in found(1, first, first))
    assert any("distinguishes its 3 nodes" in each for each in found(2, first, second))


def test_devices_that_would_be_the_same_series() -> None:
    """An identity that shows no device cannot show two of a node."""
    own = "name: own\nlabels: [{name: host, value: '{node}'}]\nfamilies: [{name: x, type: gauge, help: h, format: go, quantity: power_watts}]"
    assert problems(pool(identity="own.yaml"), {"own.yaml": own}) == [
        "f.yaml:1: devices 0 and 1 of a node of pool a would have the same series: own has no label that "
        "distinguishes them (labels: host)"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name\nx y", ["nodes.csv:2: column name: 'x y' is no node name: at most 253 letters, digits, '.', '_' and '-', the first and the last no sign"]),
        ("host,labels\nx,", ["nodes.csv:1: has no column 'name': the first line names the columns, as name,device,count,labels"]),
        ("", ["nodes.csv:1: has no column 'name': the first line names the columns, as name,device,count,labels"]),
        ("name\n", ["nodes.csv:1: has no node: give at least one line below the first"]),
        ("name,labels\nx,a=1;b", ["nodes.csv:2: column labels: the label 'b' has no =, as rack=a1;row=3"]),
        ("name,labels\nx,a=1;a=2", ["nodes.csv:2: the label 'a' is there twice"]),
        ("name,labels,label:a\nx,a=1,2", ["nodes.csv:2: the label 'a' is there twice"]),
        ("name,label:uuid\nx,1", ["nodes.csv:2: the label 'uuid' differs from device to device of a node"]),
        ("name\nx\nx", ["nodes.csv:3: the node 'x' is there twice (first at nodes.csv:2): names are unique"]),
        ("name\nx,y", ["nodes.csv:2: has more values than the first line has columns"]),
        ("name\nx\ny\x00", ["nodes.csv:3: has the character U+0000, which no text file may hold"]),
        ('name\n"x', ["nodes.csv:2: is not CSV: unexpected end of data"]),
        ("name,divice\nx,t4", ["nodes.csv:1: unknown column 'divice': did you mean 'device'?; for labels label:NAME"]),
        ("name,name\nx,y", ["nodes.csv:1: has the column 'name' twice"]),
        ("name,label:3\nx,y", ["nodes.csv:1: column 'label:3': '3' is no label name: letters, digits and _ only, no digit first"]),
        ("name,device\nx,h1000", ["nodes.csv:2: no device type 'h1000'; did you mean 'h100'? fakedev devices lists all; a file of your own is named by its path"]),
        ("name,count\nx,1.5", ["nodes.csv:2: column count: '1.5' is no number of devices: 1 to 1024"]),
        ("name,count\nx,\ny,1025", ["nodes.csv:3: column count: '1025' is no number of devices: 1 to 1024"]),
        ("name,driver\nx,new", ["nodes.csv:2: column driver: 'new' is no version of a driver, as 580.105.08: at most 31 characters, digits first"]),
        ("name,driver,label:driver_version\nx,1.2,1.3", ["nodes.csv:2: column driver: the label driver_version is the same: give one of the two"]),
        ("name,inlet\nx,hot", ["nodes.csv:2: column inlet: inlet 'hot' is no number within -60 to 100"]),
    ],
)  # fmt: skip
def test_csv_problems(text: str, expected: list[str]) -> None:
    assert [line for line in problems(pool(nodes="nodes.csv"), {"nodes.csv": text}) if "series" not in line][
        :1
    ] == expected


def test_versions_of_drivers() -> None:
    """A node's column or label wins over the pool's key; CUDA follows for NVIDIA's boards, unless it is given there."""
    nodes = {"nodes.csv": (
        "name,device,driver,labels\nx,,580.105.08,\ny,,,\nz,mi300x,6.14.5,\nv,,,driver_version=418.87.01\n"
        "w,,340.1,\nu,,,driver_version=mine\nt,,610.1,cuda_version=12.8\n"
    )}  # fmt: skip
    fleet = loaded(pool(nodes="nodes.csv", device="t4", driver="536.25"), nodes).fleet
    shown = [device_facts(1, pool, node, 0) for pool in fleet.pools for node in pool.nodes]
    assert {(each["node"], each["driver_version"], each.get("cuda_version")) for each in shown} == {
        ("x", "580.105.08", "13.0"), ("y", "536.25", "12.2"), ("z", "6.14.5", None), ("v", "418.87.01", "10.1"),
        ("w", "340.1", ""), ("u", "mine", "12.2"), ("t", "610.1", "12.8"),
    }  # fmt: skip
    for driver, cuda in (("418.39", "10.1"), ("610.43.02", "13.3")):
        (of_driver,) = loaded(pool(nodes="1", driver=driver)).fleet.pools
        assert device_facts(1, of_driver, of_driver.nodes[0], 0)["cuda_version"] == cuda
    given = loaded(pool(nodes="1", driver="580.105.08", labels="{cuda_version: '12.9'}")).fleet.pools[0]
    facts = device_facts(1, given, given.nodes[0], 0)
    assert (facts["driver_version"], facts["cuda_version"]) == ("580.105.08", "12.9")
    assert problems(pool(nodes="1", driver="1.2", labels="{driver_version: '1.3'}")) == [
        "f.yaml:1: driver: the label driver_version is the same: give one of the two"
    ]


def test_csv_nodes() -> None:
    """Names and labels of nodes come from the file; blanks around them do not count."""
    text = "name , labels\nx, rack=1;row=a=b \ny,\n"
    (found,) = loaded(pool(nodes="nodes.csv"), {"nodes.csv": text}).fleet.pools
    assert [(node.name, dict(node.facts)) for node in found.nodes] == [("x", {"rack": "1", "row": "a=b"}), ("y", {})]


def test_csv_devices() -> None:
    """Device types and numbers of devices of single nodes; the others have those of the pool. They stay in order."""
    text = "name,device,count,label:rack\na,t4,2,r1\nb,,,r2\nc,t4,2,\nd,,1,\ne,t4,4,r1\n"
    fleet = Fleet(loaded(pool(nodes="nodes.csv", identity="dcgm"), {"nodes.csv": text}).fleet)
    found = [
        (node.name, node.pool.name, node.pool.device_type.name, len(node.devices), dict(node.spec.facts))
        for node in fleet.roster.nodes
    ]
    assert found == [
        ("a", "a", "t4-16gb", 2, {"rack": "r1"}),
        ("b", "a", "h100-sxm5-80gb", 8, {"rack": "r2"}),
        ("c", "a", "t4-16gb", 2, {}),
        ("d", "a", "h100-sxm5-80gb", 1, {}),
        ("e", "a", "t4-16gb", 4, {"rack": "r1"}),
    ]
    assert resolve(["*/3"], fleet.roster).tolist() == [5, 16]
    assert [fleet.roster.unit_name(device) for device in resolve(["?/card2"], fleet.roster)] == ["b/2", "e/2"]
