"""What becomes of workloads of the workload port when they, or their peers, end."""

from __future__ import annotations

from tests.support.fleet.workload_ports import WorkloadPortCase, bare


class TestLife(WorkloadPortCase):
    """A workload lives as long as its connection, unless it is detached."""

    def test_dropped_with_its_connection(self) -> None:
        """It is gone with the next tick, without a notification."""
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=50", "run y devices=a/0 profile=50 detach")
        third = self.app.connect()
        third.send(bare(Name="z", Repeat=0))
        self.app.tick()
        peer.leave()
        third.leave()
        self.app.tick()
        assert self.workloads == ["y"]
        assert self.app.json("/api/v1/devices/a/0")["quantities"]["usage_ratio"] == 0.5

    def test_ttl(self) -> None:
        """A detached workload ends by its ttl."""
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=50 detach ttl=5s")
        peer.leave()
        self.app.tick(4)
        assert self.workloads == ["x"]
        self.app.tick()
        assert self.workloads == []

    def test_news_of_detached_workloads(self) -> None:
        """Their peer is not told: it asked not to care."""
        self.peer.say("run x devices=a/0 profile=50:0:1 detach")
        self.app.tick(2)
        assert self.peer.lines() == []

    def test_end_of_input_with_work(self) -> None:
        """`nc -N`: everything is answered, then closed; the workload goes with its peer."""
        self.peer.send(b"run x devices=a/0 profile=50\nlist\nrun y devices=a/1 profile=1 detach")
        self.peer.end_input()
        lines = self.peer.lines()
        assert (lines[0], lines[1], lines[-1]) == ("ok w2", "ok 1 lines", "ok w3")
        assert self.peer.closed
        assert self.workloads == ["y"]

    def test_end_of_input_without_work(self) -> None:
        """A last line without LF counts; JSON lines too."""
        self.peer.send(b"help quit")
        self.peer.end_input()
        assert self.peer.lines()[0].startswith("ok ")
        assert self.peer.closed
        peer = self.app.connect()
        peer.send(b'{"op":"list"}\n{"op":"list","id":2}')
        peer.end_input()
        assert [answer.get("id") for answer in peer.told()] == [None, 2]
        assert peer.closed

    def test_end_of_input_while_an_advance_is_waited_for(self) -> None:
        """The peer that asked by `nc -N` has its answer when the clock has reached the time."""
        self.peer.send(b"advance 60s\n")
        self.peer.end_input()
        assert self.peer.lines() == ["ok tick 60 seconds 60"]

    def test_end_of_input_of_a_bare_peer(self) -> None:
        """Inside its object it gets 1; while its workload runs it counts as gone."""
        peer = self.app.connect()
        peer.send(bare()[:50])
        peer.end_input()
        assert (peer.heard(), peer.closed) == (b"1", True)
        peer = self.app.connect()
        peer.send(bare(Repeat=0))
        self.app.tick()
        peer.end_input()
        assert (peer.heard(), peer.closed) == (b"", True)
        self.app.tick()
        assert self.workloads == []

    def test_an_event_in_the_tick_of_its_own_drop(self) -> None:
        """A workload that came and went within a tick is seen by no tick, and what it held is free."""
        before = self.app.json("/api/v1/devices/a/0")["quantities"]
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=98 pod=never")
        peer.leave()
        assert self.workloads == []
        self.app.tick()
        after = self.app.json("/api/v1/devices/a/0")["quantities"]
        assert after["usage_ratio"] == before["usage_ratio"] == 0
        assert b"never" not in self.app.get("/metrics").body

    def test_a_stop_in_the_tick_of_a_drop(self) -> None:
        """In every order, once is enough, and nothing fails."""
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=98")
        self.app.tick()
        self.peer.say("stop x")
        peer.leave()
        assert self.peer.say("stop x") == ["error unknown-name no workload 'x'"]
        self.app.tick()
        assert self.workloads == []
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=98")
        self.app.tick()
        peer.leave()
        assert self.peer.say("stop x") == ["error unknown-name no workload 'x'"]
        self.app.tick()
        assert self.workloads == []

    def test_the_end_in_the_tick_of_the_drop(self) -> None:
        """The connection is lost in the tick in which the profile is over."""
        peer = self.app.connect()
        peer.say("run x devices=a/0 profile=98:0:2")
        self.app.tick()
        peer.leave()
        self.app.tick()
        assert self.workloads == []
