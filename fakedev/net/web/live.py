"""The live view of the web page: one frame for all viewers, sent to each as fast as it reads."""

from __future__ import annotations

from typing import Any, Final

import orjson
from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from fakedev import __version__
from fakedev.net.http.body import Body
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.sending import Outgoing
from fakedev.net.web.frames import FrameSource, fleet_outline

#: Viewers at once; further ones are answered 503.
MAX_VIEWERS: Final = 64
CONTENT_TYPE: Final = "text/event-stream"
#: How often the view looks for a new tick: frames are made at most as often.
_BEAT_SECONDS: Final = 0.25
#: The longest time between two frames, also when the clock is stopped.
_STILL_SECONDS: Final = 1.0
#: The number of the last frame of viewers that have the outline of an old fleet.
_OUTDATED: Final = -2


class LiveView(Service):
    """Sends the fleet, its queues and its load to viewers as they change.

    A frame is made at most once a tick and once in 0.25 s, and only for viewers that are there. A viewer that has not
    read the last frame gets no more until it has, and then the newest.

    :ivar frames: frames made since the start.
    """

    log = Logger()

    def __init__(self, source: FrameSource, clock: IReactorTime) -> None:
        self.setName("live")  # type: ignore[no-untyped-call, unused-ignore]
        self._source = source
        self._clock = clock
        self._viewers: dict[Outgoing, int] = {}  # with the number of the last frame that each has
        self._loop = LoopingCall(self._beat)
        self._loop.clock = clock
        self._frame = Body()
        self._shown: tuple[int, float] | None = None  # tick and time of the frame
        self.frames = 0

    @property
    def is_full(self) -> bool:
        """Whether there are MAX_VIEWERS."""
        return len(self._viewers) >= MAX_VIEWERS

    def stopService(self) -> None:
        """Make no more frames; the viewers go when the port closes their connections."""
        super().stopService()  # type: ignore[no-untyped-call, unused-ignore]
        self._stop()

    def add(self, request: GuardedRequest) -> None:
        """Send the fleet to a viewer until it leaves."""
        viewer = request.respond_endlessly(CONTENT_TYPE)
        if viewer is None:
            return
        request.notify_finish().addBoth(lambda _: self._remove(viewer))
        self._viewers[viewer] = -1
        viewer.send_more(self._outline().pieces)
        if not self._loop.running:
            stopped = self._loop.start(_BEAT_SECONDS, now=False)
            stopped.addErrback(lambda failure: self.log.failure("the live view stopped", failure))

    def renew(self) -> None:
        """The fleet has other devices: send the new outline before the next frame."""
        self._shown = None
        self._viewers = dict.fromkeys(self._viewers, _OUTDATED)

    def _remove(self, viewer: Outgoing) -> None:
        self._viewers.pop(viewer, None)
        if not self._viewers:
            self._stop()

    def _stop(self) -> None:
        if self._loop.running:
            self._loop.stop()
        self._frame, self._shown = Body(), None

    def _beat(self) -> None:
        """Make a frame if there is something new, and send it to all viewers that take more."""
        try:
            self._make()
        except Exception:
            self.log.failure("a frame of the live view could not be made")
            return
        for viewer, seen in list(self._viewers.items()):
            if seen != self.frames and viewer.takes_more:
                self._viewers[viewer] = self.frames
                outline = self._outline().pieces if seen == _OUTDATED else ()
                viewer.send_more([*outline, *self._frame.pieces])

    def _outline(self) -> Body:
        return _event("fleet", fleet_outline(self._source.fleet, __version__))

    def _make(self) -> None:
        tick, now = self._source.fleet.state.tick, self._clock.seconds()
        if self._shown is not None and self._shown[0] == tick and 0 <= now - self._shown[1] < _STILL_SECONDS:
            return
        self._frame = _event("tick", self._source.frame())
        self._shown = tick, now
        self.frames += 1


def _event(name: str, values: dict[str, Any]) -> Body:
    """A server-sent event; its JSON has no line ends."""
    data = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    return Body(b"event: %b\ndata: " % name.encode(), data, b"\n\n")
