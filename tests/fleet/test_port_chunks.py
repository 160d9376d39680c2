"""Sessions at the workload port get the same answers in pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.application import application
from tests.support.examples import examples
from tests.support.fleet.workload_ports import OF_NODE_B, ORIGINAL, PORTS

SESSIONS = {
    "words": (
        b"help run\n\n  \r\nrun x devices=a/0 profile=50:0:2 pod='a b'\r\nlist\nrun\nrum\nstop nobody\n"
        b"advance 1s\nshow x\nrun y devices=a/* profile=10 detach\nadvance 5s\ndevices\nstop y\nquit\nlist\n"
    ),
    "JSON lines": (
        b' \n{"op": "run", "name": "x {",\n "devices": ["a/0"], "profile": [[50, 0, 2]], "id": 1}\n{"op":"list"}\n'
        b'{"op":"stop","workload":"nobody","id":"\\u00e9"}\n{"op":"advance","duration":5,"id":2}\n{bad}\n'
        b'\n{"op":"devices"}\r\n{"op":"quit","id":3}\n{"op":"list"}\n'
    ),
    "bare": b" \n" + ORIGINAL + b"\n",
    "bad": b'{"Name":"x"}',
}


def session(*segments: bytes) -> tuple[bytes, bool]:
    """What a session that arrives in these segments is answered, and whether it was closed."""
    with application(PORTS) as app:
        peer = app.connect(OF_NODE_B)
        app.factories(type(peer.protocol.factory))[OF_NODE_B].allow = frozenset({"workloads", "clock"})
        for segment in segments:
            peer.send(segment)
            app.reactor.advance(0)
        app.tick(12)
        return peer.transport.value(), peer.closed


@pytest.mark.parametrize("way", SESSIONS)
def test_byte_by_byte(way: str) -> None:
    """A session that arrives byte by byte gets the same answers."""
    said = SESSIONS[way]
    whole = session(said)
    assert whole[0]
    assert whole[1] is True
    assert session(*(said[place : place + 1] for place in range(len(said)))) == whole


@pytest.mark.parametrize("way", SESSIONS)
@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_in_any_segments(way: str, data: st.DataObject) -> None:
    """It is cut at every place."""
    said = SESSIONS[way]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=6)))
    segments = [said[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    assert session(*segments) == session(said)
