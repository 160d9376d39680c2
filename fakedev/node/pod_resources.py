"""Asks the kubelet which container has which devices (v1.PodResourcesLister), and when to ask.

It asks soon after an allocation, until the answer shows that, and otherwise now and then.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

import grpc

from fakedev.base.backoff import Backoff
from fakedev.kubernetes.nodes.node_view import Allocation
from fakedev.node.kubelet import POD_RESOURCES, OpenProblem, open_channel, why

#: Seconds between two questions when nothing happens, and the least between any two: kubelets allow 100 in a second.
IDLE_SECONDS: Final = 10.0
LEAST_SECONDS: Final = 0.1
#: Seconds from an allocation to the first question, and how often a kubelet may not show it yet.
_FIRST_SECONDS: Final = 0.1
_MAX_QUESTIONS: Final = 5


class ReadSchedule:
    """Decides when to ask. Times are seconds of any clock."""

    def __init__(self) -> None:
        self._due_seconds = 0.0
        self._asked_seconds = float("-inf")
        self._is_asking = False
        self._awaited: dict[str, float] = {}  # with the time of their allocation
        self._questions = 0
        self._soon = Backoff(_FIRST_SECONDS, IDLE_SECONDS)
        self._errors = Backoff(0.5, IDLE_SECONDS)

    def is_due(self, now: float) -> bool:
        return not self._is_asking and now >= max(self._due_seconds, self._asked_seconds + LEAST_SECONDS)

    def asked(self, now: float) -> None:
        self._is_asking, self._asked_seconds = True, now

    @property
    def awaited(self) -> Sequence[str]:
        """What was allocated, and is not shown yet."""
        return [*self._awaited]

    def allocated(self, ids: Collection[str], now: float) -> None:
        self._awaited.update(dict.fromkeys(ids, now))
        self._questions = 0
        self._soon.reset()
        self._due_seconds = min(self._due_seconds, now + self._soon.next_seconds())

    def answered(self, ids: Collection[str], now: float) -> None:
        """The answer shows these devices as allocated."""
        self._is_asking = False
        self._errors.reset()
        # A device may still have been that of another pod when the kubelet was asked.
        shown = {each for each in ids if self._awaited.get(each, now) <= self._asked_seconds}
        self._awaited = {each: at for each, at in self._awaited.items() if each not in shown}
        if self._awaited and self._questions < _MAX_QUESTIONS:
            self._questions += 1
            self._due_seconds = now + self._soon.next_seconds()
        else:
            # A pod that was refused after its allocation is never shown.
            self._awaited.clear()
            self._due_seconds = now + IDLE_SECONDS

    def refused(self, ids: Collection[str]) -> None:
        """These were not allocated after all."""
        self._awaited = {each: at for each, at in self._awaited.items() if each not in ids}

    def failed(self, now: float) -> None:
        self._is_asking = False
        self._due_seconds = now + self._errors.next_seconds()


_ANSWER_SECONDS: Final = 10.0
#: Devices of one allocation; a container with more has several, so that each fits into a line of the node port.
_MAX_IDS: Final = 500

_log = logging.getLogger("fakedev.node")


class PodResources:
    """Asks when it is time to.

    :param clock: the seconds that :meth:`turn` gets.
    :param post: runs a call in the program's thread.
    :param read: called with each answer: all allocations of our resources.
    """

    def __init__(
        self,
        path: str,
        clock: Callable[[], float],
        post: Callable[[Callable[[], None]], None],
        read: Callable[[list[Allocation]], None],
    ) -> None:
        self._path = path
        self._clock = clock
        self._post = post
        self._read = read
        self._schedule = ReadSchedule()
        self._channel: grpc.Channel | None = None
        self._ours: Collection[str] = ()
        self._problem = OpenProblem(_log, "PodResources")

    def turn(self, now: float, ours: Collection[str]) -> None:
        """Ask, if it is time to.

        :param ours: the resources and drivers whose allocations matter.
        """
        self._ours = ours
        if not self._schedule.is_due(now):
            return
        self._schedule.asked(now)
        if not os.path.exists(self._path):
            self._failed(f"{self._path} is not there; the kubelet makes it")
            return
        if self._channel is None:
            self._channel = open_channel(self._path)
        ask = POD_RESOURCES.call(self._channel, "List")
        call = ask.future(POD_RESOURCES.messages["ListPodResourcesRequest"](), timeout=_ANSWER_SECONDS)
        call.add_done_callback(lambda done: self._post(partial(self._answered, done)))

    def allocated(self, ids: Collection[str]) -> None:
        self._schedule.allocated(ids, self._clock())

    def refused(self, ids: Collection[str]) -> None:
        self._schedule.refused(ids)

    @property
    def starting(self) -> Sequence[str]:
        """The devices that containers were given, and that no answer has shown yet."""
        return self._schedule.awaited

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _answered(self, call: Any) -> None:
        error = call.exception()
        if error is not None:
            self.close()  # a kubelet that was restarted is found by a new one
            self._failed(why(error))
            return
        allocations = list(allocations_of(call.result(), self._ours))
        self._schedule.answered({allocation for found in allocations for allocation in found.ids}, self._clock())
        self._problem.over("answers again")
        self._read(allocations)

    def _failed(self, reason: str) -> None:
        self._schedule.failed(self._clock())
        self._problem.met(f"{reason}; it retries, and allocations stay as they are")


def allocations_of(answer: Any, ours: Collection[str]) -> Iterator[Allocation]:
    """The allocations of the answer to ``List``, in its order.

    :param ours: the resources and drivers that matter.
    """
    for pod in answer.pod_resources:
        for container in pod.containers:
            for key, ids in _devices(container, ours).items():
                rest = iter(ids)
                while part := tuple(islice(rest, _MAX_IDS)):
                    resource, claim, pool = key
                    yield Allocation(pod.namespace, pod.name, container.name, resource, part, claim, pool)


def _devices(container: Any, ours: Collection[str]) -> dict[tuple[str, str, str], list[str]]:
    """What a container has: by resource, or by driver, claim and pool; each id once, sorted.

    The kubelet has an entry for each device and NUMA node. It walks a map, so their order changes between two answers.
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    for each in container.devices:
        if each.resource_name in ours:
            found.setdefault((each.resource_name, "", ""), []).extend(each.device_ids)
    for dynamic in container.dynamic_resources:
        for device in dynamic.claim_resources:
            if device.driver_name in ours:
                key = device.driver_name, dynamic.claim_name, device.pool_name
                found.setdefault(key, []).append(device.device_name)
    return {key: sorted({*ids}) for key, ids in sorted(found.items())}
