"""The queue that ours is compared with on kept connections: bare LineReceivers, which pass the lines of one queue on.

``python benchmarks/line_reference.py READY`` reads and writes the same lines as ours for the load of queue_load.py, as
fast as Twisted's LineReceiver allows: it parses no JSON, has no rules and checks nothing. It writes its addresses to
READY as ours does.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from pathlib import Path
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.protocol import Factory, connectionDone
from twisted.protocols.basic import LineReceiver
from twisted.python.failure import Failure

reactor: Any = _reactor
#: Requests as client and number, and backends that wait, one entry for each job that they have room for.
waiting: deque[tuple[Client, bytes]] = deque()
room: deque[Backend] = deque()
running: dict[bytes, tuple[Client, bytes]] = {}
_JOB = b'{"id":1,"ok":true,"jobs":[%b]}'
_ONE = b'{"job":%d,"queue":"sleep","args":["0"],"limit-seconds":0.0,"attempt":1,"wait-seconds":0.0}'
_DONE = b'{"id":2,"ok":true,"outcome":"success"}'
_OVER = (
    b'{"id":%b,"ok":true,"job":%b,"outcome":"success","exit-code":0,"error":"","timeout-seconds":0.0,'
    b'"run-seconds":0.000123,"wait-seconds":0.000123,"pod":"","node":"","device":""}'
)


class Client(LineReceiver):
    """Puts requests in."""

    delimiter = b"\n"

    def lineReceived(self, line: bytes) -> None:
        """A request; its number stands between the first colon with a digit and the next comma."""
        waiting.append((self, line[line.index(b'"id":') + 5 : line.index(b',"queue"')]))
        hand_out()


class Backend(LineReceiver):
    """Takes jobs and reports their ends."""

    delimiter = b"\n"
    count = 0
    _made = 0

    def lineReceived(self, line: bytes) -> None:
        """Room for so many jobs in one answer, or the end of one."""
        if line.startswith(b'{"op":"done"'):
            job = line[line.index(b'"job":') + 6 : line.index(b',"exit-code"')]
            client, number = running.pop(job)
            self.sendLine(_DONE)
            client.sendLine(_OVER % (number, job))
            return
        self.count = int(line[line.index(b'"count":') + 8 : -1])
        room.append(self)
        hand_out()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It has no room any more."""
        for _ in range(room.count(self)):
            room.remove(self)

    def take(self) -> None:
        """Send as many of the waiting jobs as there is room for."""
        jobs: list[bytes] = []
        while waiting and len(jobs) < self.count:
            Backend._made += 1
            running[b"%d" % Backend._made] = waiting.popleft()
            jobs.append(_ONE % Backend._made)
        self.sendLine(_JOB % b",".join(jobs))


def hand_out() -> None:
    """Give what waits to who has room."""
    while waiting and room:
        room.popleft().take()


def main() -> None:
    """Serve until a signal comes."""
    ports = {
        name: reactor.listenTCP(0, Factory.forProtocol(kind), interface="127.0.0.1")
        for name, kind in (("queue-clients", Client), ("queue-backends", Backend))
    }
    ready = Path(sys.argv[1])
    ready.with_suffix(".new").write_text(
        json.dumps({name: [f"127.0.0.1:{port.getHost().port}"] for name, port in ports.items()})
    )
    ready.with_suffix(".new").rename(ready)
    reactor.run()


if __name__ == "__main__":
    main()
