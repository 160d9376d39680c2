"""A frontend that answers each request at once, without any queue: what is left is the tester's own time.

``python benchmarks/instant_frontend.py READY`` listens on a free port and writes ``{"web": ["HOST:PORT"]}`` to READY.
It takes bare JSON, one request a connection, and JSON lines; it looks at no more than it needs.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from twisted.internet import reactor as _reactor
from twisted.internet.protocol import Factory, Protocol

reactor: Any = _reactor

_BARE: Final = json.dumps(
    {
        "Pod": "p",
        "Node": "n",
        "Device": "d",
        "Error": "",
        "Timeout": 0,
        "Runtime": 1e-5,
        "Waittime": 1e-5,
        "Retcode": 0,
    },
    indent="\t",
).encode()
_PUT: Final = re.compile(rb'\{"op":"put","id":(\d+).*\n')
_ENDED: Final = (
    b'{"ok":true,"id":%(n)d,"job":%(n)d}\n{"event":"ended","job":%(n)d,"outcome":"success","exit-code":0,"error":"",'
    b'"timeout-seconds":0,"run-seconds":1e-05,"wait-seconds":1e-05,"pod":"p","node":"n","device":"d"}\n'
)


class Instant(Protocol):
    """One client."""

    def __init__(self) -> None:
        self._heard = b""

    def dataReceived(self, data: bytes) -> None:
        """Answer all requests that are complete."""
        self._heard += data
        if self._heard.startswith(b"{\n"):
            if self._heard.endswith(b"}"):
                self.transport.write(_BARE)
                self.transport.loseConnection()
            return
        lines, _, self._heard = self._heard.rpartition(b"\n")
        numbers = [int(number) for number in _PUT.findall(lines + b"\n")]
        self.transport.write(b"".join([_ENDED % {b"n": number} for number in numbers]))


def main() -> None:
    """Serve until a signal comes."""
    factory = Factory.forProtocol(Instant)
    factory.noisy = False
    port = reactor.listenTCP(0, factory, backlog=1024, interface="127.0.0.1")
    ready = Path(sys.argv[1])
    ready.with_suffix(".new").write_text(json.dumps({"web": [f"127.0.0.1:{port.getHost().port}"]}))
    ready.with_suffix(".new").rename(ready)
    reactor.run()


if __name__ == "__main__":
    main()
