"""Whole services, configured and used at random: each path answers, pages are whole, and no counter falls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.fleet.spec.fault_kinds import KINDS, NODE_SCOPES
from fakedev.web.paths import METRICS, STREAM, WEB_PATHS
from tests.support.application import LineClient, MemoryApplication, application
from tests.support.examples import examples
from tests.support.reloads import came, reload
from tests.support.wire.http_wire import Answer

#: Exporters whose families have different names, and boards whose pages they make.
BOARDS: Final = {
    "dcgm": (
        "h100", "h100, mig: ['1g.10gb', '2g.20gb']", "h100, topology: ring", "l4-24gb", "v100-sxm2-16gb", "gb200-186gb",
        "h100, attribution: honest, churn: {rate: 120/h}",
    ),
    "nvidia-gpu-exporter@1": ("a100-sxm4-40gb", "a100-sxm4-40gb, mig: [1g.5gb, 2g.10gb]", "h200, churn: {rate: 60/h}"),
    "xpumanager": ("intel-flex-170", "intel-max-1550", "intel-max-1550, topology: none, inlet: 45"),
    "gaudi": ("intel-gaudi-3", "intel-gaudi-3, profile: spike"),
    "amd-device-metrics@1": ("amd-mi300x", "amd-mi250x"),
}  # fmt: skip
PROFILES: Final = (
    "100", "50:50:2", "80:20:1.5,10:5:0.5", "ramp(5,90):5:9", "sine(50,50,7):0:0", "training", "notebook", "degrading",
)  # fmt: skip
OPTIONS: Final = (
    "detach", "pod=p", "use=memory:40%", "use=memory:4GiB", "use=fabric-tx?:30%", "use=tensor:0.4", "limit=power:200",
    "limit=memory:10GiB", "seconds-of=work", "intensity=45:5", "kind=memory", "ttl=3", "repeat=0", "label=rack:7",
)  # fmt: skip
#: Those of whole nodes cut or delay the page, which is their purpose.
FAULTS: Final = tuple(name for name, kind in KINDS.items() if kind.scope not in NODE_SCOPES)
#: What those take that cannot go without.
TAKEN: Final = {"xid": " code=79", "power-cap": " watts=300", "clock-lock": " megahertz=900"}
#: What a device is called, by its pool and node; some of these are not there.
DEVICES: Final = ("all", "dcgm-0/0", "dcgm-0/*", "dcgm-*/0", "dcgm-0/1/0", "xpumanager-0/0/1", "gaudi-*/*", "amd-1/0")
PLACES: Final = {
    "NODE": ("dcgm-0", "gaudi-1", "amd-0", "nobody"), "INDEX": ("0", "1", "9"), "PART": ("0", "1"),
    "NUMBER": ("0", "3"), "ID": ("w1", "w2", "f1", "base"), "NAME": ("queue",), "PLAN": ("load",),
}  # fmt: skip
#: It says that it is a counter, and is a rate, as in the original.
NO_COUNTERS: Final = {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"}
PATHS: Final = tuple(path.template for path in WEB_PATHS if "GET" in path.methods and path is not STREAM)


@st.composite
def configurations(draw: st.DrawFn) -> str:
    """Up to three pools, perhaps with workloads and faults."""
    lines = ["version: 1", "fleet:", "  pools:"]
    for identity in draw(st.lists(st.sampled_from(sorted(BOARDS)), min_size=1, max_size=3, unique=True)):
        name, nodes, devices = identity.split("-")[0], draw(st.integers(1, 2)), draw(st.integers(1, 3))
        board = draw(st.sampled_from(BOARDS[identity]))
        lines.append(f"    - {{name: {name}, nodes: {nodes}, devices-per-node: {devices}, identity: {identity},")
        lines.append(f"       device: {board}}}")
    lines += ['web: ["127.0.0.1:9400"]', "workloads:", '  listen: ["127.0.0.1:9500"]']
    if draw(st.booleans()):
        lines.append(f"  base: [{{name: base, devices: all, profile: '{draw(st.sampled_from(PROFILES))}'}}]")
    if draw(st.booleans()):
        kind = draw(st.sampled_from([fault for fault in FAULTS if not KINDS[fault].needs]))
        lines.append(f"faults: [{{kind: {kind}, devices: all, start: 2s, duration: 4s}}]")
    return "\n".join(lines)


@st.composite
def commands(draw: st.DrawFn) -> str:
    """A line for the workload port."""
    devices = draw(st.sampled_from(DEVICES))
    if draw(st.booleans()):
        options = draw(st.lists(st.sampled_from(OPTIONS), max_size=3, unique=True))
        return " ".join(["run w", f"devices={devices}", f"profile={draw(st.sampled_from(PROFILES))}", *options])
    if draw(st.booleans()):
        kind = draw(st.sampled_from(FAULTS))
        times = draw(st.sampled_from(("", " duration=3", " every=5 duration=2")))
        return f"fault {kind} devices={devices}{TAKEN.get(kind, '')}{times}"
    others = ("stop w", "stop base", "clear all", "reset", "advance 90", "list", "devices", "faults")
    return draw(st.sampled_from(others))


STEPS: Final = st.one_of(
    st.tuples(st.just("say"), commands()),
    st.tuples(st.just("say"), commands()),
    st.tuples(st.just("reload"), configurations()),
    st.tuples(st.sampled_from(("tick", "leave", "reload as it is")), st.just("")),
    st.tuples(st.just("get"), st.sampled_from(PATHS)),
)


@dataclass
class Watched:
    """A service, a peer of its workload port, and what the counters of its page were."""

    app: MemoryApplication
    peer: LineClient = field(init=False)
    counters: dict[str, float] = field(default_factory=dict)
    #: Boards that are reset, and exporters that show something else, may let counters fall.
    had_faults: bool = field(init=False)

    def __post_init__(self) -> None:
        self.peer = self.app.connect()
        self.had_faults = "faults:" in self.app.text

    def do(self, what: str, detail: str) -> None:
        """One step; what it answers is no error of the service itself."""
        if what == "say":
            assert not any(line.startswith("error internal") for line in self.peer.say(detail))
            self.had_faults |= detail.startswith("fault")
            if detail == "reset":
                self.app.tick()
                self.counters.clear()
        elif what.startswith("reload"):
            self.had_faults |= "faults:" in detail
            if reload(self.app, detail or self.app.text).status == 200 and detail:
                self.counters.clear()  # other boards have the names now, perhaps
        elif what == "leave":
            self.peer.leave()
            self.peer = self.app.connect()
        elif what == "get":
            self.get(detail)
        else:
            self.app.tick()

    def get(self, template: str) -> None:
        """All that a path may mean, with names that are there and names that are not."""
        paths = [template]
        for place, names in PLACES.items():
            if f"/{place}" in template:
                paths = [path.replace(f"/{place}", f"/{name}") for path in paths for name in names]
        for path in paths:
            assert self.ask(path).status < 500, path

    def check(self) -> None:
        """The page is whole, has no series twice, and no counter fell."""
        answer = self.ask(METRICS.template)
        assert answer.status == 200
        *whole, end = answer.body.decode().split("\n")
        assert not end, "the page is torn"
        counted = {line.split()[2] for line in whole if line.startswith("# TYPE") and line.endswith(" counter")}
        series = [line.rpartition(" ") for line in whole if not line.startswith("#")]
        values = {name: float(value) for name, _, value in series}
        assert len(values) == len(series), "a series twice"
        counters = {name: value for name, value in values.items() if name.partition("{")[0] in counted - NO_COUNTERS}
        if not self.had_faults:
            assert [name for name, value in counters.items() if value < self.counters.get(name, 0.0)] == []
        self.counters |= counters

    def ask(self, path: str) -> Answer:
        """The answer of a path, which may take some turns of the reactor."""
        peer = self.app.http()
        peer.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        for _ in range(1000):
            if found := came(peer):
                peer.leave()
                return found[0]
            self.app.reactor.advance(0.001)
        raise AssertionError(f"{path} does not answer")


@pytest.mark.slow
@settings(max_examples=examples(80))
@given(configurations(), st.lists(STEPS, min_size=4, max_size=16))
def test_any_service(text: str, steps: list[tuple[str, str]]) -> None:
    """Whatever is asked of it, in whatever order; errors that are logged fail the test, too."""
    with application(text) as app:
        watched = Watched(app)
        for what, detail in steps:
            watched.do(what, detail)
            watched.check()
        for template in PATHS:
            watched.get(template)
