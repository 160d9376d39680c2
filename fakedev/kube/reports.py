"""Events of the API, by which people see with ``kubectl describe`` what fakedev has to say of a node or a pod."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fakedev.kube.health import NodeHealth

#: Characters of a message, at most (Kubernetes: validation of events).
_LONGEST: Final = 1024
#: Where Events of nodes are, which have no namespace.
_OF_NODES: Final = "default"
#: Different messages about one object that are remembered.
_MAX_TOLD: Final = 100
#: Reports that wait to be taken.
_MAX_WAITING: Final = 10_000
COMPONENT: Final = "fakedev"


@dataclass(frozen=True)
class Report:
    """Something to be said of one node or pod.

    :param kind: ``Node`` or ``Pod``.
    :param namespace: of a pod.
    :param reason: a word in CamelCase.
    :param is_once: the same is not to be said again, also not after a restart: its Event has the same name then.
    """

    kind: str
    name: str
    namespace: str
    uid: str
    reason: str
    message: str
    is_warning: bool = True
    is_once: bool = False

    def event(self, time: str) -> dict[str, Any]:
        """The Event of core/v1.

        :param time: now, as the API writes times: ``2026-11-22T10:00:00Z``.
        """
        namespace = self.namespace or _OF_NODES
        words = "\0".join((self.kind, self.uid, self.reason, self.message, "" if self.is_once else time))
        digest = hashlib.blake2b(words.encode(), digest_size=8).hexdigest()
        involved: Mapping[str, str] = {
            "apiVersion": "v1", "kind": self.kind, "name": self.name, "uid": self.uid or self.name,
            **({"namespace": self.namespace} if self.namespace else {}),
        }  # fmt: skip
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{self.name[:230]}.{digest}", "namespace": namespace},
            "involvedObject": involved,
            "reason": self.reason,
            "message": self.message[:_LONGEST],
            "type": "Warning" if self.is_warning else "Normal",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }


class ReportQueue:
    """Reports that wait to be taken; beyond a bound the oldest are dropped."""

    def __init__(self) -> None:
        self._waiting: deque[Report] = deque(maxlen=_MAX_WAITING)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, report: Report) -> None:
        """Add a report."""
        self._waiting.append(report)

    def take(self) -> list[Report]:
        """All that wait, in order; they wait no more."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


class Told:
    """The messages about one object that were reported: each is reported once."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str], None] = {}

    def add_new(self, reason: str, message: str) -> bool:
        """Remember a message; whether it is new."""
        if (reason, message) in self._messages:
            return False
        if len(self._messages) >= _MAX_TOLD:
            self._messages.clear()
        self._messages[reason, message] = None
        return True


def of_node(name: str, uid: str, reason: str, message: str, *, is_warning: bool = True) -> Report:
    """Something to be said of a node."""
    return Report("Node", name, "", uid, reason, message, is_warning)



def reports_of_health(name: str, uid: str, before: NodeHealth, now: NodeHealth) -> Iterator[Report]:
    """What has become better or worse at a node."""
    for device, why in now.unhealthy.items():
        if before.unhealthy.get(device) != why:
            yield of_node(name, uid, "DeviceUnhealthy", f"{device}: {why}")
    for device in before.unhealthy:
        if device not in now.unhealthy:
            yield of_node(name, uid, "DeviceHealthy", f"{device} is healthy again", is_warning=False)
    for was, is_now, what, words in (
        (before.plugin_is_down, now.plugin_is_down, "DevicePlugin", "the device plugin"),
        (before.is_down, now.is_down, "Node", "the node"),
    ):
        if was != is_now:
            reason, message = (f"{what}Down", f"{words} is down") if is_now else (f"{what}Up", f"{words} is back")
            yield of_node(name, uid, reason, message, is_warning=is_now)
    if now.kubelet_restarts > before.kubelet_restarts:
        yield of_node(name, uid, "KubeletRestarted", "the kubelet has started again", is_warning=False)
