"""Tokens, passwords and keys of a running service are in no list of processes, log, record or printed configuration."""

from __future__ import annotations

import json
from pathlib import Path

import bcrypt
import pytest
import pytest_twisted

from tests.support.programs.asynchronous import ready
from tests.support.programs.processes import StartAsync, clean_environment, console, run
from tests.support.wire.certificates import Authority

pytestmark = pytest.mark.real

TOKEN = "token-in-a-credential"
CONFIGURATION = """
version: 1
fleet: {pools: [{name: p, nodes: [a], device: h100, identity: dcgm}]}
web: [{listen: "127.0.0.1:0", token-file: "${CREDENTIALS_DIRECTORY}/token", web-config: "${CREDENTIALS_DIRECTORY}/web.yml"}]
workloads: {listen: [{listen: "127.0.0.1:0", token-files: ["${CREDENTIALS_DIRECTORY}/token"]}]}
log: {level: debug}
"""  # noqa: E501 - an address on one line


@pytest_twisted.ensureDeferred
async def test_credentials_of_systemd(start_async: StartAsync, tmp_path: Path) -> None:
    """LoadCredential= puts files into $CREDENTIALS_DIRECTORY; the service serves who has what is in them."""
    credentials, config, file, record = (tmp_path / name for name in ("credentials", "f.yaml", "ready.json", "record"))
    credentials.mkdir(mode=0o700)
    authority = Authority()
    certificate, key = authority.sign("server", "127.0.0.1")
    hashed = bcrypt.hashpw(b"password-of-alice", bcrypt.gensalt(5)).decode()
    web = f"tls_server_config: {{cert_file: c.pem, key_file: k.pem}}\nbasic_auth_users: {{alice: {hashed}}}\n"
    texts = {"token": f"{TOKEN}\n", "c.pem": certificate, "k.pem": key, "web.yml": web, "password": "password-of-alice"}
    for name, text in texts.items():
        (credentials / name).write_text(text)
    (tmp_path / "ca.pem").write_text(authority.pem)
    config.write_text(CONFIGURATION)
    environment = {**clean_environment(), "CREDENTIALS_DIRECTORY": str(credentials)}
    serve = [*console("fakedev"), "serve", "--config", str(config)]
    options = ["--ready-file", str(file), "--record", str(record)]
    program = start_async([*serve, *options], environment=environment)
    await ready(program, file)
    addresses = json.loads(file.read_text())

    line = ("--socket", addresses["workloads"][0], "--token-file", f"{credentials}/token")
    assert (await run(start_async, *console("fakedev"), "advance", "1s", *line)).exit_code == 0
    http = ("--url", f"https://{addresses['web'][0]}", "--ca-file", f"{tmp_path}/ca.pem")
    password = ("--user", "alice", "--password-file", f"{credentials}/password")
    for access in (("--token-file", f"{credentials}/token"), password):
        assert (await run(start_async, *console("fakedev"), "status", *http, *access)).exit_code == 0
    printed = await run(start_async, *serve, "--print-config", environment=environment)
    assert f"token-file: {credentials}/token" in printed.stdout

    process = Path(f"/proc/{json.loads(file.read_text())['pid']}")
    seen = {
        "the list of processes": (process / "cmdline").read_bytes(),
        "the environment": (process / "environ").read_bytes(),
        "the log": program.stderr.encode(),
        "the effective configuration": printed.stdout.encode(),
        "the record": record.read_bytes(),
    }
    secrets = (TOKEN, "password-of-alice", hashed, key.splitlines()[1])
    assert {place: secret for place, text in seen.items() for secret in secrets if secret.encode() in text} == {}
