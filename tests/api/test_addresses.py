"""What each kind of address serves: control never appears where only metrics are served."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakedev.web.paths import WEB_PATHS, WebPath
from tests.support.application import SMALL, MemoryApplication, application

NAMES = {"NODE": "a", "INDEX": "0", "PART": "0", "NUMBER": "0", "ID": "w1", "NAME": "q", "PLAN": "p", "RACK": "r"}
#: By kind: the address in the configuration.
ADDRESSES = {
    "all": '"127.0.0.1:9400"',
    "token": '{listen: "127.0.0.1:9401", token: secret-token}',
    "metrics": '{listen: "127.0.0.1:9402", serve: metrics}',
    "exporter": '{listen: "127.0.0.1:9403", serve: exporter}',
    "per-node": '{per-node: "127.64.0.0/24:9404"}',
}


@pytest.fixture(scope="module")
def app() -> Iterator[MemoryApplication]:
    """A service with an address of each kind."""
    begin, _, rest = SMALL.partition("\nweb:")
    rest = rest.partition("\n")[2]
    with application(f"{begin}\nweb: [{', '.join(ADDRESSES.values())}]\n{rest}") as running:
        yield running


def ask(app: MemoryApplication, kind: str, method: str, path: str) -> int:
    """The status that a request gets there."""
    body = {} if method in ("POST", "PATCH") else None
    return app.ask(method, path, body, place=list(ADDRESSES).index(kind)).status


@pytest.mark.parametrize("path", WEB_PATHS, ids=lambda path: path.template)
@pytest.mark.parametrize("kind", ADDRESSES)
def test_each_path_at_each_address(app: MemoryApplication, kind: str, path: WebPath) -> None:
    """Where only metrics are served nothing changes, and the rest is 404; elsewhere a change needs the token."""
    at = path.at(**{name: NAMES[name] for name in path.template.split("/") if name.isupper()})
    for method in ("GET", "POST", "PATCH", "DELETE"):
        changes = method != "GET" and method in path.methods
        if kind not in ("all", "token") and (changes or not path.in_metrics):
            assert ask(app, kind, method, at) == 404, method
        elif kind == "token" and changes:
            # 404: the configuration has no plans of load.
            assert ask(app, kind, method, at) == (404 if at.startswith("/api/v1/tester") else 401), method
        elif kind == "all" and changes:
            assert ask(app, kind, method, at) not in (401, 403, 405), method
    assert len(app.fleet.workloads.by_id) == 0
