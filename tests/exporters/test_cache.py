"""Pages: rendered at most once a tick, only when asked, shared; large ones in pieces that show one state."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from twisted.internet.defer import Deferred

from fakedev.config.configuration import Configuration
from fakedev.exporters.cache import TICK_HEADER, CachedPage, LatestPages, Pages, Selection
from fakedev.exporters.identity import Identity
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.entities.state import State
from fakedev.fleet.events import Reload, StartWorkload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.web.response import Response
from tests.support.application import AppReactor
from tests.support.configurations import loaded
from tests.support.deferreds import failure_result_of, success_result_of

TWO_POOLS = """
fleet:
  seed: 7
  epoch: 1800000000
  pools:
    - {name: green, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}
    - {name: blue, nodes: [c], device: flex-170, devices-per-node: 3, identity: xpumanager}
web: []
workloads: {listen: [], base: [{name: base, devices: all, profile: "40:20:0"}]}
"""
#: 30,000 lines or so.
LARGE = """
fleet:
  seed: 7
  epoch: 1800000000
  pools: [{name: p, nodes: 200, device: h100, devices-per-node: 8, identity: dcgm}]
web: []
workloads: {listen: [], base: [{name: base, devices: all, profile: "40:20:0"}]}
"""


class BusyReactor(AppReactor):
    """A reactor whose clock moves a millisecond each time it is read, as if work took time."""

    def seconds(self) -> float:
        self.rightNow += 0.001
        return self.rightNow


def tick_of(response: Response) -> int:
    return int(dict(response.headers)[TICK_HEADER])


def made_alone(fleet: Fleet, configuration: Configuration) -> bytes:
    """The fleet's page at its present tick, made apart from any cache."""
    pools: dict[str, list[RosterNode]] = {}
    for node in fleet.roster.nodes:
        pools.setdefault(node.pool.name, []).append(node)
    source = DeviceSource(fleet)
    parts = [Page(LabelCache(configuration.identities[name], source), nodes) for name, nodes in pools.items()]
    return b"".join(part.render(fleet.state) for part in parts)


class CountingPage(Page[RosterNode]):
    """Notes the ticks that it is rendered at; fails when a test says so."""

    def __init__(self, identity: Identity, fleet: Fleet) -> None:
        super().__init__(LabelCache(identity, DeviceSource(fleet)), fleet.roster.nodes)
        self.ticks: list[int] = []
        self.fails = False

    def slices(self, state: State) -> Iterator[bytes]:
        self.ticks.append(state.tick)
        if self.fails:
            return self._failing()
        return super().slices(state)

    def _failing(self) -> Iterator[bytes]:
        yield b"a piece"
        raise RuntimeError("an internal error")


def ready(page: CachedPage) -> Response:
    response = page.response()
    assert isinstance(response, Response)
    return response


class TestSmallPage:
    """Two pools with different identities."""

    def setup_method(self) -> None:
        self.configuration = loaded(TWO_POOLS)
        self.fleet = Fleet(self.configuration.fleet)
        self.pages = Pages(self.fleet, self.configuration.identities, AppReactor())
        self.part = CountingPage(self.configuration.identities["green"], self.fleet)
        self.page = CachedPage(lambda: self.fleet.state, AppReactor(), [self.part])

    def test_only_when_asked(self) -> None:
        """Ticks without requests cost no rendering."""
        for _ in range(10):
            self.fleet.advance()
        assert self.part.ticks == []

    def test_once_a_tick(self) -> None:
        """All requests in one tick get the same Response; the next tick has its own."""
        self.fleet.advance()
        first = ready(self.page)
        assert all(ready(self.page) is first for _ in range(16))
        assert self.part.ticks == [1]
        self.fleet.advance()
        second = ready(self.page)
        assert self.part.ticks == [1, 2]
        assert bytes(second.body) != bytes(first.body)
        assert (tick_of(first), tick_of(second)) == (1, 2)

    def test_pages_of_earlier_ticks_are_let_go(self) -> None:
        """As soon as any page shows a later tick, for they are large; those of the same tick stay."""
        earlier, latest = self.fleet.state, LatestPages()
        early = CachedPage(lambda: earlier, AppReactor(), [self.part], latest=latest)
        late = CachedPage(lambda: self.fleet.state, AppReactor(), [self.part], latest=latest)
        first = ready(early)
        ready(late)
        assert ready(early) is first
        self.fleet.advance()
        ready(late)
        assert self.part.ticks == [0, 0, 1]
        assert bytes(ready(early).body) == bytes(first.body)
        assert self.part.ticks == [0, 0, 1, 0]

    def test_an_event_does_not_change_a_page_before_its_tick(self) -> None:
        """Requests before and after an event of the same tick get the same bytes."""
        page = self.pages.fleet_page(Selection(pool="green"))
        self.fleet.advance()
        before = bytes(ready(page).body)
        fields = {"name": "x", "devices": "a/0", "profile": "60:0:0", "pod": "pod-of-mine"}
        self.fleet.apply(StartWorkload(workload_from_fields(fields)))
        fresh = Pages(self.fleet, self.configuration.identities, AppReactor())
        assert bytes(ready(fresh.fleet_page(Selection(pool="green"))).body) == bytes(ready(page).body) == before
        self.fleet.advance()
        assert b"pod-of-mine" in bytes(ready(page).body)

    def test_pools_with_different_identities(self) -> None:
        """Each pool as its own exporter would; the whole fleet as one after the other; each family once."""
        whole = bytes(ready(self.pages.fleet_page()).body)
        green = bytes(ready(self.pages.fleet_page(Selection(pool="green"))).body)
        blue = bytes(ready(self.pages.fleet_page(Selection(pool="blue"))).body)
        assert whole == green + blue == made_alone(self.fleet, self.configuration)
        assert b"DCGM_FI_DEV_GPU_UTIL{" in green
        assert b"DCGM" not in blue
        assert b"xpum_" in blue
        declared = [line for line in whole.splitlines() if line.startswith(b"# TYPE")]
        assert len(declared) == len(set(declared)) > 10

    def test_content_type_of_the_identity(self) -> None:
        """The page has the type that its exporter gives it."""
        green = ready(self.pages.fleet_page(Selection(pool="green")))
        assert green.content_type == self.configuration.identities["green"].content_type

    def test_a_node_page(self) -> None:
        """Only one node's devices, as its exporter prints it; it is cached, as every page is."""
        node = self.fleet.roster.node("b")
        assert node is not None
        page = self.pages.node_page(node)
        body = bytes(ready(page).body)
        assert b'Hostname="b"' in body
        assert b'Hostname="a"' not in body
        assert self.pages.node_page(node) is page
        assert set(body.splitlines()) < set(bytes(ready(self.pages.fleet_page()).body).splitlines())

    def test_another_identity(self) -> None:
        """An endpoint may show all devices as one exporter would: its page is not that of the pools' own."""
        dcgm = self.configuration.identities["green"]
        shown = bytes(ready(self.pages.fleet_page(Selection(identity=dcgm))).body)
        assert shown.count(b"\nDCGM_FI_DEV_GPU_TEMP{") == 7
        assert shown != bytes(ready(self.pages.fleet_page()).body)
        node = self.fleet.roster.node("c")
        assert node is not None
        assert b"DCGM" in bytes(ready(self.pages.node_page(node, Selection(identity=dcgm))).body)
        assert b"DCGM" not in bytes(ready(self.pages.node_page(node)).body)


class TestLargePage:
    """1600 devices, a clock that shows that work takes time."""

    def setup_method(self) -> None:
        self.configuration = loaded(LARGE)
        self.fleet = Fleet(self.configuration.fleet)
        self.reactor = BusyReactor()
        self.part = CountingPage(self.configuration.identities["p"], self.fleet)
        self.page = CachedPage(lambda: self.fleet.state, self.reactor, [self.part])

    def fair_share(self, waiter: Deferred[Response], between: Callable[[], object] = lambda: None) -> int:
        count = 0
        while not waiter.called:
            between()
            self.reactor.turn()
            count += 1
            assert count < 5000
        return count

    def waiting(self) -> Deferred[Response]:
        """A request for the page that waits."""
        response = self.page.response()
        assert isinstance(response, Deferred)
        return response

    @pytest.mark.slow
    def test_over_many_turns(self) -> None:
        """A large page leaves the reactor free between its pieces, and is right in the end."""
        waiter = self.waiting()
        assert self.fair_share(waiter) > 5
        body = bytes(success_result_of(waiter).body)
        assert len(body) > 5_000_000
        assert body == made_alone(self.fleet, self.configuration)

    @pytest.mark.slow
    def test_many_who_wait(self) -> None:
        """They all get the same page, some in each turn."""
        waiters = [self.waiting() for _ in range(100)]
        self.fair_share(waiters[0])
        assert 0 < sum(waiter.called for waiter in waiters) < 20
        self.fair_share(waiters[-1])
        assert len({id(success_result_of(waiter)) for waiter in waiters}) == 1 and len(self.part.ticks) == 1

    @pytest.mark.slow
    def test_one_state_though_ticks_pass(self) -> None:
        """A tick between any two pieces: still all lines are of one tick, the one that is stated."""
        waiter = self.waiting()
        self.fair_share(waiter, self.fleet.advance)
        response = success_result_of(waiter)
        assert self.fleet.state.tick > tick_of(response) + 3
        assert self.part.ticks == [tick_of(response)]
        alone = Fleet(self.configuration.fleet)
        for _ in range(tick_of(response)):
            alone.advance()
        assert bytes(response.body) == made_alone(alone, self.configuration)

    @pytest.mark.slow
    def test_labels_that_change_meanwhile(self) -> None:
        """A workload that begins while pieces are made changes none of them."""
        waiter = self.waiting()
        while not self.part.ticks:
            self.reactor.turn()
        expected = made_alone(self.fleet, self.configuration)
        fields = {"name": "x", "devices": "all", "profile": "60:0:0", "pod": "pod-of-mine"}
        self.fleet.apply(StartWorkload(workload_from_fields(fields)))
        self.fleet.advance()
        self.fair_share(waiter)
        assert bytes(success_result_of(waiter).body) == expected
        second = self.waiting()
        self.fair_share(second)
        assert bytes(success_result_of(second).body).count(b'pod="pod-of-mine"') > 1600

    @pytest.mark.slow
    def test_several_wait_for_one(self) -> None:
        """A request while the page is made gets it too; it is made once."""
        waiters = [self.waiting()]
        for _ in range(5):
            self.reactor.turn()
            waiters.append(self.waiting())
        self.fair_share(waiters[-1])
        responses = [success_result_of(waiter) for waiter in waiters]
        assert len(set(map(id, responses))) == 1
        assert self.part.ticks == [0]
        assert self.page.response() is responses[0]

    @pytest.mark.slow
    def test_a_fault_is_reported_to_all_waiting_requests(self) -> None:
        """And the next request starts again."""
        self.part.fails = True
        first, second = self.waiting(), self.waiting()
        self.fair_share(first)
        for waiter in (first, second):
            failure_result_of(waiter, RuntimeError)
        self.part.fails = False
        third = self.waiting()
        self.fair_share(third)
        assert bytes(success_result_of(third).body) == made_alone(self.fleet, self.configuration)


class TestFollowing:
    """The fleet reloads with other nodes while pages are cached and made."""

    def setup_method(self) -> None:
        self.configuration = loaded(LARGE)
        self.fleet = Fleet(self.configuration.fleet)
        self.reactor = BusyReactor()
        self.pages = Pages(self.fleet, self.configuration.identities, self.reactor)

    def apply_reload(self, text: str) -> None:
        coming = loaded(text)
        self.fleet.apply(Reload(CompiledFleet(coming.fleet), RecordHead("", 0.0)))
        self.fleet.advance()
        self.pages.follow(coming.identities)
        self.expected = made_alone(self.fleet, coming)

    def waiting(self, page: CachedPage) -> list[object]:
        """Ask for a page that takes a while; what comes of it."""
        answer = page.response()
        assert isinstance(answer, Deferred)
        came: list[object] = []
        answer.addBoth(came.append)
        return came

    def turn(self, came: list[object]) -> None:
        """Turn the reactor until something came."""
        for _ in range(10_000):
            if came:
                return
            self.reactor.turn()

    @pytest.mark.slow
    def test_who_waits_is_given_the_page_of_the_new_fleet(self) -> None:
        for fair_share in (0, 3, 20):
            came = self.waiting(self.pages.fleet_page())
            for _ in range(fair_share):
                self.reactor.turn()
            assert came == []
            self.apply_reload(LARGE.replace("nodes: 200", f"nodes: {150 + fair_share}"))
            self.turn(came)
            (response,) = came
            assert isinstance(response, Response)
            assert bytes(response.body) == self.expected
            self.fleet.advance()

    def test_another_identity(self) -> None:
        self.apply_reload(LARGE.replace("nodes: 200", "nodes: 2").replace("identity: dcgm", "identity: collectd"))
        came = self.waiting(self.pages.fleet_page())
        self.turn(came)
        (page,) = came
        assert isinstance(page, Response)
        assert bytes(page.body) == self.expected
        assert b"collectd_" in self.expected

    def test_a_node_that_is_gone(self) -> None:
        """Requests that wait for its page get 404."""
        node = self.fleet.roster.node("p-199")
        assert node is not None
        page = self.pages.node_page(node)
        page.hand_over(None)
        came = self.waiting(page)
        self.reactor.turn()
        page.hand_over(None)
        (failure,) = came
        assert str(getattr(failure, "value", "")) == "nothing is here any more"
