"""What all viewers of the web page see live: one frame for all of them, sent to each as fast as it reads."""

from __future__ import annotations

from typing import Any, Final

import orjson
from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from fakedev import __version__
from fakedev.net.http.http_body import Body
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.sending import Outgoing
from fakedev.net.web.live_frame import FrameSource, fleet_outline

#: Viewers at once; further ones are told that it is full.
MOST_VIEWERS: Final = 64
#: How often it is looked whether there is something new: at most so often is a frame made.
_BEAT_SECONDS: Final = 0.25
#: A frame is made at the latest after so long, although the clock stands.
_STILL_SECONDS: Final = 1.0
#: In place of the number of its last frame: a viewer whose fleet is no longer the one there is.
_OUTDATED: Final = -2
CONTENT_TYPE: Final = "text/event-stream"


class LiveView(Service):
    """Tells viewers of the fleet, its queues and its load as it goes.

    A frame is made at most once a tick and once in 0.25 s, and only while somebody looks. A viewer that has not taken
    the last frame is given none until it has, and then the newest.

    :param source: makes the frames.
    :ivar frames: frames made since the start.
    """

    log = Logger()

    def __init__(self, source: FrameSource, clock: IReactorTime) -> None:
        self.setName("live")
        self._source = source
        self._clock = clock
        self._viewers: dict[Outgoing, int] = {}  # to the number of the frame that it has
        self._loop = LoopingCall(self._beat)
        self._loop.clock = clock
        self._frame = Body()
        self._shown: tuple[int, float] | None = None  # tick and time of the frame
        self.frames = 0

    @property
    def is_full(self) -> bool:
        """Whether there are as many viewers as there may be."""
        return len(self._viewers) >= MOST_VIEWERS

    def stopService(self) -> None:
        """No more frames; the viewers go with the connections."""
        super().stopService()
        self._stop()

    def add(self, request: GuardedRequest) -> None:
        """Let a viewer see the fleet from now on until it leaves."""
        viewer = request.respond_endlessly(CONTENT_TYPE)
        if viewer is None:
            return
        gone = request.notifyFinish()
        gone.addBoth(lambda _: self._remove(viewer))
        self._viewers[viewer] = -1
        viewer.send_more(self._outline().pieces)
        if not self._loop.running:
            started: Any = self._loop.start(_BEAT_SECONDS, now=False)
            started.addErrback(lambda failure: self.log.failure("the live view stopped", failure))

    def renew(self) -> None:
        """The fleet has other devices: before the next frame viewers are told who there is now."""
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
        """Make a frame if there is something new, and send it to all who take more."""
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
