"""ResourceSlices that need features of Kubernetes 1.36: a real API server takes them as they are, and once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from tests.kubernetes.cluster.test_nodes import CONFIGURATION, Mock
from tests.support.kube.cluster import Cluster
from tests.support.programs.asynchronous import eventually
from tests.support.programs.processes import StartAsync

pytestmark = [pytest.mark.real, pytest.mark.slow]

#: A board that claims divide, and one that they share.
DYNAMIC = ("devices-per-node: 1", "dynamic-mig: true")
CONSUMABLE = ("devices-per-node: 1, sharing: {replicas: 4, consumable: true}", "requests-per-second: 20")


@pytest.mark.parametrize(("pool", "more", "count"), [(*DYNAMIC, 26), (*CONSUMABLE, 1)])
@pytest_twisted.ensureDeferred
async def test_slices(
    start_async: StartAsync, tmp_path: Path, cluster: Cluster, pool: str, more: str, count: int
) -> None:
    text = CONFIGURATION.replace("devices-per-node: 8", pool)
    text = text.replace("kubernetes: {", f"kubernetes: {{resources: dra, {more}, ")
    mock = Mock(start_async, tmp_path, cluster, text)
    name = await cluster.add_node("fakedev-test")
    service = await mock.serve()

    def has_all(found: Any) -> bool:
        devices = [each for item in found["items"] if item["spec"].get("nodeName") == name
                   for each in item["spec"].get("devices", ())]  # fmt: skip
        keys = {"consumesCounters", "allowMultipleAllocations"}
        return len(devices) == count and all(keys & {*device} for device in devices)

    await cluster.until("/apis/resource.k8s.io/v1/resourceslices", has_all, "the slices are there")
    page = ""

    async def is_counted() -> bool:
        nonlocal page
        page = (await service.fetch("/-/metrics")).body.decode()
        return re.search(r'requests_total\{code="201",resource="resourceslices",verb="create"\}', page) is not None

    await eventually(is_counted, "the answer has come")
    assert 'resource="resourceslices",verb="update"' not in page
    await mock.clean()
