"""The request that gives a port its token, as programs send it in JSON lines.

It is a module of its own, because fakedev-workload starts by the thousand and imports little.
"""

from __future__ import annotations

import json


def encode_auth(token: str) -> bytes:
    """The request as a line; it has no id, and neither has its answer."""
    return json.dumps({"op": "auth", "token": token}, separators=(",", ":")).encode("ascii") + b"\n"


def is_plain_ok(line: bytes) -> bool:
    """Whether a line is the good answer to that request."""
    return line.startswith(b'{"ok":true')
