"""Addresses of servers with TLS, and the files of a client."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.client.http import http_address
from fakedev.runtime.client_tls import CannotUseTls, client_context
from fakedev.schema.files import read_password
from fakedev.schema.peer_addresses import Address, ClientTls, parse_address, with_tls


def test_a_line_port() -> None:
    """tls:// stands before the host and port."""
    assert parse_address("tls://a.example:9500") == Address("tls://a.example:9500", "", "a.example", 9500, ClientTls())
    assert parse_address("tls://[::1]:9500").host == "::1"
    assert parse_address("a.example:9500").tls is None


@pytest.mark.parametrize("text", ["tls:///run/w.sock", "tls://a.example", "tls://tls://a:1", "tls://@name", "tls://a:0"])
def test_no_line_port(text: str) -> None:
    with pytest.raises(ValueError, match="is no socket"):
        parse_address(text)


def test_a_url() -> None:
    """https: is TLS; messages show the URL as it was given."""
    found = http_address("https://a.example:9400/")
    assert (str(found), found.host, found.port, found.tls) == ("https://a.example:9400", "a.example", 9400, ClientTls())
    assert http_address("http://a.example:9400").tls is None
    with pytest.raises(ValueError, match="is no address of fakedev"):
        http_address("https://a.example:9400/metrics")


def test_files() -> None:
    """They are for addresses with TLS only, so that nobody believes in TLS that is not there."""
    files = ClientTls("ca.pem", "own.pem", "own.key")
    assert with_tls(parse_address("tls://a:1"), files).tls == files
    assert with_tls(parse_address("a:1"), ClientTls()).tls is None
    with pytest.raises(ValueError, match="a:1 has no TLS, which the files are for: give it as tls://HOST:PORT"):
        with_tls(parse_address("a:1"), files)
    with pytest.raises(ValueError, match="cert-file and key-file go together"):
        ClientTls(cert_file="own.pem")


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    """The error names the option and the file, and has nothing of what is in it."""
    path = tmp_path / "file"
    with pytest.raises(CannotUseTls, match=f"^ca-file: {path}: no such file or folder$"):
        client_context(ClientTls(str(path)))
    path.write_text("SECRET")
    with pytest.raises(CannotUseTls, match=f"^ca-file: {path}: is not a certificate in PEM$"):
        client_context(ClientTls(str(path)))
    with pytest.raises(CannotUseTls, match=r"^cert-file, key-file: .* is not a certificate and its key, without a p"):
        client_context(ClientTls("", str(path), str(path)))


@pytest.mark.parametrize(("text", "expected"), [("a pass word\n", "a pass word"), ("x", "x"), ("pä\r\n", "pä")])
def test_passwords(tmp_path: Path, text: str, expected: str) -> None:
    """A password is the line of its file, with its blanks."""
    path = tmp_path / "password"
    path.write_bytes(text.encode())
    assert read_password(str(path)) == expected


@pytest.mark.parametrize("text", ["", "\n", "one\ntwo\n", "a\tb\n"])
def test_no_password(tmp_path: Path, text: str) -> None:
    path = tmp_path / "password"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{path}: must have one line, the password$"):
        read_password(str(path))
