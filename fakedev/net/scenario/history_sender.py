"""Sends a history by remote write while it is simulated, and notes how far it has got, so that it can go on later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import orjson
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from fakedev.net.scenario.remote_write import RemoteWriteError, RemoteWriter
from fakedev.net.system.files import replace_file
from fakedev.net.system.task_service import TaskService
from fakedev.net.system.timing import no_op
from fakedev.scenario.remote_write import Message, Messages
from fakedev.scenario.samples import Stored
from fakedev.spec.errors import Refused
from fakedev.spec.os_errors import CannotWrite, plain_reason

#: How long the reactor may wait for a turn.
_TURN_SECONDS: Final = 0.01


@dataclass(frozen=True)
class SendProgress:
    """How far a history has been sent; a file has it after each message.

    :ivar path: of the file; empty for none.
    :ivar history: a word that differs for each history: of the scenario and what it uses.
    :ivar url: where it is sent.
    :ivar begin_seconds: when it begins, in seconds since 1970: a run that goes on begins at the same time.
    :ivar sent_milliseconds: all instants up to this time have been taken; None: not even the first.
    """

    path: str
    history: str
    url: str
    begin_seconds: float
    sent_milliseconds: int | None = None

    def of_file(self) -> SendProgress:
        """The progress that the file has; this one without a file.

        :raises ValueError: when the file cannot be read, or is of another history.
        """
        try:
            found = orjson.loads(Path(self.path).read_bytes()) if self.path else None
        except FileNotFoundError:
            return self
        except OSError as error:
            raise ValueError(f"{self.path}: {plain_reason(error)}") from None
        except orjson.JSONDecodeError:
            found = {}
        if found is None:
            return self
        try:
            begin, sent = float(found["begin_seconds"]), found["sent_milliseconds"]
            known = found["history"], found["url"]
        except (TypeError, KeyError, ValueError):
            raise ValueError(f"{self.path}: has no progress of a history: remove it, or give another file") from None
        if known != (self.history, self.url):
            what = "another history" if known[0] != self.history else f"{known[1]}, not of {self.url}"
            raise ValueError(f"{self.path}: is the progress of {what}: remove it to begin again") from None
        return replace(self, begin_seconds=begin, sent_milliseconds=None if sent is None else int(sent))

    def save(self) -> None:
        """Write the file in one step.

        :raises CannotWrite: when that is not possible.
        """
        if self.path:
            names = ("history", "url", "begin_seconds", "sent_milliseconds")
            values = {name: getattr(self, name) for name in names}
            replace_file(self.path, orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE).decode())

    def remove(self) -> None:
        """Remove the file: all is sent."""
        if self.path:
            Path(self.path).unlink(missing_ok=True)


@dataclass(eq=False)
class HistorySender(TaskService):
    """Sends a history to its end, then calls ``over``. One message is sent while the next is made.

    :param history: what a server stores of each instant; None for a tick without one. It is made from the beginning
        also when a part of it was sent already.
        A ValueError or Refused of it ends it, with its words.
    :param done: called after each tick.
    :ivar samples: how many samples the server has taken, with markers.
    """

    expected = (RemoteWriteError, Refused, CannotWrite, ValueError)
    what = "The sending of a history"

    history: Iterable[Stored | None]
    writer: RemoteWriter
    compress: Callable[[bytes], bytes]
    progress: SendProgress
    reactor: Any
    over: Callable[[], None]
    done: Callable[[], None] = no_op
    samples: int = field(default=0, init=False)
    _sending: Deferred[None] | None = field(default=None, init=False)
    #: The first message of a run that goes on may have been stored by the one before.
    _may_be_stored: bool = field(default=False, init=False)

    async def clean_up(self) -> None:
        """Close the connection."""
        await self.writer.close()

    async def run_to_end(self) -> None:
        """Make and send all messages that were not sent before."""
        messages, sent = Messages(self.compress), self.progress.sent_milliseconds
        self._may_be_stored = self.progress.path != "" and Path(self.progress.path).exists()
        self.progress.save()
        turn = self.reactor.seconds()
        for stored in self.history:
            if stored is not None and (sent is None or stored.milliseconds > sent):
                for message in messages.add(stored):
                    await self._send(message)
            self.done()
            if self.reactor.seconds() - turn > _TURN_SECONDS:
                await deferLater(self.reactor, 0)
                turn = self.reactor.seconds()
        for message in messages.end():
            await self._send(message)
        await self._sent()
        self.progress.remove()

    async def _send(self, message: Message) -> None:
        """Send a message when the one before is taken; returns when it is on its way."""
        await self._sent()
        self._sending = Deferred.fromCoroutine(self._deliver(message))

    async def _sent(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            await sending

    async def _deliver(self, message: Message) -> None:
        await self.writer.send(message.body, may_be_stored=self._may_be_stored)
        self._may_be_stored = False
        self.samples += message.samples
        self.progress = replace(self.progress, sent_milliseconds=message.whole_milliseconds)
        self.progress.save()

    def failed(self, failure: Failure) -> None:
        """Note why it has ended early; the message that is on its way has failed with it."""
        if self._sending is not None:
            self._sending.addErrback(no_op)
            self._sending.cancel()
        super().failed(failure)
