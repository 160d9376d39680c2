"""Our own clients speak TLS with a service whose HTTP address and line ports all have it."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path

import bcrypt
import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from fakedev.client import Fleet, aio
from fakedev.client.http import ServiceAddress
from fakedev.runtime.disk import replace_file
from fakedev.schema.peer_addresses import ClientTls
from tests.support.programs.asynchronous import ready
from tests.support.programs.ports import free_port
from tests.support.programs.processes import StartAsync, console, run
from tests.support.wire.certificates import Authority

pytestmark = pytest.mark.real

TOKEN = "a-token-of-the-line-port"
PASSWORD = "a pass word"
SERVICE = """
version: 1
fleet: {{pools: [{{name: p, nodes: [a], device: h100, identity: dcgm}}]}}
web: [{{listen: "127.0.0.1:0", web-config: {{tls_server_config: {tls}, basic_auth_users: {{alice: "{hash}"}}}}}}]
workloads: {{listen: [{{listen: "127.0.0.1:0", tokens: [{token}], tls_server_config: {tls}}}]}}
queues:
  names: [sleep]
  listen-clients: [{{listen: "127.0.0.1:0", tls_server_config: {tls}}}]
  listen-backends: [{{listen: "127.0.0.1:0", tls_server_config: {tls_of_backends}}}]
"""


@dataclass
class Secured:
    """A service, by the addresses of its ports, and the files of its clients in their folder."""

    folder: Path
    addresses: dict[str, list[str]]

    def file(self, name: str) -> str:
        """The path of a file."""
        return str(self.folder / name)

    @property
    def trust(self) -> tuple[str, str]:
        """The option that makes a client trust the service."""
        return "--ca-file", self.file("ca.pem")


async def secured(start_async: StartAsync, folder: Path) -> Secured:
    """Start the service."""
    authority = Authority()
    texts = {"ca.pem": authority.pem, "token": TOKEN, "password": PASSWORD}
    for name, names in (("server", "127.0.0.1"), ("own", "backend")):
        texts[f"{name}.pem"], texts[f"{name}.key"] = authority.sign(name, names)
    tls = "cert_file: server.pem, key_file: server.key"
    texts["fakedev.yaml"] = SERVICE.format(
        hash=bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(5)).decode(), token=TOKEN, tls=f"{{{tls}}}",
        tls_of_backends=f"{{{tls}, client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem}}",
    )  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    config, file = folder / "fakedev.yaml", folder / "ready.json"
    program = start_async([*console("fakedev"), "serve", "--config", str(config), "--ready-file", str(file)])
    await ready(program, file)
    return Secured(folder, json.loads(file.read_text()))


@pytest_twisted.ensureDeferred
async def test_commands(start_async: StartAsync, tmp_path: Path) -> None:
    """They trust the given authority only, and say what is wrong."""
    service = await secured(start_async, tmp_path)
    (port,) = service.addresses["workloads"]
    (web,) = service.addresses["web"]
    line = ("--socket", f"tls://{port}", "--token-file", service.file("token"))
    http = ("--url", f"https://{web}", *service.trust, "--user", "alice")

    async def fakedev(*arguments: str) -> tuple[int | None, str]:
        program = await run(start_async, *console("fakedev"), *arguments)
        assert "Traceback" not in program.stderr
        return program.exit_code, program.stdout + program.stderr

    code, text = await fakedev("advance", "3s", *line, *service.trust)
    assert code == 0 and re.fullmatch(r"tick (\d+) seconds \1\n", text)
    code, text = await fakedev("workloads", *line)
    assert (code, "the server's certificate is refused" in text) == (1, True)
    code, text = await fakedev("workloads", "--socket", port, *service.trust)
    assert (code, "give it as tls://HOST:PORT" in text) == (2, True)
    code, text = await fakedev("workloads", "--socket", port)
    assert (code, "this address speaks TLS" in text) == (1, True)
    code, text = await fakedev("status", *http, "--password-file", service.file("password"))
    assert (code, "simulated" in text) == (0, True)
    code, text = await fakedev("status", *http, "--password-file", service.file("token"))
    assert (code, "Unauthorized" in text, TOKEN in text) == (1, True, False)
    access = {"ca_file": service.file("ca.pem"), "user": "alice", "password": PASSWORD}
    fleet, of_asyncio = Fleet(f"https://{web}", **access), aio.Fleet(f"https://{web}", **access)
    assert (await deferToThread(fleet.clock)).tick >= 3
    assert (await deferToThread(lambda: asyncio.run(of_asyncio.clock()))).tick >= 3


@pytest_twisted.ensureDeferred
async def test_a_workload(start_async: StartAsync, tmp_path: Path) -> None:
    """fakedev-workload runs one, with the token, to its end."""
    service = await secured(start_async, tmp_path)
    (port,) = service.addresses["workloads"]
    command = (*console("fakedev-workload"), "-socket", f"tls://{port}", "-token-file", service.file("token"))
    program = await run(start_async, *command, *service.trust, "-devnames", "a/0", "-activity", "80:0:1")
    assert (program.exit_code, "Accepted as" in program.stderr) == (0, True), program.stderr


@pytest.mark.parametrize("protocol", ["bare", "json"])
@pytest_twisted.ensureDeferred
async def test_a_queue(start_async: StartAsync, tmp_path: Path, protocol: str) -> None:
    """A backend with its certificate serves a client; without one it is refused."""
    service = await secured(start_async, tmp_path)
    ((backends,), (clients,)) = service.addresses["queue-backends"], service.addresses["queue-clients"]
    command = [*console("fakedev-backend"), "-faddr", f"tls://{backends}", "-protocol", protocol, "-backoff", "1"]
    own = ("-cert-file", service.file("own.pem"), "-key-file", service.file("own.key"))
    stranger = start_async([*command, *service.trust, "sleep", "0"])
    await stranger.wait_for_text("TLS failed")
    # The load lasts two seconds: the backend must be there by then.
    await start_async([*command, *service.trust, *own, "-verbose", "sleep", "0"]).wait_for_text("sends ")
    load = (*console("fakedev-client"), "-faddr", f"tls://{clients}", "-protocol", protocol, "-headless")
    ended = await run(start_async, *load, *service.trust, "-duration", "2", "-expect", "failures<1%")
    assert ended.exit_code == 0, ended.stderr


@pytest_twisted.ensureDeferred
async def test_the_frontend(start_async: StartAsync, tmp_path: Path) -> None:
    """The drop-in serves a backend and a client by TLS, and shows its page by it; later by a new certificate."""
    authority, later = Authority(), Authority("another")
    place = {each: f"127.0.0.1:{free_port()}" for each in ("caddr", "waddr", "maddr")}
    web_config = tmp_path / "web.yml"
    web_config.write_text("tls_server_config: {cert_file: server.pem, key_file: server.key}\n")

    def write(signed_by: Authority) -> None:
        texts = dict(zip(("server.pem", "server.key"), signed_by.sign("server", "127.0.0.1"), strict=True))
        for name, text in (texts | {"ca.pem": signed_by.pem}).items():
            replace_file(str(tmp_path / name), text, 0o600)

    write(authority)
    options = [part for name, each in place.items() for part in (f"-{name}", each)]
    files = ("-web-config-file", str(web_config), "-tls-config-file", str(web_config))
    frontend = start_async([*console("fakedev-frontend"), *options, *files, "sleep"])
    await frontend.wait_for_text("backends of the queues: ")
    backend = (*console("fakedev-backend"), "-faddr", f"tls://{place['waddr']}", "-backoff", "1")
    working = start_async([*backend, "-ca-file", str(tmp_path / "ca.pem"), "-verbose", "sleep", "0"])
    await working.wait_for_text("sends ")
    client = (*console("fakedev-client"), "-faddr", f"tls://{place['caddr']}", "-headless", "-duration", "1")
    load = (*client, "-ca-file", str(tmp_path / "ca.pem"), "-expect", "failures<1%")
    ended = await run(start_async, *load)
    assert ended.exit_code == 0, ended.stderr
    page = ServiceAddress(f"https://{place['maddr']}", 10.0, ClientTls(str(tmp_path / "ca.pem")))
    reply = await deferToThread(lambda: page.ask("GET", "/metrics", None, {}, None))
    assert (reply.status, b"hpa_queue_waiting" in reply.body) == (200, True)
    write(later)
    await frontend.wait_for_text("the web configuration was read again")
    ended = await run(start_async, *load)
    assert ended.exit_code == 0, ended.stderr
