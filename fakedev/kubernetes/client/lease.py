"""The lease of a shard: of several fakedev that are started for the same part of a fleet, one writes to the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger

from fakedev.kubernetes.client.api_client import LEASE_FLOW, ApiClient
from fakedev.kubernetes.client.api_paths import Target
from fakedev.kubernetes.client.watch import list_all
from fakedev.runtime.http_client import NO_ANSWER, ApiError

#: After this time without a renewal the holder has lost the lease: others may take it.
DURATION_SECONDS: Final = 30.0
RENEW_SECONDS: Final = 2.0
#: After this time an unanswered renewal is a reason not to be ready: the API server may be frozen.
LATE_SECONDS: Final = 4.5
#: An attempt is given up after this time.
_ATTEMPT_SECONDS: Final = 10.0
#: After this time a holder that could not renew stops, before another one can begin.
GIVE_UP_SECONDS: Final = 25.0
#: How often a lease that another one holds is looked at.
WAIT_SECONDS: Final = 5.0
#: The reason of an attempt that was given up.
_SILENT: Final = "GivenUp"
_GROUP: Final = "coordination.k8s.io"
_NAME: Final = re.compile(r"fakedev-(\d{1,6})-of-(\d{1,6})")


class Lease:
    """Holds ``fakedev-K-of-N`` of coordination.k8s.io/v1 in a namespace: acquires, renews, or waits for it.

    One fleet has one namespace: a lease of another N that is held there is a mistake. Clocks of other machines do not
    matter: a lease is free when it was not renewed for 30 s while this one looked.

    :param shard: K, from 0 or 1, as the caller counts.
    :param holder: our name in it, different for each process that may hold it (the name of the pod).
    :param acquired: called when the lease is ours, also again after it was lost.
    :param lost: called with the reason when it is not ours any more: nothing may be written to the cluster.
    :param waiting: called with a sentence when another one holds it, or another N; once for each text.
    """

    log = Logger()

    def __init__(
        self,
        client: ApiClient,
        *,
        shard: int,
        shards: int,
        holder: str,
        acquired: Callable[[], None],
        lost: Callable[[str], None],
        waiting: Callable[[str], None],
        namespace: str = "",
    ) -> None:
        self.name = f"fakedev-{shard}-of-{shards}"
        self._client = client
        self._clock = client.clock
        self._namespace = namespace or client.server.namespace
        self._shards = shards
        self._holder = holder
        self._acquired, self._lost, self._waiting = acquired, lost, waiting
        self._running: Deferred[None] = succeed(None)
        self._item: dict[str, Any] | None = None
        self._renewed_at = 0.0
        self._seen: dict[str, tuple[Any, float]] = {}
        self._last_text = ""
        self.is_held = False

    def start(self) -> None:
        self._running = Deferred.fromCoroutine(self._run()).addErrback(self._ended)

    def stop(self) -> Deferred[None]:
        """Give it back, so that another one need not wait; fires when that is done, or failed, within some seconds."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        # In a turn of its own: one of our callbacks may have asked for it.
        await deferLater(self._clock, 0)
        self._running.cancel()
        await self._give_back()

    def _ended(self, failure: Any) -> None:
        if not failure.check(CancelledError):
            self.log.failure("the lease {name} has ended", failure, name=self.name)

    async def _run(self) -> None:
        backoff = self._client.make_backoff()
        while True:
            try:
                await self._limited(self._renew() if self.is_held else self._try_to_acquire())
                backoff.reset()
                seconds = RENEW_SECONDS if self.is_held else WAIT_SECONDS
            except ApiError as error:
                seconds = min(backoff.next_seconds(), RENEW_SECONDS)
                self._failed(error)
            if self.is_held:
                seconds = min(seconds, max(0.1, self._left_seconds()))
            await deferLater(self._clock, seconds)

    async def _limited(self, coroutine: Any) -> None:
        """An attempt ends in time for the next one, so that a lease that cannot be renewed is given up in time."""
        attempt: Deferred[None] = Deferred.fromCoroutine(coroutine)
        left = self._left_seconds() if self.is_held else _ATTEMPT_SECONDS
        attempt.addTimeout(max(0.1, min(left, _ATTEMPT_SECONDS)), self._clock, _timed_out)
        await attempt

    def _left_seconds(self) -> float:
        """Until a lease that was not renewed is given up."""
        return float(self._renewed_at + GIVE_UP_SECONDS - self._clock.seconds())

    def _failed(self, error: ApiError) -> None:
        if not self.is_held:
            # The client has logged why, if it matters; 409: another one was faster.
            if error.code != 409:
                is_silent = error.reason == _SILENT  # the client does not log that: it still waits
                self._report(f"cannot acquire the lease {self._shown}: {error.message}", is_logged=is_silent)
        elif error.code in (404, 409):
            self._lose(f"the lease {self._shown} was taken or changed by another one")
        elif self._left_seconds() < 0.01:
            self._lose(f"cannot renew the lease {self._shown} for {GIVE_UP_SECONDS:.0f} s: {error.message}")

    @property
    def is_late(self) -> bool:
        """Whether a lease that is held should have been renewed by now."""
        return self.is_held and self._clock.seconds() - self._renewed_at > LATE_SECONDS

    async def _try_to_acquire(self) -> None:
        leases, _ = await list_all(self._client, self._path(), flow=LEASE_FLOW, attempts=1)
        ours = None
        for item in leases:
            name = str(_metadata(item).get("name"))
            match = _NAME.fullmatch(name)
            if name == self.name:
                ours = item
            elif match and int(match[2]) != self._shards and self._is_taken(name, item):
                self._report(
                    f"{_holder_of(item)} holds the lease {self._namespace}/{name}, of a fleet in {match[2]} shards, "
                    f"and this one is of a fleet in {self._shards}: stop it, give both the same number of shards, or "
                    "use another namespace"
                )
                return
        if ours is None:
            await self._take("POST", {}, "")
        elif not self._is_taken(self.name, ours):
            await self._take("PUT", ours, self.name)
        else:
            self._report(f"{_holder_of(ours)} holds the lease {self._shown}: this one waits until it is free")

    def _is_taken(self, name: str, item: dict[str, Any]) -> bool:
        """Whether another one holds a lease: somebody is named in it, and renewed it lately, as seen from here."""
        holder = _holder_of(item)
        if not holder or holder == self._holder:
            return False
        now = float(self._clock.seconds())
        version = _metadata(item).get("resourceVersion")
        if self._seen.get(name, (None, 0.0))[0] != version:
            self._seen[name] = (version, now)
        seconds = (item.get("spec") or {}).get("leaseDurationSeconds")
        duration = float(seconds) if isinstance(seconds, int) else DURATION_SECONDS
        return now < self._seen[name][1] + duration

    async def _take(self, method: str, item: dict[str, Any], name: str) -> None:
        spec = dict(item.get("spec") or {})
        is_change = spec.get("holderIdentity") != self._holder
        transitions = int(spec.get("leaseTransitions") or 0) + (1 if item and is_change else 0)
        now = self._time()
        await self._write(method, name, item, {
            "holderIdentity": self._holder, "leaseDurationSeconds": int(DURATION_SECONDS), "acquireTime": now,
            "renewTime": now, "leaseTransitions": transitions,
        })  # fmt: skip
        self.is_held = True
        self._last_text = ""
        self._seen.clear()
        self.log.info("the lease {name} is held", name=self._shown)
        self._acquired()

    async def _renew(self) -> None:
        item = self._item or {}
        for is_last in (False, True):
            spec = {**item.get("spec", {}), "renewTime": self._time()}
            try:
                await self._write("PUT", self.name, item, spec)
                return
            except ApiError as error:
                if error.code != 409 or is_last:
                    raise
            # The answer to our last change may have been lost: then it is still ours.
            item = await self._client.request("GET", self._path(self.name), flow=LEASE_FLOW, attempts=1)
            if _holder_of(item) != self._holder:
                raise ApiError(409, "Conflict", f"{_holder_of(item)} holds it")

    async def _write(self, method: str, name: str, item: dict[str, Any], spec: dict[str, Any]) -> None:
        metadata = {"name": self.name, **item.get("metadata", {})}
        body = {"apiVersion": f"{_GROUP}/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        sent_at = self._clock.seconds()
        self._item = await self._client.request(method, self._path(name), body=body, flow=LEASE_FLOW, attempts=1)
        self._renewed_at = sent_at

    async def _give_back(self) -> None:
        if not self.is_held or self._item is None:
            return
        self.is_held = False
        spec = {**self._item.get("spec", {}), "holderIdentity": "", "leaseDurationSeconds": 1}
        writing = Deferred.fromCoroutine(self._write("PUT", self.name, self._item, spec))
        try:
            await writing.addTimeout(3, self._clock, _timed_out)
        except ApiError as error:
            self.log.debug("the lease {name} is not given back: {error}", name=self._shown, error=error)

    def _lose(self, reason: str) -> None:
        self.is_held = False
        self._item = None
        self.log.warn("{reason}", reason=reason)
        self._lost(reason)

    def _report(self, text: str, *, is_logged: bool = True) -> None:
        if text != self._last_text:
            self._last_text = text
            if is_logged:
                self.log.warn("{text}", text=text)
            self._waiting(text)

    def _path(self, name: str = "") -> str:
        return Target(_GROUP, "v1", "leases", self._namespace, name).path

    @property
    def _shown(self) -> str:
        return f"{self._namespace}/{self.name}"

    def _time(self) -> str:
        return datetime.fromtimestamp(self._clock.seconds(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _holder_of(item: dict[str, Any]) -> str:
    return str((item.get("spec") or {}).get("holderIdentity") or "")


def _metadata(item: dict[str, Any]) -> dict[str, Any]:
    return item.get("metadata") or {}


def _timed_out(result: Any, seconds: float) -> Any:
    raise ApiError(NO_ANSWER, _SILENT, f"the API server has not answered within {seconds:.0f} s")
