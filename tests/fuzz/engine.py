"""Feeds mutated inputs to a target, and makes those that break a promise small.

An input breaks a promise when the target raises something that it does not declare, when an error is logged, when it
takes :data:`MAX_CPU_SECONDS`, or when memory stays that nothing needs. Inputs that get a new kind of answer become
seeds.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import random
import re
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

from twisted.logger import globalLogPublisher

from tests.fuzz.mutations import MAX_BYTES, Mutator
from tests.support.logged_errors import LoggedErrors

#: CPU time of one input, far more than linear work takes on a slow machine.
MAX_CPU_SECONDS: Final = 10.0
#: Memory that may stay after a target has stopped, above what it had after its first rounds.
MAX_GROWTH_BYTES: Final = 200 * 2**20
#: CPU time to shorten the inputs of a find.
_MAX_SHORTENING_SECONDS: Final = 40.0
#: Finds at different places; then a target is done.
_MAX_FINDS: Final = 20
_MAX_LEARNED: Final = 400
_MAX_LEARNED_BYTES: Final = 4 * 2**20
_NOT_WORDS: Final = re.compile(r"""'[^']*'|"[^"]*"|[^A-Za-z]+""")


class Runner(Protocol):
    """What a target makes: it takes inputs one after the other."""

    def run(self, data: bytes) -> object:
        """Take an input; gives the answer, whose words tell kinds of answers apart. Raises if a promise is broken."""

    def stop(self) -> None:
        """Take no more; raises if a promise is broken."""


@dataclass(frozen=True)
class Target:
    """Something that reads.

    :param make: a runner; the same inputs on a new one do the same.
    :param seeds: good inputs, or nearly.
    :param words: what mutations put in.
    :param rounds: inputs for one runner.
    :param max_bytes: of an input.
    :param fresh: makes an input by the target's grammar; half of the inputs begin so, if there is one.
    """

    name: str
    make: Callable[[], Runner]
    seeds: Callable[[], Sequence[bytes]]
    words: Callable[[], Sequence[bytes]]
    rounds: int = 100
    max_bytes: int = MAX_BYTES
    fresh: Callable[[random.Random], bytes] | None = None


@dataclass
class Find:
    """A broken promise, and the inputs that break it on a new runner."""

    target: str
    seed: str
    inputs: list[bytes]
    fault: str

    def text(self) -> str:
        """The file that :func:`read_find` reads."""
        lines = "".join(f"    {data!r},\n" for data in self.inputs)
        fault = "".join(f"# {line}\n" for line in self.fault.splitlines())
        return f"# target: {self.target}\n# seed: {self.seed}\n{fault}[\n{lines}]\n"


def read_find(path: Path) -> tuple[str, list[bytes]]:
    """Target and inputs of a file that a find was written to."""
    text = path.read_text("utf-8")
    return text.partition("# target: ")[2].partition("\n")[0], list(ast.literal_eval(text[text.index("\n[") :].strip()))


class TooSlow(BaseException):
    """An input takes too much CPU time; not an Exception, so that what is tested does not answer it."""


class Watch:
    """Runs a step and tells what promise it broke."""

    def __init__(self) -> None:
        self.is_slow = self._may_end = False

    def _end(self, number: int, frame: FrameType | None) -> None:
        if not self._may_end:  # the timer goes on, and to tell where it was may take long
            return
        self.is_slow, self._may_end = True, False
        where = "".join(traceback.format_stack(frame)[-6:])
        self._may_end = True
        raise TooSlow(f"more than {MAX_CPU_SECONDS:g} s of CPU time, at\n{where}")

    def fault(self, step: Callable[[], object]) -> tuple[object, str]:
        """What a step gives, and its fault; an empty text if there is none."""
        errors = LoggedErrors()
        globalLogPublisher.addObserver(errors)
        before = signal.signal(signal.SIGVTALRM, self._end)
        answer: object = None
        fault = ""
        # Again and again, as what is tested may answer any error and go on.
        signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_SECONDS, MAX_CPU_SECONDS / 10)
        try:
            self._may_end = True
            answer = step()
            self._may_end = False
        except (Exception, TooSlow, SystemExit, RecursionError):
            self._may_end = False
            fault = traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)
            globalLogPublisher.removeObserver(errors)
        if self.is_slow and not fault:
            fault = f"more than {MAX_CPU_SECONDS:g} s of CPU time"
        return answer, fault or str(errors)


@dataclass
class Report:
    """What was done for one target.

    :ivar grown_bytes: of memory, after the first tenth of the inputs.
    """

    inputs: int = 0
    kinds: int = 0
    grown_bytes: int = 0
    finds: list[Find] = field(default_factory=list)


@dataclass
class Session:
    """Inputs for one target, the same for the same seed.

    :param goes_on: whether there is time for another input, given the number of those that were.
    """

    target: Target
    seed: str
    goes_on: Callable[[int], bool]
    report: Report = field(default_factory=Report)

    def __post_init__(self) -> None:
        self._chance = random.Random(f"{self.seed}/{self.target.name}")
        self._mutator = Mutator(self._chance, self.target.words(), self.target.max_bytes)
        self._seeds = list(self.target.seeds())
        self._learned: list[bytes] = []
        self._kinds: set[str] = set()
        self._known: set[str] = set()

    def run(self) -> Report:
        """Feed inputs until there is no more time. First come the seeds as they are."""
        waiting = list(self._seeds)
        memory: list[int] = []
        while self.goes_on(self.report.inputs) and len(self.report.finds) < _MAX_FINDS:
            done: list[bytes] = []
            fault = self._round(waiting, done)
            if fault and (place := _place_of(fault)) not in self._known:
                self._known.add(place)
                self.report.finds.append(Find(self.target.name, self.seed, *minimised(self.target, done, fault)))
            if fault and not done:
                break  # the target cannot even be made
            gc.collect()
            memory.append(_resident_bytes())
            growth = memory[-1] - memory[min(4, len(memory)) - 1]
            if growth > MAX_GROWTH_BYTES:
                fault = f"{growth // 2**20} MiB stay after {self.report.inputs} inputs"
                self.report.finds.append(Find(self.target.name, self.seed, done, fault))
                break
        self.report.kinds = len(self._kinds)
        if memory:
            self.report.grown_bytes = memory[-1] - memory[len(memory) // 10]
        return self.report

    def _round(self, waiting: list[bytes], done: list[bytes]) -> str:
        watch = Watch()
        runner, fault = watch.fault(self.target.make)
        while not fault and len(done) < self.target.rounds and self.goes_on(self.report.inputs):
            data = waiting.pop(0) if waiting else self._next()
            done.append(data)
            self.report.inputs += 1
            answer, fault = watch.fault(lambda: runner.run(data))  # type: ignore[attr-defined]  # noqa: B023
            self._learn(data, answer)
        return fault or watch.fault(runner.stop)[1]  # type: ignore[attr-defined]

    def _next(self) -> bytes:
        if self.target.fresh is not None and self._chance.random() < 0.5:
            made = self.target.fresh(self._chance)[: self.target.max_bytes]
            is_plain = self._chance.random() < 0.5
            return made if is_plain else self._mutator.changed(made, self._chance.choice(self._seeds))
        pool = self._learned if self._learned and self._chance.random() < 0.5 else self._seeds
        # Short ones more often: they take less time, and what a mutation changes in them matters more.
        data = min(self._chance.choice(pool), self._chance.choice(pool), key=len)
        return self._mutator.changed(data, self._chance.choice(self._seeds))

    def _learn(self, data: bytes, answer: object) -> None:
        kind = _NOT_WORDS.sub(" ", str(answer)[:2000])
        if kind not in self._kinds and len(self._kinds) < 20_000:
            self._kinds.add(kind)
            if len(self._learned) < _MAX_LEARNED and sum(map(len, self._learned)) < _MAX_LEARNED_BYTES:
                self._learned.append(data)


def fault_of(target: Target, inputs: Sequence[bytes]) -> str:
    """The fault of these inputs on a new runner; empty if there is none."""
    watch = Watch()
    runner, fault = watch.fault(target.make)
    for data in inputs:
        if fault:
            return fault
        fault = watch.fault(lambda: runner.run(data))[1]  # type: ignore[attr-defined]  # noqa: B023
    return fault or watch.fault(runner.stop)[1]  # type: ignore[attr-defined]


def minimised(target: Target, inputs: list[bytes], fault: str) -> tuple[list[bytes], str]:
    """Fewer and shorter inputs with a fault at the same place, and that fault."""
    place = _place_of(fault)
    end = time.process_time() + _MAX_SHORTENING_SECONDS

    def is_over() -> bool:
        return time.process_time() > end

    def is_same(candidate: list[bytes]) -> bool:
        nonlocal fault
        found = fault_of(target, candidate)
        if found and _place_of(found) == place:
            fault = found
            return True
        return False

    if is_same(inputs[-1:]):
        inputs = inputs[-1:]
    else:
        inputs = _smaller(inputs, lambda some: is_same(list(some)), is_over)
    for number in range(len(inputs)):
        before, data, after = inputs[:number], inputs[number], inputs[number + 1 :]
        pieces = [data[place : place + 1] for place in range(len(data))]
        pieces = _smaller(pieces, lambda some: is_same([*before, b"".join(some), *after]), is_over)  # noqa: B023
        inputs = [*before, b"".join(pieces), *after]
    return inputs, fault


def _smaller(
    parts: list[bytes], is_same: Callable[[list[bytes]], bool], is_over: Callable[[], bool]
) -> list[bytes]:
    """Fewer parts, by leaving out ever smaller runs of them, until the time is over."""
    length = max(1, len(parts) // 2)
    while parts and not is_over():
        start = 0
        while start < len(parts) and not is_over():
            candidate = parts[:start] + parts[start + length :]
            if is_same(candidate):
                parts = candidate
            else:
                start += length
        if length == 1:
            return parts
        length = max(1, length // 2)
    return parts


def _place_of(fault: str) -> str:
    """The kind of an error and the last lines of code, without values."""
    last = [line.strip() for line in fault.strip().splitlines() if line.strip()]
    places = [line for line in last if line.startswith("File ") and "/fakedev/" in line]
    return f"{last[-1].partition(':')[0] if last else ''} {places[-1] if places else ''}"


def _resident_bytes() -> int:
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * 4096
    return 0

