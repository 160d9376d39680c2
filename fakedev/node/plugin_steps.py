"""What a device plugin has to do next: serve its socket, register with the kubelet, stop. Pure: sockets are values."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from fakedev.kube.backoff import Backoff

#: Seconds that a kubelet may take from the registration until it watches the devices.
WATCH_SECONDS: Final = 5.0
_FIRST_SECONDS: Final = 0.25
_LAST_SECONDS: Final = 10.0


class SocketFile(NamedTuple):
    """Which socket is at a path: a socket that is made anew is another one."""

    inode: int
    changed_nanoseconds: int


class Step(Enum):
    """What is to be done now."""

    NOTHING = "nothing"
    SERVE = "serve"  # (again): the socket is not there
    REGISTER = "register"
    STOP = "stop"


class PluginSteps:
    """The life of one plugin. Tell it what happened; ask it for the next step."""

    def __init__(self) -> None:
        self._own: SocketFile | None = None  # that is served
        self._seen: SocketFile | None = None  # the kubelet's
        self._kubelet: SocketFile | None = None  # that was registered with
        self._asked: SocketFile | None = None  # that a registration is under way with
        self._not_before = 0.0
        self._watched_seconds = 0.0
        self._backoff = Backoff(_FIRST_SECONDS, _LAST_SECONDS)

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet that is there has taken the plugin."""
        return self._kubelet is not None

    def next(
        self, now: float, *, is_wanted: bool, own: SocketFile | None, kubelet: SocketFile | None, is_watched: bool
    ) -> Step:
        """The next step.

        :param is_wanted: whether the plugin is to run.
        :param own: what is at the plugin's path.
        :param kubelet: what is at the kubelet's path.
        :param is_watched: whether the kubelet watches the list of devices.
        """
        if is_watched:
            self._backoff.reset()
        if is_watched or self._kubelet is None:
            self._watched_seconds = now
        if not is_wanted:
            return Step.STOP if self._own is not None else Step.NOTHING
        if kubelet != self._seen:
            # Another kubelet, which knows nothing of us and is not to blame for what failed before.
            self._seen, self._kubelet = kubelet, None
            self._not_before = 0.0
            self._backoff.reset()
        elif self._kubelet is not None and now - self._watched_seconds >= WATCH_SECONDS:
            self._kubelet = None  # it has lost us
            self.failed(now)
        if kubelet is None or now < self._not_before:
            return Step.NOTHING
        if self._own is None or own != self._own:
            return Step.SERVE
        return Step.REGISTER if self._kubelet is None and self._asked is None else Step.NOTHING

    def serving(self, own: SocketFile | None) -> None:
        """The socket is served; a registration with the socket before does not count."""
        self._own = own
        self._kubelet = None

    def stopped(self) -> None:
        """The socket is closed."""
        self._own = self._kubelet = None

    def asked(self, kubelet: SocketFile | None) -> None:
        """A registration has begun."""
        self._asked = kubelet

    def registered(self, now: float) -> None:
        """The kubelet has taken the registration."""
        self._kubelet = self._asked if self._own is not None and self._asked == self._seen else None
        self._asked = None
        self._watched_seconds = now

    def failed(self, now: float) -> None:
        """The socket could not be served, or the registration failed: try again later."""
        asked, self._asked = self._asked, None
        if asked in (None, self._seen):
            self._not_before = now + self._backoff.next_seconds()
