"""Permission to change something."""

from __future__ import annotations

import pytest

from fakedev.net.http.change_guard import ChangeGuard


def status(guard: ChangeGuard, host: str | None, origin: str | None = None, **more: object) -> int | None:
    """With which status a change is refused."""
    authorization = more.get("authorization")
    refusal = guard.refusal(
        None if host is None else host.encode(),
        None if origin is None else origin.encode(),
        None if authorization is None else str(authorization).encode(),
        bool(more.get("unix")),
    )
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
    ],
)
def test_host(host: str | None, expected: int | None) -> None:
    """Loopback names, addresses and configured names are ours; another name is one that was let point here."""
    assert status(ChangeGuard(["sim.example"]), host) == expected


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
    assert status(ChangeGuard(), host, origin) == expected


def test_unix_socket() -> None:
    """Over a UNIX socket any Host will do; a foreign Origin will not."""
    assert status(ChangeGuard(), "anything", unix=True) is None
    assert status(ChangeGuard(), "anything", "http://evil.example", unix=True) == 403


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
    guard = ChangeGuard(token="s3cret")
    assert status(guard, "localhost", authorization=authorization) == expected
    assert status(guard, "x", authorization=authorization, unix=True) == expected
