"""A web configuration file, with real clients: curl, and a Prometheus that scrapes by TLS with a password."""

from __future__ import annotations

from pathlib import Path

import bcrypt
import pytest
import pytest_twisted

from tests.exporters.real.test_prometheus import asked, prometheus
from tests.support.programs.asynchronous import eventually, serve
from tests.support.programs.ports import free_port
from tests.support.programs.processes import StartAsync, console, run
from tests.support.wire.certificates import Authority

pytestmark = pytest.mark.real

FLEET = """
version: 1
fleet:
  pools: [{name: p, nodes: 400, device: h100, devices-per-node: 8, identity: dcgm}]
"""


@pytest.fixture
def web_config(tmp_path: Path) -> Path:
    """A web configuration: a certificate for 127.0.0.1, and alice with her password."""
    authority = Authority()
    certificate, key = authority.sign("server", "127.0.0.1")
    texts = {"ca.pem": authority.pem, "cert.pem": certificate, "key.pem": key}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(5)).decode()
    path = tmp_path / "web.yml"
    path.write_text(
        "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
        "http_server_config: {headers: {Strict-Transport-Security: max-age=60}}\n"
        f"basic_auth_users: {{alice: {hashed}}}\n"
    )
    return path


@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_a_real_prometheus(start_async: StartAsync, tmp_path: Path, web_config: Path) -> None:
    """It scrapes every node."""
    service = await serve(start_async, tmp_path, "--web-config-file", str(web_config))
    where = await prometheus(start_async, tmp_path, f"""
  - job_name: gpus
    scheme: https
    basic_auth: {{username: alice, password: secret}}
    tls_config: {{ca_file: "{tmp_path}/ca.pem"}}
    static_configs: [{{targets: ["{service.web[0]}"]}}]
""")  # fmt: skip
    found = await eventually(lambda: asked(where, "count(DCGM_FI_DEV_GPU_TEMP)"), "the boards are scraped")
    assert found[0]["value"][1] == "4"
    assert "https://127.0.0.1" in service.program.stderr


@pytest.mark.requires_program("curl")
@pytest_twisted.ensureDeferred
async def test_curl(start_async: StartAsync, tmp_path: Path, web_config: Path) -> None:
    """It gets a large page whole; a new certificate is used without a reload. A UNIX socket stays plain."""
    service = await serve(start_async, tmp_path, "--web-config-file", str(web_config), fleet=FLEET)
    tcp, socket = service.web
    curl = ("curl", "--silent", "--show-error", "--fail", "--cacert", f"{tmp_path}/ca.pem", "--user", "alice:secret")
    page = await run(start_async, *curl, f"https://{tcp}/metrics")
    assert page.exit_code == 0, page.stderr
    assert page.stdout.count("DCGM_FI_DEV_GPU_TEMP{") == 3200
    plain = await run(start_async, "curl", "--silent", "--unix-socket", socket, "http://127.0.0.1/metrics")
    assert plain.stdout.count("DCGM_FI_DEV_GPU_TEMP{") == 3200
    wrong = await run(start_async, *curl[:-1], "alice:other", f"https://{tcp}/metrics")
    assert "401" in wrong.stderr

    other = Authority("another")
    certificate, key = other.sign("server", "127.0.0.1")
    for name, text in {"ca.pem": other.pem, "cert.pem": certificate, "key.pem": key}.items():
        (tmp_path / f"{name}.new").write_text(text)
        (tmp_path / f"{name}.new").rename(tmp_path / name)

    async def is_served() -> bool:
        return (await run(start_async, *curl, f"https://{tcp}/healthz")).exit_code == 0

    await eventually(is_served, "the new certificate is used")


@pytest_twisted.ensureDeferred
async def test_what_cannot_be_used(start_async: StartAsync, tmp_path: Path, web_config: Path) -> None:
    """A service does not start with it: it tells the file, and ends with 2; so does the drop-in of dcgm-exporter."""
    (tmp_path / "key.pem").write_text("no key")
    text = f"{web_config}: tls_server_config: the key is not in PEM"
    for command in ([*console("fakedev"), "serve"], console("fakedev-dcgm-exporter")):
        program = await run(start_async, *command, "--web-config-file", str(web_config))
        assert program.exit_code == 2
        assert text in program.stderr
        assert "Traceback" not in program.stderr


@pytest.mark.requires_program("curl")
@pytest_twisted.ensureDeferred
async def test_the_drop_in(start_async: StartAsync, tmp_path: Path, web_config: Path) -> None:
    """fakedev-dcgm-exporter takes the flag of the original."""
    address = f"127.0.0.1:{free_port()}"
    command = [*console("fakedev-dcgm-exporter"), "-a", address, "--web-config-file", str(web_config)]
    await start_async(command).wait_for_text("metrics, as the exporter has them: https://")
    curl = ("curl", "--silent", "--cacert", f"{tmp_path}/ca.pem", f"https://{address}/health")
    assert (await run(start_async, *curl)).stdout == "Unauthorized\n"
    assert (await run(start_async, *curl, "--user", "alice:secret")).stdout == "OK"
