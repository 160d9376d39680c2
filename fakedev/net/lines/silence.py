"""The peers of a line port that may be closed for a new one, in the order in which they would be."""

from __future__ import annotations

import socket
from itertools import islice
from typing import Any, Final, Protocol

from twisted.internet.interfaces import IReactorTime

from fakedev.net.lines.tokens import TOKEN_SECONDS, token_missing
from fakedev.net.system.timing import PatientCall
from fakedev.wire.errors import ProtocolError

#: Peers that are looked at for one new one: those whose input waits at the socket are not silent any more.
_MAX_LOOKS: Final = 16


class SilentPeer(Protocol):
    """What is needed of a connection; see :class:`~fakedev.net.lines.connection.LineConnection`."""

    transport: Any
    is_admitted: bool

    def is_silent(self) -> bool: ...
    def dismiss(self, error: ProtocolError, reason: str = "") -> None: ...


class SilentPeers:
    """Orders connections: first those without a token, as they came; then those without work, the longest silent first.

    Each change and each search takes the same short time, however many there are.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._without_token: dict[SilentPeer, float] = {}  # until when they may give it
        self._silent: dict[SilentPeer, None] = {}
        self._call: PatientCall | None = None

    def note(self, peer: SilentPeer) -> None:
        """Something was received from a peer, or sent to it."""
        if not peer.is_admitted:
            self._without_token.setdefault(peer, self._clock.seconds() + TOKEN_SECONDS)
            self._schedule()
            return
        self._silent.pop(peer, None)
        if peer.is_silent():
            self._silent[peer] = None

    def forget(self, peer: SilentPeer) -> None:
        """A peer is about to be closed, or has given its token."""
        self._silent.pop(peer, None)
        if self._without_token.pop(peer, None) is not None and not self._without_token and self._call is not None:
            self._call.cancel()
            self._call = None

    def find(self) -> SilentPeer | None:
        """The peer that is to be closed for a new one; None when all are at work."""
        for peers in (self._without_token, self._silent):
            for peer in islice(peers, _MAX_LOOKS):
                if not _has_input(peer.transport):
                    return peer
        return None

    def _schedule(self) -> None:
        # One call for all: they come in the order in which their time is over.
        if self._call is None and self._without_token:
            until = next(iter(self._without_token.values()))
            self._call = PatientCall(self._clock, max(0.0, until - self._clock.seconds()), self._expire)

    def _expire(self) -> None:
        self._call = None
        now = self._clock.seconds()
        for peer in [peer for peer, until in self._without_token.items() if until <= now]:
            peer.dismiss(token_missing(is_bare=False))
        self._schedule()


def _has_input(transport: Any) -> bool:
    """Whether bytes wait at a connection's socket that the reactor has not read yet."""
    get_handle = getattr(transport, "getHandle", None)
    handle = get_handle() if get_handle is not None else None
    if not isinstance(handle, socket.socket):
        return False
    try:
        return bool(handle.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:
        return False
