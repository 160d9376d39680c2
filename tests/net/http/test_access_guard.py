"""Permission to change something."""

from __future__ import annotations

import pytest

from fakedev.net.http.access_guard import AccessGuard


def status(guard: AccessGuard, host: str | None, origin: str | None = None, **more: object) -> int | None:
    """With which status a change, or with ``reads`` a read, is refused."""
    authorization = more.get("authorization")
    given = {b"host": host, b"origin": origin, b"authorization": authorization, b"sec-fetch-site": more.get("site")}
    headers = {name: str(value).encode() for name, value in given.items() if value is not None}
    refuse = guard.refusal_of_host if more.get("reads") else guard.refusal_of_change
    refusal = refuse(headers, bool(more.get("unix")))
    return None if refusal is None else refusal.status


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", None),
        ("LOCALHOST:9400", None),
        ("a.localhost:1", None),
        ("127.0.0.1:9400", None),
        ("10.1.2.3", None),
        ("[::1]:9400", None),
        ("[fe80::1]", None),
        ("sim.example:9400", None),
        ("Sim.Example.", None),
        (None, None),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("notlocalhost", 403),
        ("[", 403),
        ("localhost:80@evil", 403),
        ("[::1]evil", 403),
        ("", None),
    ],
)
def test_host(host: str | None, expected: int | None) -> None:
    """Loopback names, addresses and configured names are ours; another name is one that was let point here."""
    assert status(AccessGuard(["sim.example"]), host) == expected


@pytest.mark.parametrize(
    ("origin", "host", "expected"),
    [
        ("http://127.0.0.1:9400", "127.0.0.1:9400", None),
        ("http://localhost", "localhost:80", None),
        ("https://localhost", "localhost", None),
        ("http://LOCALHOST:9400", "localhost:9400", None),
        ("http://[::1]:9400", "[::1]:9400", None),
        ("http://127.0.0.1:9401", "127.0.0.1:9400", 403),
        ("http://localhost:9400", "127.0.0.1:9400", 403),
        ("http://evil.example", "127.0.0.1:9400", 403),
        ("null", "127.0.0.1:9400", 403),
        ("", "127.0.0.1:9400", 403),
        ("file://127.0.0.1:9400", "127.0.0.1:9400", 403),
        ("http://[bad", "127.0.0.1:9400", 403),
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
    refusal = AccessGuard().refusal_of_host({b"host": b"evil.example"})
    assert refusal is not None and "web: names:" in refusal.reason


def test_unix_socket() -> None:
    """Over a UNIX socket any Host will do; a foreign Origin will not."""
    assert status(AccessGuard(), "anything", unix=True) is None
    assert status(AccessGuard(), "anything", "http://evil.example", unix=True) == 403


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        ("Bearer s3cret", None),
        ("bearer  s3cret ", None),
        ("Bearer s3cre", 401),
        ("Bearer s3crett", 401),
        ("Basic s3cret", 401),
        ("s3cret", 401),
        ("Bearer", 401),
        (None, 401),
    ],
)
def test_token(authorization: str | None, expected: int | None) -> None:
    """With a token set, a change without it is refused, over UNIX sockets too."""
    guard = AccessGuard(token="s3cret")
    assert status(guard, "localhost", authorization=authorization) == expected
    assert status(guard, "x", authorization=authorization, unix=True) == expected
