"""A Prometheus that requires something: what it is given, and what is said when that is not enough."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from fakedev.clone.prometheus_server import PrometheusServer
from fakedev.commands.main import main
from fakedev.runtime.client_tls import CannotUseTls
from fakedev.schema.peer_addresses import ClientTls
from tests.support.wire.certificates import Authority

ANSWER = b'{"status": "success", "data": {"result": []}}'


class Handler(BaseHTTPRequestHandler):
    """Answers a query with alice's password, and nothing else; ``old`` was moved."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def do_GET(self) -> None:
        given = self.headers["Authorization"]
        is_old = self.path.startswith("/old")
        is_good = given == f"Basic {b64encode(b'alice:secret').decode()}"
        self.send_response(302 if is_old else 200 if is_good else 401)
        if is_old:
            self.send_header("Location", self.path.removeprefix("/old"))
        self.end_headers()
        self.wfile.write(ANSWER if is_good else b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Of a server with a certificate of an authority of its own, ``ca.pem``."""
    authority = Authority()
    certificate, key = authority.sign("server", "127.0.0.1")
    for name, text in {"ca.pem": authority.pem, "cert.pem": certificate, "key.pem": key}.items():
        (tmp_path / name).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_password_and_an_authority(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are in files. An answer without series shows that the server has taken them; the password is not shown."""
    for name in ("secret", "other-secret"):
        (tmp_path / name).write_text(f"{name}\n")
    command = ["clone", "--prometheus", address, "--match", "{job='dcgm'}", "--ca-file", str(tmp_path / "ca.pem")]
    assert main([*command, "--user", "alice", "--password-file", str(tmp_path / "secret")]) == 2
    assert "{job='dcgm'}" in capsys.readouterr().err
    of_other = str(tmp_path / "other-secret")
    for wrong in ([], ["--user", "alice", "--password-file", of_other], ["--token-file", of_other]):
        assert main([*command, *wrong]) == 1
        text = capsys.readouterr().err
        assert "401" in text
        assert "--password-file" in text
        assert "secret" not in text
    assert main(command[:5]) == 1
    assert "401" not in capsys.readouterr().err


def test_a_redirection_gets_no_password(address: str, tmp_path: Path) -> None:
    """It may be to anybody."""
    files = ClientTls(str(tmp_path / "ca.pem"))
    headers = {"Authorization": f"Basic {b64encode(b'alice:secret').decode()}"}
    assert PrometheusServer(address, files, headers).ask("query", {"query": "up"}) == {"result": []}
    with pytest.raises(ConnectionError, match="401"):
        PrometheusServer(f"{address}/old", files, headers).ask("query", {"query": "up"})


def test_addresses_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A password in an address is not repeated."""
    with pytest.raises(ValueError, match="--password-file") as error:
        PrometheusServer("https://alice:secret@prometheus:9090")
    assert "secret" not in str(error.value)
    with pytest.raises(ValueError, match="https://"):
        PrometheusServer("http://prometheus:9090", ClientTls("ca.pem"))
    with pytest.raises(ValueError, match="http://localhost:9090"):
        PrometheusServer("prometheus:9090")
    with pytest.raises(CannotUseTls, match=r"none\.pem"):
        PrometheusServer("https://prometheus:9090", ClientTls(str(tmp_path / "none.pem")))
    with pytest.raises(SystemExit, match="2"):
        main(["learn", "history", "--user", "alice"])
    assert "--prometheus URL" in capsys.readouterr().err
