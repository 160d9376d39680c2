"""The health of devices that a service leaves to the next one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.kube.health import HealthWatch
from fakedev.kube.health_record import NoHealth, health_record, read_health
from fakedev.spec.kubernetes import MigStrategy, Recovery
from tests.kube.objects import pool
from tests.kube.watched import Watched
from tests.support.examples import examples
from tests.support.faulty_fleets import boards_of

NODES = st.sampled_from(("dgx-0/0", "dgx-1/1"))
DEVICES = st.sampled_from(("dgx-0/0", "dgx-1/1", "dgx-1/0", "dgx-2/*"))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("xid", "lost", "hang", "link-down", "reset")), DEVICES),
        st.tuples(st.sampled_from(("node-down", "plugin-down", "kubelet-restart", "plugin restarted")), NODES),
        st.tuples(st.sampled_from(("clear", "tick")), st.just("")),
    ),
    max_size=12,
)


@settings(max_examples=examples(100), deadline=None)
@given(STEPS, st.sampled_from(Recovery), st.data())
def test_one_that_goes_on_tells_the_same(steps: list[tuple[str, str]], recovery: Recovery, data: st.DataObject) -> None:
    """After any restarts, in each tick, whatever has happened, with what is in no state of a fleet."""
    watched = Watched(recovery=recovery)
    other = gone_on(watched, watched.watch, recovery)
    for what, where in steps:
        if what == "plugin restarted":
            node = where.partition("/")[0]
            assert watched.watch.restart_plugin(node) == other.restart_plugin(node)
        else:
            if what == "clear":
                told = watched.clear()
            elif what == "tick":
                told = watched.tick()
            else:
                fields = {"code": 48} if what == "xid" else {}
                told = watched.inject(kind=what, devices=where, **fields)
            is_killed_before = data.draw(st.booleans())
            if is_killed_before:  # the service was killed when it had not looked at the tick
                other = gone_on(watched, other, recovery)
            else:
                assert other.observe(watched.fleet) == told
        assert other.ill == watched.watch.ill
        if data.draw(st.booleans()):
            other = gone_on(watched, other, recovery)
            assert other.ill == watched.watch.ill


def gone_on(watched: Watched, watch: HealthWatch, recovery: Recovery) -> HealthWatch:
    """A watch that goes on from the text of another one."""
    following = HealthWatch(watched.devices.get, recovery)
    following.go_on(watched.fleet, read_health(health_record(watch.known()), watched.fleet.roster))
    return following


def test_what_is_known_stays() -> None:
    """Nothing that comes later changes it: so whoever has written it sees that there is something to write."""
    watched = Watched()
    watched.inject(kind="xid", code=48, devices="dgx-1/1")
    known = watched.watch.known()
    text = health_record(known)
    watched.watch.restart_plugin("dgx-1")
    assert health_record(known) == text != health_record(watched.watch.known())


def test_parts() -> None:
    """Instances are known by their numbers on their boards."""
    watched = Watched(pool("a100", 2, "3g.20gb", "3g.20gb", strategy=MigStrategy.MIXED))
    watched.inject(kind="xid", code=94, devices="dgx-0/1/1")
    assert gone_on(watched, watched.watch, Recovery.AUTO).ill == watched.watch.ill != {}


def test_nodes_that_have_left() -> None:
    """A fleet without a node, or with fewer devices, goes on with the others."""
    watched, fewer = Watched(), Watched(boards_of("h100", nodes=2, devices=1))
    watched.inject(kind="xid", code=48, devices="all")
    known = read_health(health_record(watched.watch.known()), fewer.fleet.roster)
    assert (list(known.nodes), known.codes.tolist()) == (["dgx-0", "dgx-1"], [48, 48])


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"form": 2}',
        '{"form":1,"tick":1,"units":{"a":[1,1,1]},"nodes":{}}',
        '{"form":1,"tick":1,"units":{"dgx-0/0":[1]},"nodes":[]}',
        '{"form":1,"tick":1,"units":{},"nodes":{"dgx-0":{"x":1}}}',
    ],
)  # fmt: skip
def test_another_text(text: str) -> None:
    """It is refused, with the reason."""
    with pytest.raises(NoHealth, match=r"it is no record of the health of devices|its form is 2"):
        read_health(text, Watched().fleet.roster)
