"""A cluster in memory and its client, for tests of what speaks with the API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakedev.kubernetes.client.api_client import ApiClient
from tests.support.kube.api_server import ClusterApi
from tests.support.kube.memory_reactor import LinkedReactor


@pytest.fixture
def reactor() -> LinkedReactor:
    """Connections and time in memory."""
    return LinkedReactor()


@pytest.fixture
def api(reactor: LinkedReactor) -> ClusterApi:
    """An empty cluster; the tests of a file may put objects there."""
    api = ClusterApi(reactor)
    api.start()
    return api


@pytest.fixture
def client(api: ClusterApi, reactor: LinkedReactor) -> Iterator[ApiClient]:
    """Its client, whose waits are the longest that chance allows."""
    client = ApiClient(api.server, reactor, random=lambda: 1.0)
    yield client
    client.stop()
    reactor.settle()
