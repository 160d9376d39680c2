"""What is known of the node when the service is gone: its last view, and after a while that nothing is healthy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fakedev.kube.node_view import NodeView

#: Seconds for which devices keep their health after the last line from the service.
KEEP_SECONDS: Final = 60.0
_REASON: Final = "the fakedev service is gone"


class LastView:
    """The view of the node, as of the service."""

    def __init__(self) -> None:
        self._view: NodeView | None = None
        self._heard_seconds = 0.0
        self._lost: NodeView | None = None  # made once: a turn of the program compares views

    def changed(self, view: NodeView, now: float) -> None:
        """The service has sent a view."""
        self._view, self._lost = view, None
        self._heard_seconds = now

    def heard(self, now: float) -> None:
        """The service has sent anything. After the devices have become unhealthy, only a view counts."""
        if not self.is_stale(now):
            self._heard_seconds = now

    def is_stale(self, now: float) -> bool:
        """Whether the service has been silent for too long."""
        return self._view is not None and now - self._heard_seconds >= KEEP_SECONDS

    def at(self, now: float) -> NodeView | None:
        """The view that counts now; None: nothing is known yet."""
        if self._view is None or not self.is_stale(now):
            return self._view
        if self._lost is None:
            self._lost = _unhealthy(self._view)
        return self._lost


def _unhealthy(view: NodeView) -> NodeView:
    resources = {
        resource: tuple(replace(slot, unhealthy=slot.unhealthy or _REASON) for slot in slots)
        for resource, slots in view.resources.items()
    }
    return replace(view, resources=resources)
