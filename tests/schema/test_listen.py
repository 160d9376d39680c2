"""Addresses as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.endpoints import serverFromString
from twisted.internet.testing import MemoryReactorClock

from fakedev.config.load import load
from fakedev.schema.addresses import ListenAddress, parse_listen, same_address
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError
from tests.support.configurations import loaded, problems


@pytest.mark.parametrize(
    ("text", "kind", "host", "port", "display", "local"),
    [
        ("9400", "tcp", "127.0.0.1", 9400, "127.0.0.1:9400", True),
        ("0", "tcp", "127.0.0.1", 0, "127.0.0.1:0", True),
        ("*:9400", "tcp", "", 9400, "*:9400", False),
        (":9999", "tcp", "", 9999, "*:9999", False),
        ("127.0.0.2:1", "tcp", "127.0.0.2", 1, "127.0.0.2:1", True),
        ("0.0.0.0:1", "tcp", "0.0.0.0", 1, "0.0.0.0:1", False),
        ("localhost:65535", "tcp", "localhost", 65535, "localhost:65535", True),
        ("gpu-1.example.org:80", "tcp", "gpu-1.example.org", 80, "gpu-1.example.org:80", False),
        ("[::1]:9400", "tcp", "::1", 9400, "[::1]:9400", True),
        ("[::]:9400", "tcp", "::", 9400, "[::]:9400", False),
        ("tcp:9400", "endpoint", "", 9400, "tcp:9400", False),
        ("tcp:9400:interface=127.0.0.1", "endpoint", "127.0.0.1", 9400, "tcp:9400:interface=127.0.0.1", True),
        ("tcp6:9400:interface=\\:\\:1", "endpoint", "::1", 9400, "tcp6:9400:interface=\\:\\:1", True),
        ("systemd:domain=INET:index=0", "endpoint", "", 0, "systemd:domain=INET:index=0", False),
        ("systemd:domain=UNIX:index=0", "endpoint", "", 0, "systemd:domain=UNIX:index=0", True),
    ],
)
def test_tcp_forms(text: str, kind: str, host: str, port: int, display: str, local: bool) -> None:
    """Ports, hosts, IPv6 in brackets, endpoint strings; and whether only this machine can connect."""
    found = parse_listen(text)
    assert (found.kind, found.host, found.port, found.display, found.local) == (kind, host, port, display, local)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/run/x/a.sock", "/run/x/a.sock"),
        ("./a.sock", "/conf/a.sock"),
        ("../a.sock", "/a.sock"),
        ("runtime:m.sock", "/run/user/7/fakedev/m.sock"),
        ("unix:/run/b.sock", "/run/b.sock"),
        ("unix:address=/run/b.sock:mode=660", "/run/b.sock"),
    ],
)
def test_unix_forms(text: str, path: str) -> None:
    """Paths are made absolute; only the owner may connect unless a mode is given."""
    found = parse_listen(text, folder="/conf", runtime_folder=lambda: "/run/user/7/fakedev")
    assert (found.kind, found.path, found.local) == ("unix", path, True)
    assert found.mode == (0o660 if "mode=" in text else 0o600)


def test_mode_and_group() -> None:
    """A group gets access when one is named; a mode wins."""
    assert parse_listen("/a", group="g").mode == 0o660
    assert parse_listen("/a", group="g", mode=0o600).mode == 0o600
    assert parse_listen("/a", mode=0o644).mode == 0o644


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'' is no address: give 9400, *:9400, HOST:PORT, [::1]:9400, /path or a Twisted endpoint string"),
        ("a b", "'a b' is no address: give 9400, *:9400, HOST:PORT, [::1]:9400, /path or a Twisted endpoint string"),
        ("host", "'host' is no address: give 9400, *:9400, HOST:PORT, [::1]:9400, /path or a Twisted endpoint string"),
        (
            "host:",
            "'host:' is no address: give 9400, *:9400, HOST:PORT, [::1]:9400, /path or a Twisted endpoint string",
        ),
        ("65536", "65536 is no port: from 0 (any free one) to 65535"),
        ("1.2.3:80", "'1.2.3:80': 1.2.3 is no IPv4 address, as 127.0.0.1"),
        ("::1:9400", "'::1:9400' is no address: an IPv6 address is put in brackets, as [::1]:9400"),
        ("[::g]:9400", "'[::g]:9400' has no IPv6 address in its brackets: as [::1]:9400"),
        ("/tmp/", "'/tmp/' is a folder: give the path of a socket in it"),
        ("unix:a.sock", "'unix:a.sock' needs an absolute path, as unix:/run/fakedev/control.sock"),
        ("unix:/a:mode=9", "'unix:/a:mode=9': mode must be three octal digits, as mode=660"),
        ("tcp:x", "'tcp:x' needs a port, as tcp:9400:interface=127.0.0.1"),
        *(
            (text, f"{text!r} needs INET or INET6 or UNIX and a name, as systemd:domain=INET:name=web")
            for text in ("systemd:", "systemd:domain=INET", "systemd:domain=X:name=web", "systemd:domain=INET:index=a",
                         "systemd:domain=INET:index=0:name=web")
        ),
        ("runtime:../x", "'runtime:../x' is no address: after runtime: comes a file name, as runtime:metrics.sock"),
        ("/" + "x" * 107, f"'/{'x' * 107}' is too long for a socket: at most 107 bytes"),
    ],
)
def test_faults(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_listen(text)
    assert str(caught.value) == reason


@pytest.mark.parametrize("text", ["9400", "*:9400", "[::1]:9400", "localhost:9400"])
def test_twisted_understands_the_description(text: str) -> None:
    assert serverFromString(MemoryReactorClock(), parse_listen(text).description) is not None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("9400", "127.0.0.1:9400", True),
        ("9400", "*:9400", True),
        ("9400", "[::]:9400", True),
        ("9400", "tcp:9400", True),
        ("9400", "127.0.0.2:9400", False),
        ("9400", "9401", False),
        ("0", "0", False),
        ("/a", "unix:/a", True),
        ("/a", "/b", False),
        ("/a", "9400", False),
        ("systemd:domain=INET:index=0", "systemd:domain=INET:index=0", True),
        ("systemd:domain=INET:index=0", "systemd:domain=INET:index=1", False),
    ],
)
def test_same_address(one: str, other: str, same: bool) -> None:
    addresses: list[ListenAddress] = [parse_listen(one), parse_listen(other)]
    assert same_address(*addresses) is same
    assert same_address(*reversed(addresses)) is same


@given(st.text(max_size=30) | st.text("tcp:unixsystemd[]=\\/.*0123456789", max_size=20))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        found = parse_listen(text)
    except ValueError:
        return
    assert found.kind in ("tcp", "unix", "endpoint")
    assert found.display


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{per-node: 9400}", "no network and port"),
        ("{per-node: '127.64.0.1/16:9400'}", "has host bits set"),
        ("{per-node: '::/64:9400'}", "is no IPv4 network"),
        ("{per-node: '127.64.0.0/31:9400'}", "no addresses for nodes"),
        ("{per-node: '127.64.0.0/30:9400'}", "has not enough addresses for 3 nodes"),
        ("{per-node: '127.64.0.0/16:9400', serve: all}", "serve: does not go with per-node:"),
        ("{per-node: '127.64.0.0/16:9400', listen: 9401}", "listen: does not go with per-node:"),
        ("{serve: all}", "needs listen: or per-node:"),
        ("9400, {per-node: '127.64.0.0/16:9400'}", "127.64.0.1:9400 is listened on twice"),
    ],
)
def test_per_node(entry: str, problem: str) -> None:
    """A network with room for all nodes, and a port that is free at all addresses."""
    text = f"fleet: {{pools: [{{name: p, nodes: 3}}]}}\nweb: [{entry}]\n"
    with pytest.raises(ConfigurationError, match=problem):
        load(None, Files(environ={}), text=text)


def test_without_a_folder_for_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses of the default folder are problems that say what to set; other addresses are not concerned."""

    def no_folder() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", no_folder)
    text = "web: ['127.0.0.1:9400']\nworkloads: {listen: [/run/fakedev/w.sock]}\n"
    assert loaded(text).web[0].listen.port == 9400
    (problem,) = problems(text.replace("/run/fakedev/w.sock", "runtime:w.sock"))
    assert "set RUNTIME_DIRECTORY or TMPDIR to one that can, or give the path of the socket" in problem
