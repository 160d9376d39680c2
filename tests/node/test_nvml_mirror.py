"""The file for NVML of a node: written with what the service answers, and alive as long as it answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path

import pytest

from fakedev.base.errors import FieldError
from fakedev.kubernetes.nodes.node_view import slot_fields, slot_from
from fakedev.node.nvml import NvmlMirror
from fakedev.node.service_link import Unanswered
from fakedev.nvml.image import SlotImage
from fakedev.nvml.records import EVENT, HEAD
from fakedev.nvml.smi.boards import Failure, Snapshot, read_snapshot
from tests.support.application import MemoryApplication, application
from tests.support.driver.nvml import boards


class Node:
    """A mirror, and the service that it asks."""

    def __init__(self, folder: Path, app: MemoryApplication) -> None:
        self.app = app
        self.path = folder / "mirror.map"
        self.asked = 0
        self.seconds = 0.0
        self.failure: Exception | None = None
        self.change: Callable[[dict[str, object]], None] = lambda fields: None
        self.silence_ns = 0
        self._image = SlotImage(app.fleet, [app.fleet.roster.nodes[0]])
        self.mirror = NvmlMirror(
            str(self.path), self._send, lambda call: call(), lambda: time.monotonic_ns() - self.silence_ns
        )

    def _send(self, verb: str, arguments: Mapping[str, object]) -> Future[Mapping[str, object]]:
        assert (verb, arguments) == ("boards", {})
        self.asked += 1
        answer: Future[Mapping[str, object]] = Future()
        if self.failure is not None:
            answer.set_exception(self.failure)
            return answer
        self._image.update()
        fields = slot_fields(self._image.counts, bytes(self._image.content))
        self.change(fields)
        answer.set_result(fields)
        return answer

    def tick(self, count: int = 1, *, is_attached: bool = True) -> None:
        """So many seconds go by."""
        for _ in range(count):
            self.app.tick()
            self.seconds += 1.0
            self.mirror.turn(self.seconds, is_attached)

    def read(self) -> Snapshot:
        """What nvidia-smi reads."""
        return read_snapshot({"FAKEDEV_NVML_FILE": str(self.path)})


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node of eight boards."""
    with application(boards(tmp_path / "nvml.map")) as app:
        yield Node(tmp_path, app)


def test_it_follows_the_service(node: Node) -> None:
    """Each tick is that of the service; without a connection nothing is asked."""
    node.tick(3, is_attached=False)
    assert (node.asked, node.path.exists()) == (0, False)
    for _ in range(3):
        node.tick()
        found = node.read()
        assert found.slot.number("tick") == node.app.fleet.state.tick
        assert len(found.boards) == 8
    node.mirror.turn(node.seconds + 0.5, True)
    assert node.asked == 3
    node.mirror.stop()
    assert not node.path.exists()


def test_an_error_code_is_an_event(node: Node) -> None:
    node.tick()
    node.app.connect().say("fault xid code=31 devices=dgx-0/2")
    node.tick(3)
    node.app.connect().say("fault reset devices=dgx-0/2")  # which clears the code, and is no event
    node.tick(3)
    content = node.path.read_bytes()
    head = HEAD.unpack(content)
    assert head["event_sequence"] == 1
    event = EVENT.unpack(content, int(head["events"]) + EVENT.size)
    assert (event["board"], event["xid"]) == (2, 31)


def test_a_service_that_is_gone(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so once; readers find no driver when the last heartbeat is old, and boards when it is back."""
    caplog.set_level(logging.INFO)
    node.tick()
    node.failure = Unanswered("the connection with the service was lost")
    node.silence_ns = 11_000_000_000
    node.tick(3)
    assert caplog.text.count("the connection with the service was lost") == 1
    node.failure = None
    node.tick()
    with pytest.raises(Failure):
        node.read()
    node.silence_ns = 0
    node.tick()
    assert len(node.read().boards) == 8


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("layout", 7, "layout: must be 4"), ("layout", None, "layout: must be 4"),
        ("counts", [1, 2], "counts: must be 6 whole numbers"),
        ("counts", [1, -8, 0, 0, 0, 64], "counts: must make a slot"),
        ("counts", [1, 10**9, 0, 0, 0, 64], "counts: must make a slot"),
        ("counts", [1, 4, 0, 0, 0, 64], "slot: must have"),
        ("slot", 7, "slot: must be a text"), ("slot", "x", "slot: must be compressed bytes"),
        ("slot", "AAAA", "slot: must be compressed bytes"),
    ],
)  # fmt: skip
def test_answers_that_do_not_fit(node: Node, key: str, value: object, text: str) -> None:
    node.tick()
    before = node.path.read_bytes()

    def change(fields: dict[str, object]) -> None:
        fields[key] = value
        with pytest.raises(FieldError, match=text):
            slot_from(fields)

    node.change = change
    node.tick()
    assert node.path.read_bytes() == before
