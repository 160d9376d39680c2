"""Evictions of pods whose devices have failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from fakedev.kube.pods import Pod
from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.api_error import ApiError
from fakedev.net.kube.paths import pod_path

#: A pod that may not be evicted now is tried again after this time: a disruption budget has room then, or a role was
#: given.
_AGAIN_SECONDS: Final = 30.0
#: The pod is gone, or another one has its name.
_OVER: Final = frozenset((404, 409))


class Evictions:
    """Evicts pods, each once; a pod that could not be evicted is asked for again later.

    :param again: called with such a pod.
    """

    log = Logger()

    def __init__(self, client: ApiClient, again: Callable[[Pod], None]) -> None:
        self._client = client
        self._again = again
        self._later: dict[str, IDelayedCall] = {}
        #: The UIDs of the pods whose refusal was told.
        self._told: set[str] = set()
        self._is_stopped = False

    def evict(self, pod: Pod) -> None:
        """Evict a pod."""
        if pod.uid not in self._later and not self._is_stopped:
            Deferred.fromCoroutine(self._evict(pod)).addErrback(self._failed)

    def stop(self) -> None:
        """Evict nothing more."""
        self._is_stopped = True
        for call in self._later.values():
            call.cancel()
        self._later.clear()

    def _failed(self, failure: Any) -> None:
        if failure.check(CancelledError) is None:
            self.log.failure("an eviction failed by an internal error", failure=failure)

    async def _evict(self, pod: Pod) -> None:
        metadata = {"name": pod.name, "namespace": pod.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata,
                "deleteOptions": {"preconditions": {"uid": pod.uid}}}  # fmt: skip
        try:
            await self._client.request("POST", pod_path(pod.namespace, pod.name, "eviction"), body=body, flow="pods")
            self._told.discard(pod.uid)
            self.log.info(
                "pod {namespace}/{name} is evicted: a device of it has failed", namespace=pod.namespace, name=pod.name
            )
        except CancelledError:
            self._try_later(pod)
            raise
        except ApiError as error:
            if error.code in _OVER:
                self._told.discard(pod.uid)
                return
            if pod.uid not in self._told:
                self._told.add(pod.uid)
                self.log.warn(
                    "pod {namespace}/{name} is not evicted, it is tried again: {reason}",
                    namespace=pod.namespace, name=pod.name, reason=str(error),
                )  # fmt: skip
            self._try_later(pod)

    def _try_later(self, pod: Pod) -> None:
        if not self._is_stopped:
            self._later[pod.uid] = self._client.clock.callLater(_AGAIN_SECONDS, self._try_again, pod)

    def _try_again(self, pod: Pod) -> None:
        del self._later[pod.uid]
        if len(self._told) > len(self._later) + 1000:
            self._told = set(self._later)  # pods that are gone meanwhile
        self._again(pod)
