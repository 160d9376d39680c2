"""kubectl applies the manifests, and again without a change. A real cluster does so in the workflow."""

from __future__ import annotations

import pytest
import pytest_twisted

from tests.support.kube.cluster import Cluster
from tests.support.kube.manifests import MANIFESTS, objects_of

pytestmark = [pytest.mark.real, pytest.mark.slow]
#: The API server of the tests knows no schemas: kubernetes-validate checks them in tests/manifests.
APPLY = ("apply", "--validate=false", "--filename", str(MANIFESTS / "mock.yaml"))


@pytest_twisted.ensureDeferred
async def test_mock(memory_cluster: Cluster) -> None:
    objects = objects_of((MANIFESTS / "mock.yaml").read_text(encoding="utf-8"))
    assert objects[0]["kind"] == "Namespace"
    first = (await memory_cluster.kubectl(*APPLY)).splitlines()
    assert len(first) == len(objects)
    assert {line.split()[-1] for line in first} == {"created"}
    again = (await memory_cluster.kubectl(*APPLY)).splitlines()
    assert [line.split()[0] for line in again] == [line.split()[0] for line in first]
    assert {line.split()[-1] for line in again} == {"unchanged"}
    service = await memory_cluster.get("/apis/apps/v1/namespaces/fakedev/deployments/fakedev")
    assert service["spec"]["template"]["spec"]["serviceAccountName"] == "fakedev"
