"""The client over real sockets: TLS with addresses, kept connections, a server that comes back at the same port."""

from __future__ import annotations

import builtins
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.protocol import Factory, Protocol

from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.client.watch import Watch
from fakedev.kubernetes.settings import in_cluster, read_kubeconfigs
from fakedev.runtime.http_client import ApiError, no_answer
from fakedev.runtime.tls import CannotConnect
from fakedev.runtime.tls_settings import ApiServer
from fakedev.schema.files import Files
from tests.support.deferreds import within
from tests.support.kube.api_server import ClusterApi, node
from tests.support.wire.certificates import Authority

NODES = "/api/v1/nodes"
Connect = Callable[[ApiServer], ApiClient]


@pytest_twisted.async_yield_fixture()
async def connect() -> AsyncIterator[Connect]:
    """Makes clients, and stops them with the test."""
    made: list[ApiClient] = []

    def make(server: ApiServer) -> ApiClient:
        made.append(ApiClient(server, reactor, random=random.random))
        return made[-1]

    yield make
    for client in made:
        await within(client.stop())


@pytest_twisted.async_yield_fixture()
async def api() -> AsyncIterator[ClusterApi]:
    """A cluster without TLS."""
    api = ClusterApi(reactor)
    api.start()
    api.add(node("dgx-0"))
    yield api
    await within(api.stop())


@pytest_twisted.async_yield_fixture()
async def tls_api() -> AsyncIterator[ClusterApi]:
    """A cluster whose server has a certificate for the address 127.0.0.1."""
    api = ClusterApi(reactor, Authority())
    api.start()
    api.add(node("dgx-0"))
    yield api
    await within(api.stop())


async def fault_of(client: ApiClient) -> ApiError:
    """Why the nodes cannot be listed."""
    with pytest.raises(ApiError) as caught:
        await within(client.request("GET", NODES, attempts=1))
    return caught.value


@pytest_twisted.ensureDeferred
async def test_a_server_with_an_address(tls_api: ClusterApi, connect: Connect) -> None:
    """Its certificate is for the IP address, and signed by the authority of the kubeconfig."""
    tls_api.require_token("secret")
    server = read_kubeconfigs(["/kubeconfig"], "", {"/kubeconfig": tls_api.kubeconfig}.__getitem__)
    found = await within(connect(server).request("GET", NODES))
    assert [item["metadata"]["name"] for item in found["items"]] == ["dgx-0"]


@pytest_twisted.ensureDeferred
async def test_a_pod_of_the_cluster(tls_api: ClusterApi, connect: Connect, tmp_path: Path) -> None:
    tls_api.require_token("secret")
    (tmp_path / "token").write_text("secret")
    (tmp_path / "ca.crt").write_text(tls_api.server.ca_pem)
    port = tls_api.url.rpartition(":")[2]
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
    client = connect(in_cluster(environ, Files().read, str(tmp_path)))
    await within(client.request("GET", NODES))
    assert tls_api.requests == {("list", "nodes", 200): 1}


@pytest_twisted.ensureDeferred
async def test_a_server_of_another_authority(tls_api: ClusterApi, connect: Connect) -> None:
    error = await fault_of(connect(replace(tls_api.server, ca_pem=Authority("another").pem)))
    assert error.message == (
        f"the certificate of {tls_api.url} is not signed by the given certificate authority, or not valid now"
    )
    assert not tls_api.requests


@pytest_twisted.ensureDeferred
async def test_a_certificate_for_another_address(connect: Connect) -> None:
    """It is refused, but for those who know the name in it."""
    api = ClusterApi(reactor, Authority(server_name="kubernetes.example"))
    api.start()
    try:
        error = await fault_of(connect(api.server))
        assert error.message == (
            f"the certificate of {api.url} is for another name: give the name in it as tls-server-name"
        )
        await within(connect(replace(api.server, server_name="kubernetes.example")).request("GET", NODES))
        await within(connect(replace(api.server, ca_pem="", is_insecure=True)).request("GET", NODES))
    finally:
        await within(api.stop())


@pytest_twisted.ensureDeferred
async def test_a_client_certificate(connect: Connect) -> None:
    """As kind's kubeconfig has one; without it there is one clear line."""
    authority = Authority()
    certificate, key = authority.sign("admin")

    class AskingAuthority(Authority):
        def server_options(self, *, asks_for_client: bool = False) -> Any:
            return authority.server_options(asks_for_client=True)

    api = ClusterApi(reactor, AskingAuthority())
    api.start()
    try:
        server = ApiServer(api.url, ca_pem=authority.pem)
        await within(connect(replace(server, certificate_pem=certificate, key_pem=key)).request("GET", NODES))
        error = await fault_of(connect(server))
        assert "\n" not in error.message
        assert error.code == 0
    finally:
        await within(api.stop())


@pytest_twisted.ensureDeferred
async def test_tls_with_a_server_without_tls(connect: Connect) -> None:
    class Plain(Protocol):
        def dataReceived(self, data: bytes) -> None:
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            self.transport.loseConnection()

    port = reactor.listenTCP(0, Factory.forProtocol(Plain), interface="127.0.0.1")
    url = f"https://127.0.0.1:{port.getHost().port}"
    error = await fault_of(connect(ApiServer(url, is_insecure=True)))
    assert error.message == f"{url} does not speak TLS: is it an http:// URL?"
    await port.stopListening()


@pytest.mark.parametrize("changes", [{"ca_pem": "x"}, {"certificate_pem": "x", "key_pem": "y"}])
def test_certificates_that_are_none(changes: dict[str, str]) -> None:
    server = replace(ApiServer("https://127.0.0.1:1", source="config"), **changes)
    with pytest.raises(CannotConnect, match=r"^config: the .* in PEM$|^config: the client certificate .* no PEM"):
        ApiClient(server, reactor, random=random.random)


def test_tls_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text names the extra, and the way without it; http:// needs neither."""
    original = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] in ("OpenSSL", "service_identity"):
            raise ImportError(name)
        return original(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CannotConnect, match=r"'FILE.whl\[kubernetes\]', for line ports"):
        ApiClient(ApiServer("https://127.0.0.1:1"), reactor, random=random.random)
    ApiClient(ApiServer("http://127.0.0.1:1"), reactor, random=random.random)


@pytest_twisted.ensureDeferred
async def test_a_server_that_comes_back(api: ClusterApi, connect: Connect) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.words: list[str] = []

        def listed(self, items: list[Any]) -> None:
            self.words.append(f"listed {len(items)}")

        def changed(self, item: Any) -> None:
            self.words.append(f"changed {item['metadata']['name']}")

        def deleted(self, item: Any) -> None:
            self.words.append("deleted")

        def lost(self, reason: str) -> None:
            self.words.append("lost")

    client, seen = connect(api.server), Recorder()
    watch = Watch(client, NODES, seen, lost=seen.lost)
    watch.start()
    await within(client.merge_patch(f"{NODES}/dgx-0", {"metadata": {"labels": {"a": "b"}}}))
    await within(api.stop())
    asked = client.merge_patch(f"{NODES}/dgx-0", {"metadata": {"labels": {"a": "c"}}})
    api.start()
    await within(asked)
    labelled = api.when("nodes", lambda item: item["metadata"]["labels"].get("a") == "c")
    await within(labelled)
    api.add(node("dgx-1"))
    await within(api.when("nodes", lambda item: item["metadata"]["name"] == "dgx-1"))
    await within(client.request("GET", NODES))
    await watch.stop()
    assert "listed 1" in seen.words


@pytest_twisted.ensureDeferred
async def test_connections_are_kept(api: ClusterApi, connect: Connect) -> None:
    client = connect(api.server)
    for _ in range(10):
        await within(client.request("GET", NODES))
    assert len(api._factory.protocols) == 1


def test_a_connection_that_takes_too_long() -> None:
    """Its cancelling is no news: what counts is that the server does not answer."""
    error = no_answer(ConnectingCancelledError(IPv4Address("TCP", "127.0.0.1", 6443)), "https://127.0.0.1:6443")
    assert (error.reason, error.message) == ("NoAnswer", "https://127.0.0.1:6443 does not answer in time")
