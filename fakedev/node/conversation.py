"""The conversation with the service in JSON lines: bytes in, messages out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fakedev.kube.node_view import NodeView, view_from
from fakedev.spec.errors import FieldError
from fakedev.wire.auth import encode_auth
from fakedev.wire.errors import ProtocolError
from fakedev.wire.node_messages import Answer, NodeMessage, Notice, Refusal, parse_node_message
from fakedev.wire.node_verbs import MAX_VIEW_BYTES
from fakedev.wire.queue_messages import encode_request

_ATTACH: Final = 1


#: Seconds of silence until a ping is sent, and until its answer must be there.
SILENT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 10.0


class ConversationOver(Exception):
    """The connection is of no use any more: the text says why."""


class Silence:
    """Decides when to send a ping, and when the service is gone although the connection is open.

    :param now: seconds of any clock, as in all methods.
    """

    def __init__(self, now: float) -> None:
        self._heard_seconds = now
        self._pinged_seconds: float | None = None

    def heard(self, now: float) -> None:
        """Something was received."""
        self._heard_seconds, self._pinged_seconds = now, None

    def must_ping(self, now: float) -> bool:
        """Whether a ping must be sent now; it is asked for once."""
        if self._pinged_seconds is not None or now - self._heard_seconds < SILENT_SECONDS:
            return False
        self._pinged_seconds = now
        return True

    def seconds_left(self, now: float) -> float:
        """How long to wait for the service at most.

        :raises ConversationOver: when it does not answer.
        """
        if self._pinged_seconds is None:
            return max(0.0, self._heard_seconds + SILENT_SECONDS - now)
        if now - self._pinged_seconds >= ANSWER_SECONDS:
            raise ConversationOver("it does not answer")
        return self._pinged_seconds + ANSWER_SECONDS - now


class ViewChanged(NamedTuple):
    """The service has sent the view of the node."""

    view: NodeView


class Conversation:
    """One connection.

    :param token: empty for none.
    :ivar is_attached: whether the service has taken the node.
    """

    def __init__(self, node: str, token: str = "") -> None:
        self._node = node
        self._token = token
        self._number = _ATTACH
        self._buffer = bytearray()
        self._scanned = 0
        self.is_attached = False

    def opening(self) -> bytes:
        """What is sent first."""
        auth = encode_auth(self._token) if self._token else b""
        return auth + encode_request("attach", _ATTACH, {"node": self._node})

    def request(self, verb: str, arguments: Mapping[str, object]) -> tuple[int, bytes]:
        """A request: its number, and the line."""
        self._number += 1
        return self._number, encode_request(verb, self._number, arguments)

    def feed(self, data: bytes) -> list[ViewChanged | Answer | Refusal]:
        """Take bytes from the service; return what they complete.

        :raises ConversationOver: when it refuses the node or the token, or does not speak this protocol.
        """
        self._buffer += data
        found: list[ViewChanged | Answer | Refusal] = []
        while (end := self._buffer.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._scanned = 0
            try:
                heard = self._heard(parse_node_message(line))
            except (ProtocolError, FieldError) as error:
                raise ConversationOver(f"it does not speak the protocol of the node port: {error.text}") from None
            if heard is not None:
                found.append(heard)
        self._scanned = len(self._buffer)
        if self._scanned > MAX_VIEW_BYTES:
            raise ConversationOver(f"a line of it is longer than {MAX_VIEW_BYTES} bytes")
        return found

    def _heard(self, message: NodeMessage) -> ViewChanged | Answer | Refusal | None:
        match message:
            case Answer(request, fields) if request == _ATTACH:
                self.is_attached = True
                return ViewChanged(view_from(fields.get("view")))
            case Notice("changed", fields):
                return ViewChanged(view_from(fields.get("view")))
            case Refusal(request, code, text) if request in (None, _ATTACH):
                raise ConversationOver(f"it refuses: {code}: {text}")
            case Answer(None, _) | Notice():
                return None  # the answer to auth; an event of a later version
            case _:
                return message
