"""The service in the reactor of a test, in projects of others with pytest-twisted."""

from __future__ import annotations

import pytest

from tests.testing.projects import PLUGINS

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("project")]

ARGUMENTS = (*PLUGINS, "-W", "error")

STATE = """
    import gc, os, signal
    import pytest, pytest_twisted
    from twisted.internet import defer, reactor
    from twisted.internet.task import deferLater
    from fakedev.client import RequestRefused

    def state():
        fds = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
        sockets = [os.readlink(each) for each in fds if os.path.lexists(each) and os.readlink(each)[:6] == "socket"]
        handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        selectables = {*map(repr, reactor.getReaders()), *map(repr, reactor.getWriters())}
        return sockets, handlers, selectables, reactor.getDelayedCalls(), gc.get_threshold(), gc.get_freeze_count()

    before = []

    def test_before(twisted_greenlet):
        before.append(state())

    def test_after(twisted_greenlet):
        assert [state()] == before
"""


def written(pytester: pytest.Pytester, tests: str, state: str = STATE) -> None:
    """A file of tests, between those that compare the process before and after them."""
    begin, _, end = state.partition("    def test_after")
    pytester.makepyfile(begin + tests + "\n    def test_after" + end)


def test_fleets_in_the_reactor(pytester: pytest.Pytester) -> None:
    """Work, an advance, a reload, refusals and a scenario; afterwards the reactor and the process are as before."""
    pytester.makefile(".yaml", heat="""
        scenario: {for: 10m, seed: 7}
        config:
          fleet: {seed: 3, pools: [{name: p, nodes: [a], device: h100, devices-per-node: 1}]}
        timeline:
          - {at: 1m, fault: {kind: fan, devices: a/0}}
    """)  # fmt: skip
    written(pytester, """
    @pytest_twisted.ensureDeferred
    async def test_work(fakedev_twisted):
        fleet = fakedev_twisted
        work = await fleet.run("train", devices="dgx-0/0", profile="95:2:0")
        assert (await fleet.advance("10m")).tick == 600
        assert (await fleet.scrape("dgx-0")).value("DCGM_FI_DEV_GPU_UTIL", gpu=0) > 90
        assert await fleet.stop(work) == [work["id"]]
        with pytest.raises(RequestRefused, match="no device '9'"):
            await fleet.fault("fan", devices="dgx-0/9")
        assert await fleet.reload()
        pages = await defer.gatherResults([defer.Deferred.fromCoroutine(fleet.page()) for _ in range(20)])
        assert len(set(pages)) == 1

    @pytest_twisted.ensureDeferred
    async def test_again(fakedev_twisted):
        assert (await fakedev_twisted.clock()).tick == 0

    @pytest_twisted.inlineCallbacks
    def test_a_cancelled_advance(fakedev_twisted):
        advance = defer.Deferred.fromCoroutine(fakedev_twisted.advance("1000h"))
        while (yield defer.Deferred.fromCoroutine(fakedev_twisted.clock())).tick == 0:
            pass
        advance.cancel()
        with pytest.raises(defer.CancelledError):
            yield advance

    @pytest.mark.fakedev(scenario="heat.yaml", identity="dcgm@3.2.5")
    @pytest_twisted.ensureDeferred
    async def test_marked(fakedev_twisted):
        await fakedev_twisted.advance("2m")
        assert [each["kind"] for each in await fakedev_twisted.faults()] == ["fan"]
        assert {each["identity"] for each in await fakedev_twisted.nodes()} == {"dcgm@3.2.5"}
    """)
    pytester.runpytest_subprocess(*ARGUMENTS).assert_outcomes(passed=6)


def test_its_errors(pytester: pytest.Pytester) -> None:
    """A wrong configuration, and one that cannot be served; the report of a failed test; nothing is left."""
    written(pytester, r'''
    POOL = "{name: p, nodes: [a], device: h100, devices-per-node: 1}"

    @pytest.mark.fakedev(config="version: 1\nflet: {}\n")
    def test_wrong(fakedev_twisted): ...

    import socket
    TAKEN = socket.create_server(("", 0))
    WEB = "web: [{per-node: '127.64.0.0/16:%d'}]\n" % TAKEN.getsockname()[1]

    @pytest.mark.fakedev(config="version: 1\nfleet: {pools: [" + POOL + "]}\n" + WEB)
    def test_not_served(fakedev_twisted): ...

    @pytest_twisted.ensureDeferred
    async def test_fails(fakedev_twisted):
        await fakedev_twisted.fault("fan", devices="dgx-0/0")
        assert (await fakedev_twisted.advance("1s")).tick == 7
    ''')
    result = pytester.runpytest_subprocess(*ARGUMENTS)
    result.assert_outcomes(passed=2, errors=2, failed=1)
    result.stdout.fnmatch_lines([
        "*fakedev.yaml:2: unknown key 'flet'; did you mean 'fleet'?",
        "*test_its_errors.py:*: fakedev: it did not start: cannot listen on *: the address is in use*",
        "tick 0  fault  f1  fan on *", "Run it again: fakedev render *",
    ])  # fmt: skip


def test_without_pytest_twisted(pytester: pytest.Pytester) -> None:
    """The error says what is missing."""
    pytester.makepyfile("def test_it(fakedev_twisted): ...")
    result = pytester.runpytest_subprocess(*ARGUMENTS, "-p", "no:twisted")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fakedev: fakedev_twisted needs the plugin pytest-twisted: pip install *"])
