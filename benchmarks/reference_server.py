"""The program that ours is compared with: plain twisted.web and a fixed body.

``python benchmarks/reference_server.py FILE READY`` serves FILE at /metrics on a free port, and writes
``{"web": ["HOST:PORT"]}`` to READY as ours does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

reactor: Any = _reactor


class FixedBody(Resource):
    """The same bytes for everyone."""

    isLeaf = True

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self._body = body

    def render_GET(self, request: Request) -> bytes:
        """The bytes."""
        request.setHeader(b"content-type", b"text/plain; charset=utf-8")
        return self._body


class QuietSite(Site):
    """No access log, as ours has none."""

    def log(self, request: Request) -> None:
        """Nothing."""


def main() -> None:
    """Serve until a signal comes."""
    root = Resource()
    root.putChild(b"metrics", FixedBody(Path(sys.argv[1]).read_bytes()))
    port = reactor.listenTCP(0, QuietSite(root), interface="127.0.0.1")
    ready = Path(sys.argv[2])
    ready.with_suffix(".new").write_text(json.dumps({"web": [f"127.0.0.1:{port.getHost().port}"]}))
    ready.with_suffix(".new").rename(ready)
    reactor.run()


if __name__ == "__main__":
    main()
