"""The workload port as the original's client speaks to it, over the whole application."""

from __future__ import annotations

import pytest

from tests.support.application import LineClient
from tests.support.fleet.workload_ports import OF_NODE_B, OPEN, ORIGINAL, WorkloadPortCase, bare


class TestBare(WorkloadPortCase):
    """The original's client."""

    def send(self, *segments: bytes, place: int = OPEN) -> LineClient:
        """A new peer that has sent these segments."""
        peer = self.app.connect(place)
        peer.send(*segments)
        return peer

    def test_the_original_message(self) -> None:
        """Accepted as it is; answered by one digit in one write when its profile is over twice; then closed."""
        peer = self.send(ORIGINAL, place=OF_NODE_B)
        self.app.tick(9)
        assert (peer.heard(), peer.closed) == (b"", False)
        self.app.tick()
        assert (peer.heard(), peer.transport.writes, peer.closed) == (b"0", [b"0"], True)

    def test_1_for_a_limit(self) -> None:
        """A workload that crosses its limit."""
        peer = self.send(bare(Limits={"power": 10}))
        self.app.tick()
        assert (peer.heard(), peer.closed) == (b"1", True)

    def test_0_when_stopped(self) -> None:
        """By another peer."""
        peer = self.send(bare(Repeat=0))
        self.app.tick(100)
        assert not peer.heard()
        self.peer.say("stop x")
        self.app.tick()
        assert (peer.heard(), peer.closed) == (b"0", True)

    @pytest.mark.slow
    def test_missing_is_0(self) -> None:
        """Repeat 0 is for ever, seconds 0 until stopped, names in any letter case, unknown ones ignored."""
        peer = self.send(b'{"NAME":"x","profile":[{"LOAD":50}],"devices":["a/0"],"Colour":"red"}')
        self.app.tick(1000)
        assert (peer.heard(), self.workloads) == (b"", ["x"])

    def test_invalid(self) -> None:
        """Every invalid object gets 1 and is disconnected; nothing of it remains, and others continue."""
        good = self.send(bare(Name="good", Repeat=0))
        invalid = [
            b"{}",
            b'{"Name": }',
            b'{"Name" "x"}',
            b"{]}",
            bare(Name=None),
            bare(Name=5),
            bare(Name=""),
            bare(Name="a\0b"),
            bare(Name="x" * 1025),
            bare(Devices=[]),
            bare(Devices=None),
            bare(Devices="a/0"),
            bare(Devices=["a/0", 1]),
            bare(Devices=["card99"]),
            bare(Devices=["card0"]),
            bare(Devices=[""]),
            bare(Profile=[]),
            bare(Profile=None),
            bare(Profile={}),
            bare(Profile=[5]),
            bare(Profile=[{"Load": 101}]),
            bare(Profile=[{"Load": -1}]),
            bare(Profile=[{"Load": "50"}]),
            bare(Profile=[{"Load": True}]),
            bare(Profile=[{"Load": 60, "Fluctuation": 50}]),
            bare(Profile=[{"Load": 10, "Fluctuation": 11}]),
            bare(Profile=[{"Load": 10, "Seconds": -1}]),
            bare(Profile=[{"Load": 10, "Seconds": 0}, {"Load": 10}]),
            bare(Profile=[{"Load": float("nan")}]),
            bare(Repeat=-1),
            bare(Repeat=1.5),
            bare(Repeat="2"),
            bare(Limits={"power": "1"}),
            bare(Limits={"nothing": 1}),
            bare(Limits=5),
            bare().replace(b"10", b"1e999"),
            bare().replace(b"10", b"NaN"),
            bare().replace(b'"a/0"', b'"a/\xff"'),
            bare() + b"x",
            bare() + b"{}",
            b"{" + b"[" * 100 + b"]" * 100 + b"}",
            b'{"Name":"' + b"x" * 65536,
        ]
        for message in invalid:
            peer = self.send(message)
            assert (peer.heard(), peer.closed) == (b"1", True), message[:200]
        assert self.workloads == ["good"]
        assert not good.closed

    def test_the_largest_object(self) -> None:
        """64 KiB are taken, one byte more is not."""
        message = bare(Repeat=0)
        space = b" " * (65536 - len(message))
        peer = self.send(b"{" + space + message[1:])
        assert (peer.heard(), peer.closed) == (b"", False)
        peer = self.send(b"{ " + space + message[1:])
        assert (peer.heard(), peer.closed) == (b"1", True)

    def test_half_an_object_then_silence(self) -> None:
        """It gets 1 after 10 s, however the bytes trickle; no other peer is delayed."""
        peer = self.send(ORIGINAL[:100])
        for byte in ORIGINAL[100:109]:
            self.app.tick()
            assert not peer.closed
            peer.send(bytes([byte]))
        self.app.tick()
        assert (peer.heard(), peer.closed) == (b"1", True)
        assert self.peer.say("list") == ["ok 0 lines"]

    def test_white_space_after_it(self) -> None:
        """Is ignored, also when it comes later."""
        peer = self.send(bare(), b"\n", b" \t\r\n")
        self.app.tick(3)
        assert (peer.heard(), peer.closed) == (b"0", True)

    def test_a_second_object_while_it_runs(self) -> None:
        """A connection carries one: it gets 1, and the first is gone."""
        peer = self.send(bare(Repeat=0))
        self.app.tick()
        peer.send(bare())
        assert (peer.heard(), peer.closed) == (b"1", True)
        assert self.workloads == ["x"]
        self.app.tick()
        assert self.workloads == []
