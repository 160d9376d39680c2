"""Web configuration files of exporters: TLS, passwords, headers, a rate."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fakedev.config.export import effective_text
from fakedev.config.load import load
from fakedev.runtime.tls_settings import ClientAuth, TlsServer, WebConfig
from fakedev.schema.files import Files, Unreadable
from fakedev.schema.places import ConfigurationError
from fakedev.web.settings import read_web_config

HASH = "$2y$10$" + "a" * 53
PEMS = {"/etc/w/cert.pem": "CERT", "/etc/w/key.pem": "KEY", "/etc/w/ca.pem": "CA"}
FILES = "cert_file: cert.pem, key_file: key.pem"


def read(text: str, pems: Mapping[str, str] = PEMS) -> WebConfig:
    """What a file /etc/w/web.yml says, beside others."""

    def give(path: str) -> str:
        if path not in files:
            raise Unreadable("no such file")
        return files[path]

    files = {**pems, "/etc/w/web.yml": text}
    return read_web_config("/etc/w/web.yml", give)


def test_a_whole_file() -> None:
    """All keys; paths begin in the folder of the file, whose files are to be watched."""
    found = read(f"""
tls_server_config:
  cert_file: cert.pem
  key_file: /etc/w/key.pem
  client_ca_file: ca.pem
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [a.example]
  min_version: TLS12
  max_version: TLS12
  cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences: [CurveP384]
http_server_config:
  http2: false
  headers: {{X-Frame-Options: deny, Strict-Transport-Security: max-age=1}}
basic_auth_users: {{alice: {HASH}}}
rate_limit: {{interval: 1s, burst: 20}}
""")
    assert found == WebConfig(
        TlsServer("CERT", "KEY", "CA", ClientAuth.REQUIRE_AND_VERIFY, ("a.example",), "TLS12", "TLS12",
                  ("ECDHE-RSA-AES128-GCM-SHA256",), False, "secp384r1"),
        {"alice": HASH}, (("X-Frame-Options", "deny"), ("Strict-Transport-Security", "max-age=1")), 1.0, 20,
        ("/etc/w/web.yml", "/etc/w/cert.pem", "/etc/w/key.pem", "/etc/w/ca.pem"),
    )  # fmt: skip


def test_an_empty_file() -> None:
    """Plain HTTP without passwords; so is one whose TLS has no certificate, as in the original."""
    assert read("{}") == read("tls_server_config: {min_version: TLS13}") == WebConfig(files=("/etc/w/web.yml",))


def test_what_is_secret_is_not_shown() -> None:
    """Neither a key nor a hash is in what Python prints of the values."""
    found = read(f"tls_server_config: {{cert: C, key: SECRET}}\nbasic_auth_users: {{alice: {HASH}}}")
    assert "SECRET" not in repr(found)
    assert HASH not in repr(found)


def test_the_older_name() -> None:
    """RequireClientCert is RequireAnyClientCert."""
    found = read(f"tls_server_config: {{{FILES}, client_auth_type: RequireClientCert}}")
    assert found.tls is not None
    assert found.tls.client_auth is ClientAuth.REQUIRE_ANY


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1", "web.yml:1: unknown key 'a'; known here: tls_server_config, "),
        ("tls_server_config: {cert_file: cert.pem}", "web.yml:1: missing one of key or key_file"),
        ("tls_server_config: {key_file: key.pem}", "web.yml:1: missing one of cert or cert_file"),
        ("tls_server_config: {cert_file: no.pem, key_file: key.pem}", "cert_file: /etc/w/no.pem: no such file"),
        (f"tls_server_config: {{{FILES}, cert: x}}", "cert and cert_file: give one of them"),
        (f"tls_server_config: {{{FILES}, client_ca_file: ca.pem}}", "client_ca_file goes with a client_auth_type"),
        (f"tls_server_config: {{{FILES}, client_auth_type: VerifyClientCertIfGiven}}", "needs client_ca_file"),
        (f"tls_server_config: {{{FILES}, client_auth_type: Any}}", "client_auth_type"),
        (f"tls_server_config: {{{FILES}, client_allowed_sans: [a]}}", "client_allowed_sans: needs client_auth_type"),
        (f"tls_server_config: {{{FILES}, cipher_suites: [RC4]}}", "cipher_suites"),
        (f"tls_server_config: {{{FILES}, min_version: TLS13, max_version: TLS12}}", "is above max_version"),
        (f"tls_server_config: {{{FILES}, curve_preferences: [CurveP256, CurveP384]}}", "one curve can be given"),
        ("http_server_config: {headers: {X-Other: a}}", "unknown key 'X-Other'"),
        ("http_server_config: {headers: {X-Frame-Options: allow}}", "'allow' is not deny or sameorigin"),
        ('http_server_config: {headers: {X-XSS-Protection: "a\\r\\nb: c"}}', "must be printable ASCII"),
        ("basic_auth_users: {alice: secret}", "is no bcrypt hash of a password"),
        (f"basic_auth_users: {{'a:b': {HASH}}}", "has a colon"),
        ("rate_limit: {interval: x}", "rate_limit.interval"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    """With its place."""
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert problem in str(caught.value)
    assert str(caught.value).startswith("/etc/w/web.yml:1: ")


def test_no_file() -> None:
    """The problem names it."""

    def give(path: str) -> str:
        raise Unreadable("no such file")

    with pytest.raises(ConfigurationError, match=r"^/no\.yml: web-config: no such file$"):
        read_web_config("/no.yml", give)


KEYS = """
web:
  - listen: "9400"
    web-config:
      tls_server_config: {cert_file: cert.pem, key: KEY}
      basic_auth_users: {alice: HASH}
  - "9401"
web-config: {rate_limit: {interval: 1s, burst: 2}}
fleet: {pools: [{name: p, nodes: 1, device: h100}]}
""".replace("HASH", HASH)


def test_keys_in_our_configuration() -> None:
    """The same keys stand where the path of a file may; their paths begin in the folder of our configuration."""
    first, second = load("/etc/w/f.yaml", Files(), text=KEYS).web
    assert first.web_config is not None
    assert second.web_config is not None
    found = first.web_config.read(PEMS.__getitem__)
    assert found == WebConfig(TlsServer("CERT", "KEY"), {"alice": HASH}, files=("/etc/w/cert.pem",))
    assert second.web_config.read() == WebConfig(interval_seconds=1.0, burst=2)


def test_keys_that_are_secret() -> None:
    """The effective configuration hides the key and the hashes."""
    text = effective_text(load("/etc/w/f.yaml", Files(), text=KEYS))
    assert "cert_file: cert.pem" in text
    assert '        key: "********"' in text
    assert HASH not in text.replace("$$", "$")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("cert_file", "cert_fil", "f.yaml:5: web.0.web-config.tls_server_config: unknown key 'cert_fil'; did you"),
        (HASH, "secret", "f.yaml:6: web.0.web-config.basic_auth_users.alice: is no bcrypt hash"),
        ("{rate_limit: {interval: 1s, burst: 2}}", "[a]", "f.yaml:8: web-config: must be a path of a web"),
    ],
)
def test_keys_that_are_refused(old: str, new: str, problem: str) -> None:
    """With their place in our configuration."""
    with pytest.raises(ConfigurationError) as caught:
        load("f.yaml", Files(), text=KEYS.replace(old, new))
    assert problem in str(caught.value)


def test_keys_with_a_missing_file() -> None:
    """Files are read when the service starts; the problem has the line of the key."""
    (first, _) = load("/etc/w/f.yaml", Files(), text=KEYS).web
    assert first.web_config is not None

    def give(path: str) -> str:
        raise Unreadable("no such file")

    with pytest.raises(ConfigurationError, match=r"^/etc/w/f\.yaml:5: cert_file: /etc/w/cert\.pem: no such file$"):
        first.web_config.read(give)
