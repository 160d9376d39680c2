"""A marker in every secret of a configuration: it is in nothing that a running service shows, logs or refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from twisted.logger import LogEvent, formatEvent

from fakedev.config.export import effective_text
from fakedev.config.load import load
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError
from fakedev.web.paths import STREAM, WEB_PATHS
from tests.support.application import application

MARK = "marker-of-a-secret"
HASH = "$2y$05$" + "m" * 53
SECTIONS = {
    "web": f'web: [{{listen: "127.0.0.1:9400", token: {MARK}}}]',
    "passwords": f'web: [{{listen: "127.0.0.1:9400", web-config: {{basic_auth_users: {{alice: "{HASH}"}}}}}}]',
    "workloads": f'workloads: {{listen: [{{listen: "127.0.0.1:9500", tokens: [{MARK}]}}]}}',
    "variable": 'web: [{listen: "127.0.0.1:9400", token: "${SECRET}"}]',
}
POOLS = "fleet: {pools: [{name: p, nodes: [a], device: h100, devices-per-node: 1, identity: dcgm}]}"


def shows(text: str) -> bool:
    return MARK in text or "m" * 20 in text


@pytest.mark.parametrize("section", SECTIONS)
def test_the_effective_configuration(tmp_path: Path, section: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(f"version: 1\n{POOLS}\n{SECTIONS[section]}\n")
    assert not shows(effective_text(load(str(path), Files(environ={"SECRET": MARK}))))


@pytest.mark.parametrize(
    "wrong",
    [
        f'web: [{{listen: "127.0.0.1:1", token: [{MARK}]}}]',
        f'web: [{{listen: "127.0.0.1:1", token: "{MARK} {MARK}"}}]',
        f'web: [{{listen: "127.0.0.1:1", token: "{MARK}\\n"}}]',
        f'web: [{{listen: "127.0.0.1:1", tokens: {MARK}}}]',
        f'web: [{{listen: "127.0.0.1:1", token: {MARK}, token: {MARK}}}]',
        f'web: [{{listen: "127.0.0.1:1", web-config: {{basic_auth_users: {{alice: {MARK}}}}}}}]',
        f'workloads: {{listen: [{{listen: "127.0.0.1:1", tokens: [{{a: {MARK}}}]}}]}}',
        f'workloads: {{listen: [{{listen: "127.0.0.1:1", tokens: ["{MARK} x", {MARK}]}}]}}',
        'web: [{listen: "127.0.0.1:1", token: "${SECRET} x"}]',
    ],
)
def test_errors(tmp_path: Path, wrong: str) -> None:
    """A wrong secret is refused without its text."""
    path = tmp_path / "f.yaml"
    path.write_text(f"version: 1\n{POOLS}\n{wrong}\n")
    with pytest.raises(ConfigurationError) as refused:
        load(str(path), Files(environ={"SECRET": MARK}))
    assert not shows(str(refused.value))


def test_answers_and_logs(log_events: list[LogEvent]) -> None:
    """Of every path, with the token and without; also with a wrong one."""
    ports = f"{SECTIONS['web']}\n{SECTIONS['workloads']}"
    with application(f"version: 1\n{POOLS}\nlog: {{level: debug}}\n{ports}\n") as app:
        for path in {web_path.template: web_path for web_path in WEB_PATHS if web_path is not STREAM}.values():
            names = {part: "a" for part in path.template.split("/") if part.isupper()}
            for token in ("", MARK, f"{MARK}x"):
                head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\n" if token else "Host: localhost\r\n"
                answer = app.ask("GET", path.at(**names), headers=head)
                assert not shows(answer.body.decode(errors="replace") + str(answer.headers))
    assert not any(shows(f"{formatEvent(event)} {json.dumps(event, default=str)}") for event in log_events)
