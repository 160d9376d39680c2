"""Web configurations in the whole application: at the start, by reloads, and when their files change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakedev.fleet.port import WorkloadPortFactory
from fakedev.runtime.disk import FileFollower
from fakedev.web import web_configs
from tests.support.application import SMALL, application
from tests.support.reloads import reload
from tests.support.wire.tls_clients import AUTHORITY, CERTIFICATE, KEY, Client

HEADER = "http_server_config: {{headers: {{X-Frame-Options: {}}}}}\n"


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Says that something has changed in a folder of the last files that are watched."""
    told: list[Callable[[], None]] = []

    def follower(files: Any, call: Any, clock: Any) -> FileFollower:
        def watch(folders: Any, tell: Callable[[], None]) -> tuple[Any, bool]:
            told.append(tell)
            return NotWatching(), True

        return FileFollower(files, call, clock, watch)

    def tell() -> None:
        told[-1]()

    monkeypatch.setattr(web_configs, "FileFollower", follower)
    return tell


class NotWatching:
    """In place of inotify."""

    def loseConnection(self) -> None:
        """Watch no more."""


def framed(app: Any) -> str | None:
    """The header that the configuration sets."""
    headers: dict[str, str] = app.get("/metrics").headers
    return headers.get("x-frame-options")


def with_file(path: Path) -> str:
    """A configuration with a web configuration file."""
    return SMALL + f"web-config: {path}\n"


def test_a_reload(tmp_path: Path, changed: Callable[[], None]) -> None:
    """It reads the file; one that cannot be used leaves all as it is; one less is plain again."""
    path = tmp_path / "web.yml"
    with application() as app:
        assert framed(app) is None
        path.write_text(HEADER.format("allow"))
        app.text = with_file(path)
        answer = app.ask("POST", "/-/reload", b"")
        assert answer.status == 400
        assert b"web.yml:1: X-Frame-Options: 'allow' is not deny or sameorigin" in answer.body
        assert framed(app) is None
        path.write_text(HEADER.format("deny"))
        assert reload(app, with_file(path)).status == 200
        assert framed(app) == "deny"
        assert reload(app, SMALL).status == 200
        assert framed(app) is None


def test_a_file_that_changes(tmp_path: Path, changed: Callable[[], None]) -> None:
    """It is used without a reload, also when a reload has brought it; a mistake in it changes nothing."""
    path = tmp_path / "web.yml"
    path.write_text(HEADER.format("deny"))
    with application() as app:
        assert reload(app, with_file(path)).status == 200
        for text, expected in (("x", "deny"), (HEADER.format("sameorigin"), "sameorigin"), ("{}", None)):
            path.write_text(text)
            changed()
            app.reactor.advance(1)
            assert framed(app) == expected


def test_addresses(tmp_path: Path) -> None:
    """The file of the top is for all addresses of TCP, but those with their own."""
    one, two = tmp_path / "one.yml", tmp_path / "two.yml"
    one.write_text(HEADER.format("deny"))
    two.write_text(HEADER.format("sameorigin"))
    web = f'web: [9400, {{listen: 9401, web-config: {two}}}, {{listen: {tmp_path}/web.sock, mode: 600}}]'
    with application(with_file(one).replace('web: ["127.0.0.1:9400"]', web)) as app:
        found = [app.get("/metrics", place=place).headers.get("x-frame-options") for place in range(3)]
        assert found == ["deny", "sameorigin", None]


def test_keys_in_the_configuration(tmp_path: Path, changed: Callable[[], None]) -> None:
    """The mapping itself may stand in place of the path; a reload changes it, and a mistake in it changes nothing."""
    keys = "web-config: {{http_server_config: {{headers: {{X-Frame-Options: {}}}}}}}\n"
    with application(SMALL + keys.format("deny")) as app:
        assert framed(app) == "deny"
        assert reload(app, SMALL + keys.format("sameorigin")).status == 200
        assert framed(app) == "sameorigin"
        app.text = SMALL + keys.format("allow")
        answer = app.ask("POST", "/-/reload", b"")
        assert answer.status == 400
        line = SMALL.count("\n") + 1
        assert b"%d: X-Frame-Options: 'allow' is not deny or sameorigin" % line in answer.body
        assert framed(app) == "sameorigin"


def test_tls_of_a_line_port(tmp_path: Path, changed: Callable[[], None]) -> None:
    """A reload gives it TLS, with an address that is new; a certificate that changes is used without one."""
    (tmp_path / "cert.pem").write_text(CERTIFICATE)
    (tmp_path / "key.pem").write_text(KEY)
    keys = f"{{cert_file: {tmp_path}/cert.pem, key_file: {tmp_path}/key.pem}}"
    text = SMALL.replace("127.0.0.1:9500\"", f"127.0.0.1:9501\", tls_server_config: {keys}")
    with application() as app:
        assert reload(app, text).status == 200
        (port,) = app.factories(WorkloadPortFactory)
        assert port.is_tls
        assert Client(port, app.reactor).ask(b"list\n").startswith(b"ok")
        other = AUTHORITY.sign("other", "localhost")
        for name, new in zip(("cert.pem", "key.pem"), other, strict=True):
            (tmp_path / name).write_text(new)
        changed()
        app.reactor.advance(1)
        client = Client(port, app.reactor)
        assert client.ask(b"list\n").startswith(b"ok")
        assert "other" in str(client.tls.getpeercert())
        assert reload(app, text.replace(f", tls_server_config: {keys}", "")).status == 200
        assert not port.is_tls
