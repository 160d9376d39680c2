"""What a device plugin does next, without sockets."""

from __future__ import annotations

from fakedev.node.device_plugin import WATCH_SECONDS, PluginSteps, SocketFile, Step

KUBELET, RESTARTED = SocketFile(1, 10), SocketFile(1, 20)
OWN, AGAIN = SocketFile(2, 11), SocketFile(2, 21)


class Plugin:
    """A plugin whose sockets are values."""

    def __init__(self) -> None:
        self.steps = PluginSteps()
        self.now = 0.0
        self.own: SocketFile | None = None
        self.kubelet: SocketFile | None = None
        self.is_wanted = True
        self.is_watched = False

    def next(self, seconds: float = 0.0) -> Step:
        """The step after some seconds."""
        self.now += seconds
        return self.steps.next(
            self.now, is_wanted=self.is_wanted, own=self.own, kubelet=self.kubelet, is_watched=self.is_watched
        )

    def serve(self, own: SocketFile = OWN) -> None:
        """Do that step."""
        assert self.next() is Step.SERVE
        self.own = own
        self.steps.serving(own)

    def register(self) -> None:
        """Do that step."""
        assert self.next() is Step.REGISTER
        self.steps.asked(self.kubelet)
        assert self.next() is Step.NOTHING
        self.steps.registered(self.now)
        self.is_watched = True
        assert self.next() is Step.NOTHING


def registered() -> Plugin:
    """A plugin that the kubelet watches."""
    plugin = Plugin()
    plugin.kubelet = KUBELET
    plugin.serve()
    plugin.register()
    return plugin


def test_it_waits_for_the_kubelet() -> None:
    """And then listens before it registers: the kubelet calls it back before it answers."""
    plugin = Plugin()
    assert plugin.next(100) is Step.NOTHING
    plugin.kubelet = KUBELET
    plugin.serve()
    assert not plugin.steps.is_registered
    plugin.register()
    assert plugin.steps.is_registered
    assert plugin.next(1000) is Step.NOTHING


def test_a_kubelet_that_restarts_deletes_the_socket() -> None:
    """It is made anew, and registered with the kubelet that is there now."""
    plugin = registered()
    plugin.own, plugin.kubelet, plugin.is_watched = None, None, False
    assert plugin.next(1) is Step.NOTHING
    plugin.kubelet = RESTARTED
    plugin.serve(AGAIN)
    plugin.register()


def test_a_kubelet_that_restarts_and_keeps_the_socket() -> None:
    plugin = registered()
    plugin.kubelet = RESTARTED
    plugin.register()


def test_only_our_socket_is_gone() -> None:
    """It is made anew; the kubelet that knew the old one is told."""
    plugin = registered()
    plugin.own = None
    plugin.serve(AGAIN)
    plugin.register()


def test_a_registration_that_fails_is_tried_again() -> None:
    plugin = Plugin()
    plugin.kubelet = KUBELET
    plugin.serve()
    waits = []
    for _ in range(9):
        assert plugin.next() is Step.REGISTER
        plugin.steps.asked(KUBELET)
        plugin.steps.failed(plugin.now)
        waits.append(0.0)
        while plugin.next() is Step.NOTHING:
            waits[-1] += 0.25
            plugin.now += 0.25
    assert waits == [0.25, 0.5, 1, 2, 4, 8, 10, 10, 10]
    plugin.register()


def test_another_kubelet_does_not_wait_for_the_failures_before() -> None:
    plugin = Plugin()
    plugin.kubelet = KUBELET
    plugin.serve()
    for _ in range(7):
        assert plugin.next(20) is Step.REGISTER
        plugin.steps.asked(KUBELET)
        plugin.steps.failed(plugin.now)
    assert plugin.next(0.1) is Step.NOTHING
    plugin.kubelet = RESTARTED
    plugin.register()


def test_an_answer_of_the_kubelet_before() -> None:
    """Does not count for the one that is there now, good or bad."""
    plugin = Plugin()
    plugin.kubelet = KUBELET
    plugin.serve()
    for answered in (plugin.steps.registered, plugin.steps.failed):
        plugin.kubelet = KUBELET
        assert plugin.next() is Step.REGISTER
        plugin.steps.asked(KUBELET)
        plugin.kubelet = RESTARTED
        assert plugin.next() is Step.NOTHING
        answered(plugin.now)
        assert not plugin.steps.is_registered
        assert plugin.next() is Step.REGISTER


def test_a_kubelet_that_stops_watching() -> None:
    plugin = registered()
    plugin.is_watched = False
    assert plugin.next(WATCH_SECONDS) is Step.NOTHING
    plugin.now += 0.25
    plugin.register()


def test_a_kubelet_that_never_watches() -> None:
    plugin = Plugin()
    plugin.kubelet = KUBELET
    plugin.serve()
    waits = []
    for _ in range(7):
        assert plugin.next() is Step.REGISTER
        plugin.steps.asked(KUBELET)
        plugin.steps.registered(plugin.now)
        began = plugin.now
        while plugin.next() is Step.NOTHING:
            plugin.now += 0.25
        waits.append(plugin.now - began - WATCH_SECONDS)
    assert waits == [0.25, 0.5, 1, 2, 4, 8, 10]


def test_a_plugin_that_is_to_stop() -> None:
    plugin = registered()
    plugin.is_wanted = False
    assert plugin.next() is Step.STOP
    plugin.steps.stopped()
    plugin.own, plugin.is_watched = None, False
    assert plugin.next(100) is Step.NOTHING
    plugin.is_wanted = True
    plugin.serve(AGAIN)
    plugin.register()


def test_an_answer_that_comes_after_the_stop() -> None:
    plugin = Plugin()
    plugin.kubelet = KUBELET
    plugin.serve()
    assert plugin.next() is Step.REGISTER
    plugin.steps.asked(KUBELET)
    plugin.steps.stopped()
    plugin.steps.registered(plugin.now)
    assert not plugin.steps.is_registered
