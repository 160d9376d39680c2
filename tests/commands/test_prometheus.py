"""``fakedev prometheus``: what a Prometheus beside a configuration scrapes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakedev.commands.prometheus import prometheus
from tests.support.paths import ROOT
from tests.support.wire.certificates import Authority

FLEET = "fleet: {pools: [{name: p, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}]}\n"
QUEUES = "queues: {names: {gpu: {}}, listen-clients: [9997], listen-backends: [9999]}\n"


def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str) -> Any:
    config = tmp_path / "f.yaml"
    config.write_text(FLEET + text)
    assert prometheus(["--config", str(config), *options]) == 0
    return yaml.safe_load(capsys.readouterr().out)


def test_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each node by /sd, fakedev itself, workloads, queues, further pages."""
    web = 'web: [/tmp/x.sock, {listen: "*:9400", open: true, pages: [{path: /amd/metrics, identity: dcgm}]}]\n'
    tree = printed(tmp_path, capsys, web + QUEUES, "--interval", "5s", "--rules", "a.yml")
    assert tree["global"] == {"scrape_interval": "5s", "evaluation_interval": "5s"}
    assert tree["rule_files"] == ["a.yml"]
    jobs = {job["job_name"]: job for job in tree["scrape_configs"]}
    assert jobs["gpus"]["http_sd_configs"] == [{"url": "http://127.0.0.1:9400/sd", "refresh_interval": "5s"}]
    assert {name: job.get("metrics_path") for name, job in jobs.items()} == {
        "gpus": None, "fakedev": "/-/metrics", "fakedev-workloads": "/workloads/metrics",
        "fakedev-queues": "/queues/metrics", "gpus-amd-metrics": "/amd/metrics",
    }  # fmt: skip
    assert jobs["fakedev"]["static_configs"] == [{"targets": ["127.0.0.1:9400"]}]


def test_another_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--target is fakedev's address for Prometheus; an address that serves metrics has no other pages."""
    tree = printed(tmp_path, capsys, "web: [{listen: 9400, serve: metrics}]", "--target", "here:1")
    assert [job["job_name"] for job in tree["scrape_configs"]] == ["gpus"]
    assert tree["scrape_configs"][0]["http_sd_configs"][0]["url"] == "http://here:1/sd"


def test_an_exporter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = printed(tmp_path, capsys, "web: [{listen: 9400, serve: exporter}]")
    assert tree["scrape_configs"] == [{"job_name": "gpus", "static_configs": [{"targets": ["127.0.0.1:9400"]}]}]


@pytest.fixture
def secured(tmp_path: Path) -> str:
    """An address with TLS and a password."""
    certificate, key = Authority().sign("server", "127.0.0.1")
    for name, text in {"cert.pem": certificate, "key.pem": key}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "web.yml").write_text(
        "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
        f"basic_auth_users: {{alice: $2b$10${'a' * 53}}}\n"
    )
    return "web: [9400]\nweb-config: web.yml\n"


def test_tls_and_a_password(tmp_path: Path, capsys: pytest.CaptureFixture[str], secured: str) -> None:
    """They are for service discovery, too."""
    options = ("--ca-file", "ca.pem", "--user", "alice", "--password-file", "p")
    gpus, *others = printed(tmp_path, capsys, secured, *options)["scrape_configs"]
    access = {"tls_config": {"ca_file": "ca.pem"}, "basic_auth": {"username": "alice", "password_file": "p"}}
    discovery = {"url": "https://127.0.0.1:9400/sd", "refresh_interval": "15s", **access}
    assert gpus == {"job_name": "gpus", "scheme": "https", **access, "http_sd_configs": [discovery]}
    assert all(job["scheme"] == "https" for job in others)


def test_the_web_configuration_of_serve(tmp_path: Path, capsys: pytest.CaptureFixture[str], secured: str) -> None:
    """It is given as the service gets it, when the configuration does not have it."""
    options = ("--ca-file", "ca.pem", "--user", "alice", "--password-file", "p")
    assert secured.endswith("web-config: web.yml\n")
    given = ("--web-config-file", f"{tmp_path}/web.yml", *options)
    assert printed(tmp_path, capsys, "web: [9400]\n", *given) == printed(tmp_path, capsys, secured, *options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "127.0.0.1:9400 has TLS: give --ca-file FILE"),
        (("--ca-file", "x"), "has passwords: give --user NAME and --password-file FILE; its users are alice"),
        (("--ca-file", "x", "--user", "bob", "--password-file", "p"), "its users are alice"),
    ],
)
def test_what_is_missing(
    options: tuple[str, ...], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], secured: str
) -> None:
    """Nothing is printed that would not work."""
    config = tmp_path / "f.yaml"
    config.write_text(FLEET + secured)
    assert prometheus(["--config", str(config), *options]) == 1
    said = capsys.readouterr()
    assert (said.out, problem in said.err) == ("", True)


def test_no_address_of_tcp(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prometheus cannot scrape a UNIX socket."""
    config = tmp_path / "f.yaml"
    config.write_text(FLEET + "web: [/tmp/x.sock]")
    assert prometheus(["--config", str(config)]) == 1
    assert "Prometheus reaches no UNIX sockets" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.requires_program("promtool")
def test_promtool(tmp_path: Path, capsys: pytest.CaptureFixture[str], secured: str) -> None:
    """It has no remark on what is printed, on the configuration of the stack's containers, and on the rules."""
    for name in ("ca.pem", "p"):
        (tmp_path / name).write_text(Authority().pem)
    for text, options in (
        (QUEUES, ()),
        (secured, ("--ca-file", f"{tmp_path}/ca.pem", "--user", "alice", "--password-file", f"{tmp_path}/p")),
    ):
        tree = printed(tmp_path, capsys, text, *options, "--rules", f"{ROOT}/etc/prometheus/fakedev.rules.yml")
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(tree))
        command = ["promtool", "check", "config", str(tmp_path / "prometheus.yml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "rules").symlink_to(ROOT / "etc" / "prometheus")
    (tmp_path / "stack.yml").write_text((ROOT / "etc" / "stack" / "prometheus.yml").read_text())
    command = ["promtool", "check", "config", str(tmp_path / "stack.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
