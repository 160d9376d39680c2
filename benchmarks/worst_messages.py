"""The worst messages and events: a search for what holds the reactor longest, at each verb, path and kind of fault.

``python benchmarks/worst_messages.py COUNT [PART ...]`` prints what it finds for a fleet of so many boards, as JSON: in
all parts, or in some of workloads, clients, backends, paths and events.
"""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from results import Section, Target, ms

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    from fakedev.lines.grammar import Verb
    from tests.support.application import AppReactor, LineClient, MemoryApplication

#: Boards, workloads that run on them, trials for each verb and path, and the longest time that is good, in ms.
_SIZES: Final = ((8, 0, 600, 10.0), (10_000, 60_000, 20, 20.0))
_SEED: Final = 44
#: The longest line, and nearly the longest request line.
_BYTES, _URL_BYTES = 65_000, 4_000
#: How often a piece occurs in an argument, and the form of these in JSON.
_MOST: Final = 10_000
_COUNTS: Final = (1, 64, 1000, _MOST)
_SHAPES: Final = ("text", "list", "mapping", "objects")
#: Reactor turns after a message, at most: the ends of all workloads are passed on in some 600.
_TURNS: Final = 2_000
_CONFIGURATION: Final = """
version: 1
fleet:
  seed: 7
  speed: 0
  epoch: 2027-01-15T08:00:00Z
  pools: [{{name: p, nodes: {nodes}, device: h100, devices-per-node: 8, identity: dcgm}}]
web: ["127.0.0.1:9400"]
workloads: {{listen: ["127.0.0.1:9500"]}}
queues: {{names: [q]}}
"""
#: Pieces of arguments; N is another number in each, M one of 1 to 99.
_PIECES: Final = (
    "N", "1", "xN", "kN:v", "kN:N", "memory:N", "1:0:1", "M:0:M", "M:0:MsN", "1:0:1:2", "random(1,M,M):0:M", "M", "MmN",
    "increase(1,M,M):0:M", "steps(M,M,M):0:M", "square(1,M,M):0:M", "all", "p-0/[0-7]", "p-N/*", "*/M", "p-[0-M]/N",
    "'N'", "\\\\N", "\u00e9", "memory:1:0:M", "[[", "{N", "1eM", "xid",
)  # fmt: skip
#: Arguments of messages that are accepted.
_GOOD: Final = {
    "name": "x", "devices": "all", "profile": "1:0:1", "kind": "xid", "code": "79", "workload": "x", "fault": "f1",
    "device": "p-0/0", "metric": "power", "duration": "1s", "speed": "0", "queue": "q", "queues": "q", "token": "x",
}  # fmt: skip
#: What would end the search: the connection, or the state that it has made.
_LEFT_OUT: Final = frozenset({"quit", "advance", "reset"})
_FAULTS: Final = (
    ("xid", {"code": 79}), ("xid", {"code": 119}), ("lost", {}), ("node-down", {}), ("link-down", {}), ("hang", {}),
    ("overheat", {}), ("reset", {}), ("frozen", {}), ("nan", {"probability": 0.5}), ("ecc-double", {}),
)  # fmt: skip


class Found(NamedTuple):
    """The worst of a verb, path or event, and how long it held the reactor: seconds of processor time."""

    seconds: float
    where: str
    what: str


class Value(NamedTuple):
    """The value of an argument: a piece, so many times."""

    piece: str
    count: int
    shape: str

    def pieces(self, most: int) -> list[str]:
        """The pieces, with their numbers, as far as they fit into so many bytes."""
        found, size = [], 0
        for number in range(self.count):
            piece = self.piece.replace("N", str(number)).replace("M", str(number * 7 % 90 + 1))
            size += len(piece) + 1
            if size > most:
                break
            found.append(piece)
        return found

    def as_json(self, most: int) -> object:
        """The value in a JSON message."""
        pieces = self.pieces(most if self.shape in ("text", "objects") else most // 2)
        if self.shape == "list":
            return pieces
        if self.shape == "mapping":
            return {f"k{place}": piece for place, piece in enumerate(pieces)}
        if self.shape == "objects":
            return [{"load": place % 90, "seconds": 1} for place in range(min(len(pieces), most // 24))]
        return ",".join(pieces)


class Message(NamedTuple):
    """A message: its arguments by name."""

    is_json: bool
    arguments: dict[str, Value]

    def line(self, verb: Verb) -> bytes:
        """The message to a line port."""
        most = _BYTES // max(sum(value.count > 1 for value in self.arguments.values()), 1) - 500
        if self.is_json:
            fields: dict[str, object] = {name: value.as_json(most) for name, value in self.arguments.items()}
            fields |= {"op": verb.name, **{flag.name: True for flag in verb.flags}}
            return json.dumps(fields, separators=(",", ":")).encode()[:_BYTES] + b"\n"
        words = [verb.name]
        for name, value in self.arguments.items():
            pieces = value.pieces(most - len(name) * (value.count if value.shape == "mapping" else 1))
            if verb.rest is not None and name == verb.rest.name:
                words += pieces
            elif value.shape == "mapping":
                words += [f"{name}={piece}" for piece in pieces[: most // (len(name) + 8)]]
            else:
                words.append(f"{name}={','.join(pieces)}")
        return " ".join([*words, *(flag.name for flag in verb.flags)]).encode()[:_BYTES] + b"\n"


class Search:
    """A search in one application.

    :param trials: messages that are tried at each verb and path.
    """

    def __init__(self, app: MemoryApplication, trials: int) -> None:
        self._app, self._trials = app, trials
        self._reactor: AppReactor = app.reactor
        from fakedev.fleet.port import WorkloadPortFactory  # noqa: PLC0415 - only where it is measured

        self._ticker = app.factories(WorkloadPortFactory)[0].ticker
        self._random = random.Random(_SEED)
        self._kept = set(app.fleet.workloads.by_id)

    def held(self, *steps: Callable[[], object]) -> float:
        """The longest of some steps and of the reactor turns that follow from each."""
        return max(map(self._held, steps))

    def _held(self, step: Callable[[], object]) -> float:
        longest = 0.0
        for each in (step, *[self._reactor.turn] * _TURNS):
            began = thread_time()
            each()
            longest = max(longest, thread_time() - began)
            now = self._reactor.seconds()
            if not any(call.getTime() <= now for call in self._reactor.calls):
                break
        return longest

    def _tick(self) -> None:
        """Begin a tick; reactor turns go on with it."""
        self._ticker.advance(self._app.fleet.spec.tick_seconds)

    def settle(self) -> None:
        """Remove what messages have started, unmeasured."""
        from fakedev.fleet.events import ClearFaults, DropWorkloads  # noqa: PLC0415 - only where it is measured

        fleet = self._app.fleet
        started = fleet.intake.not_ending([each for each in fleet.workloads.by_id if each not in self._kept])
        if started:
            fleet.apply(DropWorkloads(tuple(started)))
        if fleet.faults.standing():
            fleet.apply(ClearFaults(tuple(each.fault_id for each in fleet.faults.standing())))
        if started or fleet.faults.by_id:
            fleet.advance()
            fleet.advance()
        gc.collect(0)

    def _renew(self) -> None:
        """Another workload and a tick, unmeasured: pages of the last tick are kept, and would be the answer."""
        from fakedev.fleet.events import StartWorkload  # noqa: PLC0415 - only where it is measured
        from fakedev.fleet.spec.workload_fields import workload_from_fields  # noqa: PLC0415

        started = StartWorkload(workload_from_fields({"name": "x", "devices": ["p-0/0"], "profile": "1:0:1"}))
        self._app.fleet.apply(started)
        self._app.fleet.advance()

    def climb(self, where: str, first: Message, shapes: dict[str, str], cost: Callable[[Message], float]) -> Found:
        """The worst message that is found: each argument full of each piece, then changes of the worst of these."""
        full = [(name, Value(piece, _MOST, shape)) for name, shape in shapes.items() for piece in _PIECES]
        full = self._random.sample(full, min(len(full), self._trials))
        begun = [Message(False, first.arguments | {name: value}) for name, value in full]
        best, longest = first, min(cost(first), cost(first))
        for message in [*begun, *[None] * (self._trials // 10 if shapes else 0)]:
            other = message or self._changed(best, first, list(shapes))
            # The shorter of two times: the second one is without what only the first such message imports.
            if (seconds := cost(other)) > longest and (seconds := min(seconds, cost(other))) > longest:
                best, longest = other, seconds
        shown = ", ".join(f"{name}: {v.count:,} x {v.piece}" for name, v in best.arguments.items() if v.count > 1)
        return Found(longest, where, ("JSON, " if best.is_json else "words, ") + (shown or "plain"))

    def _changed(self, message: Message, first: Message, names: list[str]) -> Message:
        """A message with another form, or another value of one argument, or without it."""
        choose = self._random.choice
        name = choose(names)
        changed = {**message.arguments, name: Value(choose(_PIECES), choose(_COUNTS), choose(_SHAPES))}
        if name not in first.arguments and choose((True, False, False)):
            del changed[name]
        return Message(message.is_json ^ choose((True, False, False)), changed)

    def verbs(self, port: str, verbs: tuple[Verb, ...], connect: Callable[[], LineClient]) -> Iterator[Found]:
        """The worst message of each verb of a line port."""
        for verb in verbs:
            if verb.name in _LEFT_OUT:
                continue

            def cost(message: Message, verb: Verb = verb) -> float:
                peer, line = connect(), message.line(verb)
                seconds = self.held(lambda: peer.protocol.dataReceived(line))
                peer.leave()
                self.settle()
                return seconds

            good = {a.name: Value(_GOOD.get(a.name, "1"), 1, "text") for a in verb.arguments if a.required}
            if verb.name == "fault":
                good |= {name: Value(_GOOD[name], 1, "text") for name in ("code", "devices")}
            shapes = {a.name: "mapping" if "MAPPING" in a.kind.name else "text" for a in verb.arguments}
            yield self.climb(f"{port}: {verb.name}", Message(False, good), shapes, cost)

    def paths(self) -> Iterator[Found]:
        """The worst request of each path that is read."""
        from fakedev.web.paths import STREAM, WEB_PATHS  # noqa: PLC0415

        names = {"NODE": "p-0", "INDEX": "0", "DEVICE": "0", "QUEUE": "q", "NAME": "q"}
        for path in WEB_PATHS:
            if path is STREAM or "GET" not in path.methods:
                continue
            target = "/".join(names.get(part, "0") if part.isupper() else part for part in path.template.split("/"))

            def cost(message: Message, target: str = target) -> float:
                most = _URL_BYTES // max(len(message.arguments), 1)
                query = [f"{name}={quote(','.join(v.pieces(most // 3)))}" for name, v in message.arguments.items()]
                head = f"GET {target}{'?' * bool(query)}{'&'.join(query)}"[:_URL_BYTES]
                if not message.arguments:
                    self._renew()
                peer = self._app.http()
                request = f"{head} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
                seconds = self.held(lambda: peer.channel.dataReceived(request), *[peer.transport.flush] * 60)
                peer.leave()
                return seconds

            yield self.climb(f"GET {path.template}", Message(False, {}), dict.fromkeys(path.query, "text"), cost)

    def events(self) -> Iterator[Found]:
        """Faults on all boards, and many workloads: the longest of the event and of the steps of two ticks after it."""
        from fakedev.fleet.events import DropWorkloads, InjectFault, StartWorkload  # noqa: PLC0415
        from fakedev.fleet.spec.fault_kinds import fault_from_fields  # noqa: PLC0415
        from fakedev.fleet.spec.workload_fields import workload_from_fields  # noqa: PLC0415

        fleet = self._app.fleet
        yield Found(self.held(self._tick), "tick", "without an event")
        for kind, values in _FAULTS:
            name = " ".join(["fault", kind, *map(str, values.values())])
            event = InjectFault(fault_from_fields({"kind": kind, "devices": ["all"], **values}))
            for when in ("the first time", "again"):
                yield Found(self.held(partial(fleet.apply, event), self._tick, self._tick), name, when)
                yield Found(self.held(*self._cleared()), f"{name} is cleared", when)
        for count, profile in ((100, "1"), (20, "20:5:0"), (20, "random(1,50,1):0:60")):
            fields = {"devices": ["all"], "profile": profile}
            specs = [workload_from_fields({"name": f"w{number}", **fields}) for number in range(count)]
            steps = [partial(fleet.apply, StartWorkload(spec)) for spec in specs]
            what = f"{count} workloads on all boards"
            yield Found(self.held(*steps, self._tick, self._tick), what, profile)
            ends = DropWorkloads(tuple(list(fleet.workloads.by_id)[-count:]))
            yield Found(self.held(partial(fleet.apply, ends), self._tick, self._tick), f"{what} end", profile)
            self.settle()
        if running := fleet.intake.not_ending(list(fleet.workloads.by_id)):
            event_of_all = DropWorkloads(tuple(running))
            yield Found(self.held(partial(fleet.apply, event_of_all), self._tick, self._tick), "all workloads end", "")

    def _cleared(self) -> list[Callable[[], object]]:
        from fakedev.fleet.events import ClearFaults  # noqa: PLC0415

        fleet = self._app.fleet
        ids = tuple(each.fault_id for each in fleet.faults.standing())
        return [partial(fleet.apply, ClearFaults(ids)), self._tick, self._tick] if ids else [self._tick]


def worst_messages() -> Section:
    """What holds the reactor longest."""
    section = Section(
        "The worst messages and events",
        f"""
A search for what holds the reactor longest, with a fixed seed: at each verb of the line ports and each path that is
read, messages of up to 64 KiB are changed one argument at a time, and the longest in processor time is changed further;
each kind of fault on all boards, and workloads on all boards, are tried as well. The time is that of the longest
single step of the reactor: the message itself, one of its later slices, or a tick. The application runs in memory.
Shown are the ten worst of each size of the fleet; the larger one also runs {_SIZES[1][1]:,} workloads.
""",
        ["boards", "which", "longest step"],
    )
    for count, _, _, most in _SIZES:
        run = subprocess.run([sys.executable, __file__, str(count)], check=True, stdout=subprocess.PIPE)
        for seconds, where, what in json.loads(run.stdout)[:10]:
            section.add(
                where, f"{count:,}", what, ms(seconds), judged=seconds * 1000, target=Target(most, unit=" ms")
            )
    return section


def _search(count: int, parts: Sequence[str] = ()) -> list[Found]:
    """The worst of each verb, path and event, the worst of all first.

    :param parts: what is searched; all if there are none.
    """
    from fakedev.fleet.events import StartWorkload  # noqa: PLC0415
    from fakedev.fleet.spec.workload_fields import workload_from_fields  # noqa: PLC0415
    from fakedev.fleet.verbs import WORKLOAD_VERBS  # noqa: PLC0415
    from fakedev.queues.verbs import QUEUE_BACKEND_VERBS, QUEUE_CLIENT_VERBS  # noqa: PLC0415
    from fakedev.runtime.memory import keep_freed_memory  # noqa: PLC0415
    from tests.support.application import AppReactor, application  # noqa: PLC0415

    class Passing(AppReactor):
        """Its time passes, so that slices end; ticks come only when they are asked for."""

        def seconds(self) -> float:
            now: float = self.rightNow + thread_time()
            return now

    from fakedev.service.service import LOADED_LATER  # noqa: PLC0415

    for name in LOADED_LATER:  # as a service has done soon after its start
        import_module(name)
    keep_freed_memory()
    _, workloads, trials, _ = next(size for size in _SIZES if size[0] == count)
    with application(_CONFIGURATION.format(nodes=count // 8), reactor=Passing()) as app:
        for number in range(workloads):
            device = f"p-{number * 8 // 48 % (count // 8)}/{number % 8}"
            app.fleet.apply(StartWorkload(workload_from_fields(
                {"name": f"base-{number}", "devices": device, "profile": "5:1:0", "pod": f"pod-{number % 999}"}
            )))  # fmt: skip
        app.fleet.advance()
        gc.collect()
        gc.freeze()
        gc.disable()  # as while a tick runs: a full collection is no message's fault
        search = Search(app, trials)
        searches: dict[str, Callable[[], Iterator[Found]]] = {
            "workloads": lambda: search.verbs("workloads", WORKLOAD_VERBS, app.connect),
            "clients": lambda: search.verbs("clients", QUEUE_CLIENT_VERBS, app.client),
            "backends": lambda: search.verbs("backends", QUEUE_BACKEND_VERBS, app.backend),
            "paths": search.paths,
            "events": search.events,
        }
        found = [each for part in parts or searches for each in searches[part]()]
    return sorted(found, reverse=True)


if __name__ == "__main__":
    print(json.dumps(_search(int(sys.argv[1]), sys.argv[2:])))
