"""Boards as OpenTelemetry's metrics, read by its own messages, and posted to a collector."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_twisted
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from twisted.internet import reactor
from twisted.internet.defer import DeferredQueue
from twisted.web.resource import Resource
from twisted.web.server import Site

from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.exporters.otlp_message import message
from fakedev.exporters.otlp_sender import OtlpPart
from fakedev.exporters.settings.otlp import Otlp
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError


def configuration(**otlp: object) -> Configuration:
    """A node with two boards, the second one of them busy with a pod."""
    pool = {"name": "a", "nodes": ["a-0"], "device": "h100", "devices-per-node": 2, "identity": "dcgm"}
    work = {"name": "w", "devices": "*/1", "profile": "100:0:0", "pod": "train-0", "namespace": "ml"}
    tree = {"fleet": {"pools": [pool], "epoch": "1000"}, "web": [], "workloads": {"listen": [], "base": [work]}}
    return load(None, Files(environ={}), text=json.dumps({**tree, "otlp": otlp} if otlp else tree))


def fleet() -> Fleet:
    """The same, after some ticks."""
    made = Fleet(configuration().fleet)
    for _ in range(5):
        made.advance()
    return made


def points(body: bytes) -> dict[tuple[str, str], list[tuple[float, dict[str, str]]]]:
    """Values and attributes of the points of each metric and unit."""
    request = ExportMetricsServiceRequest.FromString(body)
    (resource,) = request.resource_metrics
    assert [(each.key, each.value.string_value) for each in resource.resource.attributes] == [("host.name", "a-0")]
    (scope,) = resource.scope_metrics
    return {
        (metric.name, metric.unit): [
            (point.as_double, {attribute.key: attribute.value.string_value for attribute in point.attributes})
            for point in (metric.gauge if metric.WhichOneof("data") == "gauge" else metric.sum).data_points
        ]
        for metric in scope.metrics
    }


def message_of(shown: Fleet) -> bytes:
    (node,) = shown.roster.shown
    return message(node.name, list(zip(node.devices, shown.labels.facts(node), strict=True)), shown.shown)


def test_a_message() -> None:
    """Every metric of the conventions with its unit; a board is known by its UUID, and a pod by Kubernetes' names."""
    found = points(message_of(fleet()))
    assert list(found) == [
        ("hw.gpu.utilization", "1"), ("hw.gpu.memory.utilization", "1"), ("hw.gpu.memory.usage", "By"),
        ("hw.gpu.memory.limit", "By"), ("hw.gpu.io", "By"), ("hw.errors", "{error}"), ("hw.energy", "J"),
        ("hw.power", "W"), ("hw.temperature", "Cel"), ("hw.status", "1"),
    ]  # fmt: skip
    idle, busy = (each for each in found["hw.gpu.utilization", "1"] if each[1]["hw.gpu.task"] == "general")
    assert idle[0] < 0.5 < busy[0] <= 1
    assert "k8s.pod.name" not in idle[1]
    assert (busy[1]["k8s.pod.name"], busy[1]["k8s.namespace.name"]) == ("train-0", "ml")
    assert busy[1]["hw.model"] == "NVIDIA H100 80GB HBM3"
    sensor, state = found["hw.temperature", "Cel"][1][1], found["hw.status", "1"]
    assert (sensor["hw.type"], sensor["hw.parent"]) == ("temperature", busy[1]["hw.id"])
    assert [(value, each["hw.state"]) for value, each in state] == [(1, "ok"), (1, "ok"), (0, "failed"), (0, "failed")]


def test_sums_begin_with_the_fleet() -> None:
    """Counters are monotonic and have the time of their beginning; what rises and falls is not monotonic."""
    (resource,) = ExportMetricsServiceRequest.FromString(message_of(fleet())).resource_metrics
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    assert metrics["hw.energy"].sum.is_monotonic and not metrics["hw.gpu.memory.usage"].sum.is_monotonic
    point = metrics["hw.energy"].sum.data_points[0]
    assert point.start_time_unix_nano == 1000 * 10**9 < point.time_unix_nano
    assert metrics["hw.power"].gauge.data_points[0].start_time_unix_nano == 0


class Collector(Resource):  # type: ignore[misc]
    """Answers with codes, then takes everything."""

    isLeaf = True

    def __init__(self, *codes: int) -> None:
        super().__init__()
        self.codes = list(codes)
        self.taken: DeferredQueue[tuple[str, bytes]] = DeferredQueue()

    def render_POST(self, request: Any) -> bytes:
        """Keep a message that is taken (called by Twisted)."""
        if self.codes:
            request.setResponseCode(self.codes.pop(0))
        else:
            self.taken.put((request.getHeader("Content-Type"), request.content.read()))
        return b""


@pytest_twisted.ensureDeferred
async def test_a_collector_that_is_not_ready_at_first() -> None:
    """What it does not take is dropped, and /health names it until a message is taken, with newer values."""
    collector = Collector(503)
    port: Any = reactor.listenTCP(0, Site(collector), interface="127.0.0.1")  # type: ignore[attr-defined]
    url = f"http://127.0.0.1:{port.getHost().port}/v1/metrics"
    part = OtlpPart(Otlp(url, 0.1), fleet(), reactor)
    part.startService()
    content_type, body = await collector.taken.get()
    assert part.problems()["otlp"].startswith(f"{url} takes no metrics: 503")
    assert content_type == "application/x-protobuf"
    assert len(points(body)["hw.power", "W"]) == 2
    await collector.taken.get()
    assert part.problems() == {"otlp": ""}
    await part.stopService()
    await port.stopListening()


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://a/v1", "http://a:99999/", "http://u:p@a/", "http://a b/"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"url: .* is no URL of a collector: give one as http://localhost:4318"):
        configuration(url=url)


def test_a_section() -> None:
    assert configuration(url="http://c:4318/v1/metrics", every="10s").otlp == Otlp("http://c:4318/v1/metrics", 10.0)
    assert configuration().otlp is None
