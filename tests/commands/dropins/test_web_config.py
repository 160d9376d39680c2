"""TLS and passwords of the drop-ins whose originals have neither, in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fakedev.commands.dropins.exporter import main as exporter_main
from fakedev.commands.dropins.frontend import FrontendOptions
from fakedev.commands.dropins.frontend import main as frontend_main
from fakedev.lines.server import LineAddress
from fakedev.queues.part import make_frontend
from fakedev.web.site import Site
from tests.commands.dropins.test_exporter import exporter
from tests.support.application import AppReactor
from tests.support.paths import DATA
from tests.support.wire.tls_clients import CERTIFICATE, KEY, Client

GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def web_config(tmp_path: Path) -> Path:
    """A file with a certificate for localhost."""
    (tmp_path / "cert.pem").write_text(CERTIFICATE)
    (tmp_path / "key.pem").write_text(KEY)
    path = tmp_path / "web.yml"
    path.write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")
    return path


def test_the_exporter(web_config: Path) -> None:
    """Its page has TLS; its socket for workloads stays as it is."""
    with exporter(DATA, "-web-config-file", str(web_config)) as app:
        app.tick()
        (site,) = app.factories(Site)
        answer = Client(site, app.reactor).ask(GET)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert app.connect().say("list")[0].startswith("ok")


@pytest.mark.parametrize(("option", "has_tls"), [("web", [True, False, False]), ("tls", [False, True, True])])
def test_the_frontend(web_config: Path, option: str, has_tls: list[bool]) -> None:
    """One option is for the metrics, the other one for both ports of the queues."""
    options = FrontendOptions()
    values = options.flags.parse([f"-{option}-config-file", str(web_config), "sleep"])
    queues, metrics = options.settings(values)
    reactor = AppReactor()
    service = make_frontend(queues, metrics, reactor, web_config=options.source(values, options.web_config))
    service.privilegedStartService()
    factories = [port.factory for port in reactor.ports]
    assert [type(factory) for factory in factories] == [Site, LineAddress, LineAddress]
    assert [factory.is_tls for factory in factories] == has_tls
    asked = [(GET, b"HTTP/1.1 200 "), (b"put sleep 1\nquit\n", b"ok 1\n"), (b"help\nquit\n", b"ok ")]
    for factory, (text, answer), is_tls in zip(factories, asked, has_tls, strict=True):
        if is_tls:
            assert Client(factory, reactor).ask(text).startswith(answer)


@pytest.mark.parametrize(
    ("text", "option", "problem"),
    [
        ("tls: {}\n", "web", "web.yml:1: unknown key 'tls'"),
        ("tls_server_config: {cert_file: none.pem, key_file: key.pem}\n", "web", "none.pem: no such file"),
        ("rate_limit: {}\n", "tls", "-tls-config-file: {path} has no tls_server_config"),
    ],
)
def test_what_is_refused(
    web_config: Path, misuse: Callable[..., str], text: str, option: str, problem: str
) -> None:
    """Before anything is listened on: never plain text where TLS was asked for."""
    web_config.write_text(text)
    line = problem.format(path=web_config)
    assert line in misuse(frontend_main, f"-{option}-config-file", str(web_config), "sleep")


def test_what_the_exporter_refuses(
    web_config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As mistakes in its own files: with the place, and exit code 2."""
    web_config.write_text("tls: {}\n")
    files = {"devtype": "device", "devlist": "devices", "identity": "identity"}
    options = [part for flag, name in files.items() for part in (f"-{flag}", str(DATA / f"original-{name}.json"))]
    assert exporter_main([*options, "-address", "127.0.0.1:0", "-web-config-file", str(web_config)]) == 2
    assert f"fakedev-exporter: {web_config}:1: unknown key 'tls'" in capsys.readouterr().err
