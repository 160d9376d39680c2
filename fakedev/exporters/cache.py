"""The pages of a fleet: each rendered at most once a tick, only on demand, and shared by all requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime

from fakedev.exporters.identity import Identity, without_parts
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource, HeldStates, by_identity
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.entities.state import State
from fakedev.fleet.faults.page_faults import PageFaults
from fakedev.fleet.fleet import Fleet
from fakedev.web.encoding import OPENMETRICS, Body
from fakedev.web.http_limits import HttpError
from fakedev.web.response import Response

#: The header with the tick that a page shows, for programs that compare pages.
TICK_HEADER: Final = "X-Fakedev-Tick"
#: About how long one reactor turn may work on a page: small pages are done in the first turn.
_TURN_SECONDS: Final = 0.004
#: Pages freed in a reactor turn.
_FREED_AT_ONCE: Final = 100


@dataclass(frozen=True)
class Selection:
    """Which nodes pages show, and how.

    :param pool: the only pool shown; None: all pools.
    :param identity: the identity of all devices; None: the identities of their pools.
    :param hold_seconds: pages show the state at the last multiple of these seconds; None: as the identities hold it.
    """

    pool: str | None = None
    identity: Identity | None = None
    hold_seconds: float | None = None

    def has(self, node: RosterNode) -> bool:
        """Whether pages show a node."""
        return self.pool in (None, node.pool.name)


#: All nodes, in the identities of their pools.
EVERYTHING: Final = Selection()


@dataclass
class LatestPages:
    """The pages of the last tick. Responses of earlier ticks are dropped: no request gets them any more."""

    _tick: int = -1
    _pages: list[CachedPage] = field(default_factory=list)

    def add(self, page: CachedPage, tick: int) -> None:
        """A page of a tick was rendered."""
        if tick > self._tick:
            for cached_page in self._pages:
                cached_page.drop_before(tick)
            self._tick, self._pages = tick, []
        self._pages.append(page)


class CachedPage:
    """One page as a Response, of one tick.

    :param state: returns the present state.
    :param parts: the parts of the page: several where pools have several identities.
    :param latest: gets each page that is rendered.
    :param states: the states of the parts, where they do not all show the same.
    :param tick: returns the tick of the states, where to make them takes long.
    :ivar as_openmetrics: the same page as OpenMetrics, where all its identities negotiate that.
    :ivar faults: returns the present faults of the page's exporter, or None.
    """

    def __init__(
        self,
        state: Callable[[], State],
        clock: IReactorTime,
        parts: Sequence[Page[Any]],
        openmetrics: bool = False,
        latest: LatestPages | None = None,
        states: Sequence[Callable[[], State]] = (),
        is_paused: Callable[[], bool] = lambda: False,
        tick: Callable[[], int] | None = None,
    ) -> None:
        self._states = each = tuple(states) or (state,) * len(parts)
        # Without a cycle through itself: pages that a reload replaces are freed without the collector.
        self._tick_of_states = tick or (lambda: max(current().tick for current in each))
        self._latest = latest or LatestPages()
        self._clock = clock
        self._is_paused = is_paused
        self._parts = tuple(parts)
        self._end = b"# EOF\n" if openmetrics else b""
        self._headers = parts[0].identity.headers
        self._content_type = OPENMETRICS.content_type if openmetrics else parts[0].identity.content_type
        self._tick = -1
        self._response: Response | None = None
        self._waiting: list[tuple[int, Deferred[Response]]] = []
        self._is_making = False
        self._is_over = False
        self.as_openmetrics: CachedPage | None = None
        self.faults: Callable[[], PageFaults | None] = lambda: None

    def response(self) -> Response | Deferred[Response]:
        """The page at the present tick; a large one a little later."""
        tick = self._tick_of_states()
        if self._response is not None and self._tick == tick:
            return self._response
        waiter: Deferred[Response] = Deferred()
        self._waiting.append((tick, waiter))
        self._make()
        return self._response if self._response is not None and self._tick == tick else waiter

    def drop_before(self, tick: int) -> None:
        """Drop the response of a tick before this one."""
        if self._tick < tick:
            self._response = None

    @property
    def is_awaited(self) -> bool:
        """Whether a request waits for it."""
        return bool(self._waiting)

    def hand_over(self, successor: CachedPage | None) -> None:
        """Render no more: waiting requests get the page of the successor; without one, 404."""
        self._is_over = True
        waiting, self._waiting = self._waiting, []
        for _, waiter in waiting:
            answer = fail(HttpError(404, "nothing is here any more")) if successor is None else successor.response()
            if isinstance(answer, Deferred):
                answer.chainDeferred(waiter)
            else:
                waiter.callback(answer)

    def _make(self) -> None:
        """Begin to render the page, if a request waits for it and that has not begun."""
        if self._waiting and not self._is_making:
            self._is_making = True
            # Not two large pages at once.
            self._response = None
            self._work(self._pieces(), [])

    def _pieces(self) -> Generator[bytes, None, State]:
        """The pieces of the page, some of them empty; all show the state that is returned."""
        while not all(part.compile() for part in self._parts):
            yield b""
        states = [state() for state in self._states]
        for pieces in [part.slices(state) for part, state in zip(self._parts, states, strict=True)]:
            yield from pieces
        return max(states, key=lambda state: state.tick)

    def _work(self, pieces: Generator[bytes, None, State], made: list[bytes]) -> None:
        """Work some milliseconds in each reactor turn, then answer all waiting requests."""
        if self._is_over:
            return
        if self._is_paused():
            self._clock.callLater(0, self._work, pieces, made)
            return
        outcome: Response | Exception
        seconds = self._clock.seconds
        until = seconds() + _TURN_SECONDS
        try:
            while seconds() < until:
                made.append(next(pieces))
        except StopIteration as done:
            outcome = self._made(made, done.value)
        except Exception as error:
            outcome = error
        else:
            self._clock.callLater(0, self._work, pieces, made)
            return
        self._is_making = False
        # A tick may have passed meanwhile: requests that arrived after it get the page of that tick.
        served = [waiter for tick, waiter in self._waiting if isinstance(outcome, Exception) or tick <= self._tick]
        self._waiting = [(tick, waiter) for tick, waiter in self._waiting if waiter not in served]
        self._serve(deque(served), outcome)
        self._make()

    def _serve(self, waiters: deque[Deferred[Response]], outcome: Response | Exception) -> None:
        """Answer requests for some milliseconds in each reactor turn: thousands may wait for one page."""
        seconds = self._clock.seconds
        until = seconds() + _TURN_SECONDS
        while waiters:
            waiter = waiters.popleft()
            if isinstance(outcome, Response):
                waiter.callback(outcome)
            else:
                waiter.errback(outcome)
            if seconds() >= until:
                break
        if waiters:
            self._clock.callLater(0, self._serve, waiters, outcome)

    def _made(self, pieces: Sequence[bytes], state: State) -> Response:
        self._tick = state.tick
        body = Body(*filter(None, pieces), self._end)
        headers = ((TICK_HEADER, str(state.tick)), *self._headers)
        self._response = response = Response(200, body, self._content_type, headers)
        self._latest.add(self, state.tick)
        return response


class Pages:
    """All pages of a fleet, each made at its first request.

    :param identities: the identity of each pool, by its name.
    """

    def __init__(self, fleet: Fleet, identities: Mapping[str, Identity], clock: IReactorTime) -> None:
        self.fleet = fleet
        self.identities = identities
        self._shown = fleet.compiled
        self._clock = clock
        self._labels: dict[Identity, LabelCache[RosterNode]] = {}
        #: The caches of before the last reload.
        self._previous_labels: dict[Identity, LabelCache[RosterNode]] = {}
        #: By node, pool, identity and hold time; the identity by its id, since it is large. The node's name and the
        #: selection are kept beside the page, so the id stays valid.
        self._kept: dict[tuple[str, str | None, int, float | None], tuple[CachedPage, str, Selection]] = {}
        self._workloads: CachedPage | None = None
        self._latest = LatestPages()
        self._held = HeldStates(lambda: fleet.shown)
        for identity in identities.values():
            self._held.every(identity.hold_seconds)

    def keep(self) -> None:
        """A tick was done: update the held states of pages that hold their values, and make new ones of other nodes."""
        if self.fleet.compiled is not self._shown:  # the nodes of a cluster have changed
            self.follow(self.identities)
        self._held.keep()

    def fleet_page(self, selection: Selection = EVERYTHING) -> CachedPage:
        """All selected nodes on one page."""
        return self.node_page(None, selection)

    def held_state(self, seconds: float) -> State:
        """What pages show that hold their values for some simulated seconds; 0: the current state."""
        return self._held.every(seconds)()

    def finder(self, selection: Selection) -> Callable[[], CachedPage]:
        """What returns the page of all selected nodes, made at the first call; its values are held from now on."""
        if selection.hold_seconds is not None:
            self._held.every(selection.hold_seconds)
        return partial(self.fleet_page, selection)

    def node_page(self, node: RosterNode | None, selection: Selection = EVERYTHING) -> CachedPage:
        """One node, as its own exporter prints it; with None all selected nodes.

        :param selection: how the page shows it.
        """
        name = node.name if node is not None else ""
        key = (name, None if name else selection.pool, id(selection.identity), selection.hold_seconds)
        if key not in self._kept:
            nodes = [node] if node is not None else [shown for shown in self.fleet.roster.shown if selection.has(shown)]
            self._kept[key] = self._new_page(nodes, selection), name, selection
        return self._kept[key][0]

    def workload_page(self) -> CachedPage:
        """The page of the running workloads, which is the same in both formats but for its last line."""
        if self._workloads is None:
            # Not in fakedev-exporter, which must start fast.
            from fakedev.exporters.workload_page import workload_pages  # noqa: PLC0415

            source, text, openmetrics = workload_pages(self.fleet)

            def page_of(part: Page[Any], is_openmetrics: bool) -> CachedPage:
                return CachedPage(
                    source.state, self._clock, [part], is_openmetrics, self._latest,
                    is_paused=lambda: self.fleet.is_paused, tick=lambda: self.fleet.state.tick,
                )  # fmt: skip

            page = page_of(text, False)
            page.as_openmetrics = page_of(openmetrics, True)
            self._workloads = page
        return self._workloads

    def follow(self, identities: Mapping[str, Identity]) -> None:
        """The fleet has other nodes, or other identities: make new pages."""
        before, self._kept, self.identities = self._kept, {}, identities
        self._shown = self.fleet.compiled
        self._previous_labels, self._labels = self._labels, {}
        self._held.renew()
        for identity in identities.values():
            self._held.every(identity.hold_seconds)
        for page, node_name, selection in before.values():
            if not page.is_awaited and not (page.as_openmetrics and page.as_openmetrics.is_awaited):
                continue
            node = self.fleet.roster.node(node_name)
            successor = self.node_page(node, selection) if node is not None or not node_name else None
            page.hand_over(successor)
            if page.as_openmetrics is not None:
                page.as_openmetrics.hand_over(successor and (successor.as_openmetrics or successor))
        self._free(list(before.values()))

    def _free(self, pages: list[tuple[CachedPage, str, Selection]]) -> None:
        """Free old pages, some in each reactor turn: thousands take milliseconds."""
        del pages[-_FREED_AT_ONCE:]
        if pages:
            self._clock.callLater(0, self._free, pages)

    def _labels_of(self, identity: Identity) -> LabelCache[RosterNode]:
        if identity not in self._labels:
            shown = identity if self.fleet.roster.parts.count else without_parts(identity)
            source = DeviceSource.of(self.fleet, identity)
            self._labels[identity] = LabelCache(shown, source, self._previous_labels.pop(identity, None))
        return self._labels[identity]

    def _new_page(self, nodes: Sequence[RosterNode], selection: Selection) -> CachedPage:
        identity, hold = selection.identity, selection.hold_seconds
        groups = [(identity, list(nodes))] if identity else by_identity(nodes, self.identities)
        if not groups:  # a shard without nodes of that pool: an empty page
            pools = self.fleet.roster.pools
            groups = [(self.identities[selection.pool or pools[0].name], [])]
        labels = [(self._labels_of(shown), group) for shown, group in groups]
        states = [self._held.every(shown.hold_seconds if hold is None else hold) for shown, _ in groups]

        def page(openmetrics: bool) -> CachedPage:
            parts = [Page(cache, group, openmetrics) for cache, group in labels]
            return CachedPage(
                states[0], self._clock, parts, openmetrics, self._latest, states, lambda: self.fleet.is_paused
            )

        names = frozenset(node.name for node in nodes)
        text = page(openmetrics=False)
        text.faults = lambda: self.fleet.page_faults.of(names) if self.fleet.page_faults.by_fault else None
        if all(shown.openmetrics for shown, _ in groups):
            text.as_openmetrics = page(openmetrics=True)
        return text
