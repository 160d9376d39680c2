"""Permission to change something."""

from __future__ import annotations

import pytest

from fakedev.web.guard import AccessGuard


def status(guard: AccessGuard, host: str | None, origin: str | None = None, **more: object) -> int | None:
    """With which status a change, or with ``reads`` a read, is refused."""
    authorization = more.get("authorization")
    given = {b"host": host, b"origin": origin, b"authorization": authorization, b"sec-fetch-site": more.get("site")}
    headers = {name: str(value).encode() for name, value in given.items() if value is not None}
    refuse = guard.refusal_of_host if more.get("reads") else guard.refusal_of_change
    refusal = refuse(headers.get, bool(more.get("unix")))
    return None if refusal is None else refusal.status


OURS = ("localhost", "LOCALHOST:9400", "a.localhost:1", "127.0.0.1:9400", "10.1.2.3", "[::1]:9400", "[fe80::1]",
        "sim.example:9400", "Sim.Example.")  # fmt: skip
FOREIGN = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost", "[",
           "localhost:80@evil", "[::1]evil", None, "", ":9400")  # fmt: skip


@pytest.mark.parametrize(("host", "expected"), [*((h, None) for h in OURS), *((h, 403) for h in FOREIGN)])
def test_host(host: str | None, expected: int | None) -> None:
    """Loopback names, addresses and configured names are ours; another name is one that was let point here."""
    assert status(AccessGuard(["sim.example"]), host) == expected


SAME = (("http://127.0.0.1:9400", "127.0.0.1:9400"), ("http://localhost", "localhost:80"),
        ("https://localhost", "localhost"), ("http://LOCALHOST:9400", "localhost:9400"),
        ("http://[::1]:9400", "[::1]:9400"))  # fmt: skip
OTHER = ("http://127.0.0.1:9401", "http://localhost:9400", "http://evil.example", "null", "", "http://[bad",
         "file://127.0.0.1:9400")  # fmt: skip


@pytest.mark.parametrize(
    ("origin", "host", "expected"),
    [
        *((origin, host, None) for origin, host in SAME),
        *((origin, "127.0.0.1:9400", 403) for origin in OTHER),
        ("http://evil.example", None, 403),
    ],
)
def test_origin(origin: str, host: str | None, expected: int | None) -> None:
    """A web page may change something only when it came from here."""
    assert status(AccessGuard(), host, origin) == expected


@pytest.mark.parametrize(
    ("site", "expected"),
    [(None, None), ("none", None), ("same-origin", None), ("same-site", 403), ("cross-site", 403)],
)
def test_requests_of_other_pages_without_origin(site: str | None, expected: int | None) -> None:
    """A picture or link of another page sends no Origin; browsers say with Sec-Fetch-Site where it is from."""
    assert status(AccessGuard(), "localhost", site=site) == expected


def test_reads() -> None:
    """Reads need a Host of ours or the token; neither an Origin of ours nor a token beside that."""
    guard = AccessGuard(["sim.example"], token="s3cret")
    assert status(guard, "evil.example", reads=True) == 403
    assert status(guard, "evil.example", reads=True, authorization="Bearer wrong") == 403
    assert status(guard, "evil.example", reads=True, authorization="Bearer s3cret") is None
    assert status(guard, "evil.example", reads=True, unix=True) is None
    assert status(guard, "sim.example:80", "http://evil.example", reads=True) is None
    assert status(AccessGuard(), "evil.example", reads=True, authorization="Bearer ") == 403
    refusal = AccessGuard().refusal_of_host({b"host": b"evil.example"}.get)
    assert refusal is not None and "web: names:" in refusal.message


def test_unix_socket() -> None:
    """Over a UNIX socket any Host will do; a foreign Origin will not."""
    assert status(AccessGuard(), "anything", unix=True) is None
    assert status(AccessGuard(), "anything", "http://evil.example", unix=True) == 403


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        *((good, None) for good in ("Bearer s3cret", "bearer  s3cret ")),
        *((bad, 401) for bad in ("Bearer s3cre", "Bearer s3crett", "Basic s3cret", "s3cret", "Bearer", None)),
    ],
)
def test_token(authorization: str | None, expected: int | None) -> None:
    """With a token set, a change without it is refused, over UNIX sockets too."""
    guard = AccessGuard(token="s3cret")
    assert status(guard, "localhost", authorization=authorization) == expected
    assert status(guard, "x", authorization=authorization, unix=True) == expected
