"""Every page that a browser draws says what it may load."""

from __future__ import annotations

from fakedev.web.paths import STREAM, WEB_PATHS
from tests.support.application import application

_TEXT = """
fleet: {pools: [{name: p, nodes: [a], device: h100, devices-per-node: 2, identity: dcgm}]}
web: ["127.0.0.1:9400"]
workloads: {listen: ["127.0.0.1:9500"]}
queues: {names: [q]}
tester: {plans: [{queue: q, rate: 1/s}]}
"""
_NAMES = {"NODE": "a", "INDEX": "0", "NAME": "q"}


def test_every_html_page_has_a_policy() -> None:
    """The web page and the tester's pages begin with ``default-src 'none'``, and nobody may put them into a frame."""
    drawn = {}
    with application(_TEXT) as app:
        app.tick()
        for path in WEB_PATHS:
            if path is not STREAM and "GET" in path.methods:
                target = "/".join(_NAMES.get(part, part) for part in path.template.split("/"))
                headers = app.get(target).headers
                if "html" in headers.get("content-type", ""):
                    drawn[target] = headers.get("content-security-policy", "")
    assert {"/", "/tester/stats", "/tester/fails"} <= drawn.keys()
    assert not [path for path, policy in drawn.items() if not policy.startswith("default-src 'none'; ")], drawn
    assert not [path for path, policy in drawn.items() if "frame-ancestors 'none'" not in policy], drawn
