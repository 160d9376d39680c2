"""A node's boards as OpenTelemetry's metrics: the conventions for hardware, in OTLP's messages.

Names, units and attributes: OpenTelemetry, "Semantic conventions for hardware metrics" (development), in November 2026:
hw.gpu.*, hw.errors, hw.status, hw.temperature, hw.power and hw.energy. Protocol: OTLP 1.x, by its official messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fakedev.fleet.entities.state import Level, State

try:
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
    from opentelemetry.proto.metrics.v1 import metrics_pb2 as metrics
except ImportError:  # it is in the extra `otlp`; the service says so
    HAS_MESSAGES = False
else:
    HAS_MESSAGES = True


class _Row(NamedTuple):
    """A series of each board.

    :ivar kind: of its instrument: ``gauge``, ``counter`` or ``updowncounter``.
    :ivar attributes: besides the board's.
    """

    metric: str
    unit: str
    kind: str
    quantity: str
    attributes: Mapping[str, str] = {}


_GPU: Final = {"hw.type": "gpu"}
_ROWS: Final = (
    _Row("hw.gpu.utilization", "1", "gauge", "usage_ratio", {"hw.gpu.task": "general"}),
    _Row("hw.gpu.utilization", "1", "gauge", "encoder_active_ratio", {"hw.gpu.task": "encoder"}),
    _Row("hw.gpu.utilization", "1", "gauge", "decoder_active_ratio", {"hw.gpu.task": "decoder"}),
    _Row("hw.gpu.memory.utilization", "1", "gauge", "memory_used_bytes"),
    _Row("hw.gpu.memory.usage", "By", "updowncounter", "memory_used_bytes"),
    _Row("hw.gpu.memory.limit", "By", "updowncounter", "memory_total_bytes"),
    _Row("hw.gpu.io", "By", "counter", "pcie_rx_bytes", {"network.io.direction": "receive"}),
    _Row("hw.gpu.io", "By", "counter", "pcie_tx_bytes", {"network.io.direction": "transmit"}),
    _Row("hw.errors", "{error}", "counter", "memory_errors_correctable", {**_GPU, "error.type": "corrected"}),
    _Row("hw.errors", "{error}", "counter", "memory_errors_uncorrectable", {**_GPU, "error.type": "uncorrected"}),
    _Row("hw.energy", "J", "counter", "energy_joules", _GPU),
    _Row("hw.power", "W", "gauge", "power_watts", _GPU),
    _Row("hw.temperature", "Cel", "gauge", "temperature_celsius",
         {"hw.type": "temperature", "hw.sensor_location": "gpu"}),
    _Row("hw.status", "1", "updowncounter", "lost", {**_GPU, "hw.state": "ok"}),
    _Row("hw.status", "1", "updowncounter", "lost", {**_GPU, "hw.state": "failed"}),
)  # fmt: skip
#: What is shown otherwise than its quantity.
_SHARE: Final = "hw.gpu.memory.utilization"
_OK: Final = ("hw.state", "ok")
#: Attributes of each board to its facts; those of pods are the conventions' for Kubernetes.
_ATTRIBUTES: Final = {
    "hw.model": "product_name", "hw.vendor": "vendor", "hw.serial_number": "serial",
    "hw.driver_version": "driver_version", "hw.firmware_version": "vbios_version", "k8s.pod.name": "pod",
    "k8s.namespace.name": "namespace", "k8s.container.name": "container",
}  # fmt: skip


def message(node: str, boards: Sequence[tuple[int, Mapping[str, str]]], state: State) -> bytes:
    """An ExportMetricsServiceRequest with the boards of a node.

    :param boards: their positions in the level of devices, and their facts.
    """
    request = service.ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    _set(resource.resource.attributes, {"host.name": node})
    scope = resource.scope_metrics.add()
    scope.scope.name = "fakedev"
    level = state.levels["device"]
    now = round(1e9 * state.wall_seconds)
    start = round(1e9 * (state.wall_seconds - state.seconds))
    by_name: dict[str, Any] = {}
    for row in _ROWS:
        for position, facts in boards:
            for value in _values(row, level, position):
                points = by_name.get(row.metric) or _add(scope.metrics, row)
                by_name[row.metric] = points
                point = points.add(time_unix_nano=now, start_time_unix_nano=0 if row.kind == "gauge" else start)
                point.as_double = value
                _set(point.attributes, {**_of_board(row, facts), **row.attributes})
    return request.SerializeToString()


def _values(row: _Row, level: Level, position: int) -> Iterator[float]:
    """The value of a series; none where the board does not have the quantity."""
    if not level.has(row.quantity, position):
        return
    value = float(level.arrays[row.quantity][position])
    if row.metric == _SHARE:
        value /= float(level.arrays["memory_total_bytes"][position])
    yield 1.0 - value if _OK in row.attributes.items() else value


def _of_board(row: _Row, facts: Mapping[str, str]) -> dict[str, str]:
    """The attributes of a board; of a sensor, the board is its parent."""
    identifier = facts.get("uuid") or facts["index"]
    is_sensor = row.metric == "hw.temperature"
    own = {"hw.id": f"{identifier}-temperature", "hw.parent": identifier} if is_sensor else {"hw.id": identifier}
    named = {name: facts.get(fact, "") for name, fact in _ATTRIBUTES.items()}
    return {**own, "hw.name": facts["index"], **{name: text for name, text in named.items() if text}}


def _add(every: Any, row: _Row) -> Any:
    """A metric, without points."""
    metric = every.add(name=row.metric, unit=row.unit)
    if row.kind == "gauge":
        metric.gauge.SetInParent()
        return metric.gauge.data_points
    metric.sum.is_monotonic = row.kind == "counter"
    metric.sum.aggregation_temporality = metrics.AGGREGATION_TEMPORALITY_CUMULATIVE
    return metric.sum.data_points


def _set(attributes: Any, values: Mapping[str, str]) -> None:
    for name, text in values.items():
        attributes.add(key=name).value.string_value = text
