"""MIG mode and instances of boards, as programs change them: each change is an event of the fleet.

A line ``mig NODE INDEX STEP...`` has steps that follow each other; the first that fails is the last:

- ``mode=1``, ``mode=0``: MIG mode;
- ``gpu=PROFILE``, ``gpu=PROFILE@BEGIN``: a GPU instance, by the number of its profile; ``both=`` with its compute
  instance;
- ``compute=ID``: the compute instance of a GPU instance;
- ``no-compute=ID``, ``no-gpu=ID``: destroy one.

The answer has ``RESULT:ID`` for each step: NVML's number of the result, and the id of the GPU instance. It comes when
the file has the change: at the end of the next tick.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorThreads

from fakedev.base.errors import Refused
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.events import DivideBoard, PreparedFleet, prepare
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.parts.mig import Instance, Mig, begin_beside, instance_of, mig_of, number_at
from fakedev.nvml.mig_numbers import number_of
from fakedev.runtime.threads import call_in_thread

#: NVML's numbers of results.
SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 0, 2, 3, 4, 6
IN_USE, INSUFFICIENT_RESOURCES = 19, 23
_STEP: Final = re.compile(r"(mode|gpu|both|compute|no-gpu|no-compute)=([0-9]{1,4})(?:@([0-9]{1,2}))?")
_MAX_STEPS: Final = 32
#: A larger fleet is compiled in a thread: that takes longer than the reactor may.
_MANY_DEVICES: Final = 1000


class _Refusal(Exception):
    """A step is not possible; the argument is NVML's number."""


class Division:
    """The present instances of a board, to which steps are applied.

    :ivar instances: None: MIG mode is off.
    :param used: ids of the instances on which work runs; -1: work runs on the whole board.
    """

    def __init__(self, mig: Mig, instances: Sequence[Instance] | None, used: frozenset[int]) -> None:
        self._mig = mig
        self.instances = None if instances is None else list(instances)
        self._used = used

    def step(self, what: str, number: int, begin: int | None) -> int:
        """Apply a step; the id of the GPU instance that it is about.

        :raises _Refusal: when it is not possible; nothing is changed then.
        """
        if what == "mode":
            self._switch(number)
            return 0
        if self.instances is None:
            raise _Refusal(NOT_SUPPORTED)
        if what in ("gpu", "both"):
            return self._create(number, begin, computes=what == "both")
        place = next((at for at, instance in enumerate(self.instances) if self._id(instance) == number), None)
        if place is None:
            raise _Refusal(NOT_FOUND)
        found = self.instances[place]
        # Work runs on a compute instance, and a GPU instance with one cannot be destroyed.
        is_in_use = number in self._used if what == "no-compute" else found.computes
        if is_in_use:
            raise _Refusal(INSUFFICIENT_RESOURCES if what == "compute" else IN_USE)
        if what == "no-compute" and not found.computes:
            raise _Refusal(NOT_FOUND)
        self.instances[place : place + 1] = [] if what == "no-gpu" else [found._replace(computes=what == "compute")]
        return number

    def _switch(self, mode: int) -> None:
        if mode > 1:
            raise _Refusal(INVALID_ARGUMENT)
        if (self.instances is not None) == bool(mode):
            return
        if self._used:
            raise _Refusal(IN_USE)
        self.instances = [] if mode else None

    def _create(self, number: int, begin: int | None, *, computes: bool) -> int:
        assert self.instances is not None
        of_board = self._mig.memory_slices
        profile = next((
            profile for profile in self._mig.profiles
            if number_of(profile.name, profile.slices, profile.memory_slices, of_board) == number
        ), None)  # fmt: skip
        if profile is None or not (begin is None or begin in profile.begins):
            raise _Refusal(INVALID_ARGUMENT)
        free = begin_beside(self._mig, profile, self.instances, begin)
        if free is None:
            raise _Refusal(INSUFFICIENT_RESOURCES)
        self.instances.append(Instance(profile.name, free, computes))
        return number_at(self._mig, profile, free)

    def _id(self, instance: Instance) -> int:
        profile = self._mig.profile(instance.profile)
        assert profile is not None
        return number_at(self._mig, profile, instance.begin)


class Divisions:
    """Divides boards for programs.

    :param reactor: for the thread that compiles large fleets.
    """

    def __init__(self, fleet: Fleet, reactor: IReactorThreads) -> None:
        self._fleet, self._reactor = fleet, reactor
        #: Boards whose change the next tick applies: later steps are about what they will have.
        self._following: dict[tuple[str, int], tuple[Instance, ...] | None] = {}
        self._waiting: list[tuple[CompiledFleet, Deferred[str], str]] = []

    def change(self, name: str, index: int, steps: Sequence[str]) -> Deferred[str]:
        """Apply steps to a board; the answer, when a tick has them."""
        node = self._fleet.roster.node(name)
        if node is None or not 0 <= index < len(node.devices):
            return succeed(str(NOT_FOUND))
        matches = [_STEP.fullmatch(step) for step in steps]
        if not 0 < len(matches) <= _MAX_STEPS or None in matches:
            return succeed(str(INVALID_ARGUMENT))
        mig = mig_of(node.pool.device_type)
        if mig is None or node.pool.has_cluster_nodes:
            return succeed(f"{NOT_SUPPORTED}:0")
        key = name, index
        now = self._following[key] if key in self._following else self._present(node, index, mig)
        division, answers = Division(mig, now, self._used(node, index)), []
        for match in matches:
            assert match is not None
            what, number, begin = match.groups()
            try:
                answers.append(f"{SUCCESS}:{division.step(what, int(number), int(begin) if begin else None)}")
            except _Refusal as refusal:
                answers.append(f"{refusal.args[0]}:0")
                break
        answer = " ".join(answers)
        wanted = None if division.instances is None else tuple(division.instances)
        if wanted == now:
            return succeed(answer)
        self._following[key] = wanted
        event = DivideBoard(name, index, wanted)
        base = self._fleet.compiled
        if base.roster.device_count < _MANY_DEVICES:
            return self._apply(event, answer, None)
        prepared: Deferred[PreparedFleet] = call_in_thread(self._reactor, lambda: prepare(base, event))
        return prepared.addCallbacks(
            lambda done: self._apply(event, answer, done), lambda failed: self._apply(event, answer, None)
        )

    def ticked(self) -> None:
        """A tick has ended, and the file has it."""
        if not self._waiting:
            return
        done = [waiting for waiting in self._waiting if waiting[0] is not self._fleet.compiled]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] is self._fleet.compiled]
        if not self._waiting:
            self._following.clear()
        for _, answered, answer in done:
            answered.callback(answer)

    def _apply(self, event: DivideBoard, answer: str, prepared: PreparedFleet | None) -> Deferred[str]:
        answered: Deferred[str] = Deferred()
        try:
            self._fleet.apply(DivideBoard(event.node, event.index, event.instances, prepared))
        except Refused:
            del self._following[event.node, event.index]
            return succeed(f"{INSUFFICIENT_RESOURCES}:0")
        self._waiting.append((self._fleet.compiled, answered, answer))
        return answered

    def _present(self, node: RosterNode, index: int, mig: Mig) -> tuple[Instance, ...] | None:
        facts = self._fleet.roster.facts(self._fleet.spec.seed, node)[index]
        if facts.get("mig_mode") != "1":
            return None
        return tuple(instance_of(mig, part) for part in node.pool.parts_of(index))

    def _used(self, node: RosterNode, index: int) -> frozenset[int]:
        """The ids of the instances of a board on which work runs; -1: it runs on the whole board."""
        parts = self._fleet.roster.parts
        device = node.first + index
        units = [device, *parts.of(device)]
        busy = np.isin(units, self._fleet.workloads.table.device)
        ids = [-1, *(int(part.facts["mig_id"]) for part in node.pool.parts_of(index))]
        return frozenset(device_id for device_id, is_busy in zip(ids, busy.tolist(), strict=True) if is_busy)
