"""TLS at the addresses of line ports."""

from __future__ import annotations

import pytest

from fakedev.config.load import load
from fakedev.runtime.tls_settings import TlsServer, WebConfig
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError

TEXT = """
workloads:
  listen:
    - listen: "9500"
      tls_server_config: {cert_file: cert.pem, key: KEY, min_version: TLS13}
queues:
  names: [sleep]
  listen-clients: ["9997"]
  listen-backends:
    - listen: "9999"
      tls_server_config: {cert: CERT, key_file: key.pem}
kubernetes:
  listen: [{listen: "9401", tls_server_config: {cert: CERT, key: KEY}}]
fleet: {pools: [{name: p, nodes: cluster, device: h100}]}
"""
PEMS = {"/etc/w/cert.pem": "CERT", "/etc/w/key.pem": "KEY"}


def test_keys() -> None:
    """They are those of a web configuration; paths begin in the folder of the configuration."""
    found = load("/etc/w/f.yaml", Files(), text=TEXT)
    assert found.queues is not None and found.kubernetes is not None
    queues, nodes = found.queues, found.kubernetes.listen
    entries = (*found.workloads.listen, *queues.clients, *queues.backends, *nodes)
    assert [entry.tls and entry.tls.read(PEMS.__getitem__) for entry in entries] == [
        WebConfig(TlsServer("CERT", "KEY", least_version="TLS13"), files=("/etc/w/cert.pem",)),
        None,
        WebConfig(TlsServer("CERT", "KEY"), files=("/etc/w/key.pem",)),
        WebConfig(TlsServer("CERT", "KEY")),
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("key: KEY, ", "", "f.yaml:5: tls_server_config: missing one of key or key_file"),
        ("cert_file: cert.pem, key: KEY, ", "", "f.yaml:5: tls_server_config: missing one of cert or cert_file"),
        ("key: KEY", "key: KEY, users: {}", "f.yaml:5: workloads.listen.0.tls_server_config: unknown key 'users'"),
        ('"9500"', "/run/w.sock", "f.yaml:5: tls_server_config: /run/w.sock is a UNIX socket, which has no TLS"),
        ('"9500"', "ssl:9500:privateKey=key.pem", "f.yaml:4: listen: 'ssl:9500:privateKey=key.pem': give the address"),
    ],
)
def test_what_is_refused(old: str, new: str, problem: str) -> None:
    """With its place: never plain text where TLS was asked for."""
    with pytest.raises(ConfigurationError) as caught:
        load("f.yaml", Files(), text=TEXT.replace(old, new))
    assert problem in str(caught.value)
