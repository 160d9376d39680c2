"""The last ticks of a device, and of the whole fleet, for charts."""

from __future__ import annotations

from fakedev.net.http.api import ApiResource
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import Response, json_response
from fakedev.sim.charts import History


class FleetHistory(ApiResource):
    """/api/v1/history: sums over the fleet."""

    isLeaf = True

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def get(self, request: GuardedRequest) -> Response:
        """Mean usage, power of all, highest temperature of each of the last ticks."""
        return json_response({**self._history.times(), "quantities": self._history.of_fleet()})


class DeviceHistory(ApiResource):
    """/api/v1/devices/NODE/INDEX/history.

    :param position: the device's place in arrays.
    """

    isLeaf = True

    def __init__(self, history: History, position: int, name: str) -> None:
        super().__init__()
        self._history = history
        self._position = position
        self._name = name

    def get(self, request: GuardedRequest) -> Response:
        """What the device showed in each of the last ticks."""
        times, quantities = self._history.times(), self._history.of_device(self._position)
        return json_response({"device": self._name, **times, "quantities": quantities})
