"""Limits for the peers of a line port: their number, and the time that they may take.

At the limit of connections, silent peers are closed for new ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from heapq import nlargest
from itertools import islice
from operator import methodcaller
from typing import Any, Final, TypeVar

from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory

from fakedev.lines.grammar import ProtocolError
from fakedev.lines.peers import has_input
from fakedev.lines.tokens import TOKEN_SECONDS
from fakedev.runtime.clock import Timeouts
from fakedev.runtime.turns import FairShare, ITurnObserver

MAX_CONNECTIONS: Final = 10_000
MESSAGE_SECONDS: Final = 10.0
#: Seconds for the peer to take what the transport holds, once its buffer is full.
PATIENCE_SECONDS: Final = 10.0
#: Seconds that a peer has to read its last answer, while its input is dropped.
LINGER_SECONDS: Final = 2.0
#: Peers that are looked at for one new one: those whose input waits at the socket are not silent any more.
_MAX_LOOKS: Final = 16
#: From this number of connections on, a port closes one in a hundred at once to make room.
_MANY: Final = 1000

Peer = TypeVar("Peer")


def first_to_leave(silent: Mapping[Peer, str], counts: Mapping[str, int], most: int) -> list[Peer]:
    """The peers that make room: one by one the longest silent one of the host that has the most connections then.

    :param silent: the host of each, the longest silent first.
    :param counts: the connections of each host, also those that are not silent.
    """
    left, sizes = dict(counts), dict[Peer, int]()
    for peer, host in silent.items():
        sizes[peer] = left[host]
        left[host] -= 1
    return nlargest(most, silent, key=sizes.__getitem__)


class PortLimits(Factory):
    """The base of the factory of a line port: what its connections share.

    :param max_connections: beyond this number the longest silent peer without work, of the host with the most
        connections, gets ``error busy`` and is closed; if there is none, or the new one's host has the most, the new
        one. Those whose message is incomplete follow the silent ones.
    :param message_seconds: from the first byte of a message to its last one.
    :param idle_answer_seconds: a peer that sends nothing for this long before its first message is complete gets
        the answer of a bare peer and is closed; None for no such rule.
    :param verbose: log every message, of both sides.
    :param fair_share: shares the reactor; several ports may have one.
    :param turn_observer: called after each turn of a connection, and when a connection has ended.
    :param closed: counts the connections that this side has closed, by reason: the code of the last error, ``full`` (a
        new one had no room), ``silent`` (made room for another one), ``unread`` (did not read its answers),
        ``handshake`` and ``plain`` (see :class:`~fakedev.lines.server.Handshakes`).
    :ivar silent: admitted peers without work, the longest silent first.
    :ivar origins: connections by host; on a UNIX socket by process.
    :ivar message, first_byte, reading, lingering, without_token: the deadlines of peers: to complete a message, to
        send a further byte of the first one, to read what was sent, to read the last answer, to send their token.
    """

    #: Whether the port serves nobody while a tick of the fleet is paused.
    waits_for_ticks = False

    def __init__(
        self,
        clock: IReactorTime,
        *,
        max_connections: int = MAX_CONNECTIONS,
        message_seconds: float = MESSAGE_SECONDS,
        idle_answer_seconds: float | None = None,
        verbose: bool = False,
        fair_share: FairShare | None = None,
        turn_observer: ITurnObserver | None = None,
        closed: Counter[str] | None = None,
    ) -> None:
        self.clock = clock
        self.max_connections = max_connections
        self.verbose = verbose
        self.fair_share = fair_share or FairShare(clock)
        self.turn_observer = turn_observer
        self.closed: Counter[str] = Counter() if closed is None else closed
        self.peers: set[Any] = set()
        self.silent: dict[Any, None] = {}
        self.origins: Counter[str] = Counter()
        #: The next of the silent peers to make room, which are not looked for at each new connection to a full port.
        self._spare: dict[Any, None] = {}
        self.message: Timeouts[Any] = Timeouts(clock, message_seconds, methodcaller("message_is_late"))
        self.first_byte: Timeouts[Any] | None = None
        if idle_answer_seconds is not None:
            self.first_byte = Timeouts(clock, idle_answer_seconds, methodcaller("first_byte_is_late"))
        self.reading: Timeouts[Any] = Timeouts(clock, PATIENCE_SECONDS, methodcaller("peer_is_late"))
        self.lingering: Timeouts[Any] = Timeouts(clock, LINGER_SECONDS, methodcaller("end_linger"))
        self.without_token: Timeouts[Any] = Timeouts(clock, TOKEN_SECONDS, methodcaller("token_is_late"))

    def make_room(self, host: str = "") -> bool:
        """Close a silent peer; return whether there was one. Peers without a token make room first.

        :param host: of the new peer: no host with as few connections loses one for it. Empty if it is not known.
        """
        if not self._spare or self.max_connections < _MANY:
            most = max(_MAX_LOOKS, self.max_connections // 100)
            silent = {peer: peer.origin for peer in (*self.silent, *self.message)}
            self._spare = dict.fromkeys(first_to_leave(silent, self.origins, most))
        for peers in (self.without_token, self._spare):
            for peer in list(islice(peers, _MAX_LOOKS)):
                self._spare.pop(peer, None)
                is_theirs = host in ("", peer.origin) or self.origins[peer.origin] > self.origins[host]
                if is_theirs and not has_input(peer.transport):
                    text = f"{len(self.peers)} connections are open, and this one was silent for the longest time"
                    peer.dismiss(ProtocolError("busy", text, fatal=True), "silent")
                    return True
        return False

    def joined(self, peer: Any) -> None:
        """A connection was made."""
        self.peers.add(peer)
        self.origins[peer.origin] += 1

    def left(self, peer: Any) -> None:
        """A connection is gone, if it was made."""
        if peer in self.peers:
            self.peers.remove(peer)
            self.origins[peer.origin] -= 1
            if not self.origins[peer.origin]:
                del self.origins[peer.origin]
        self.forget(peer)

    def no_silence(self, peer: Any) -> None:
        """A peer has sent or received something."""
        self.silent.pop(peer, None)
        self._spare.pop(peer, None)

    def forget(self, peer: Any) -> None:
        """No message of a peer will be served any more."""
        self.no_silence(peer)
        self.without_token.stop(peer)
        self.no_message(peer)

    def no_message(self, peer: Any) -> None:
        """No message of a peer is incomplete, or its time does not count."""
        self.message.stop(peer)
        if self.first_byte is not None:
            self.first_byte.stop(peer)
