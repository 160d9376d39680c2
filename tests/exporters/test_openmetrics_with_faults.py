"""Pages of all identities that negotiate OpenMetrics, with parts, links and faults, read by prometheus_client."""

from __future__ import annotations

import warnings

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fakedev.fleet.spec.fault_kinds import KINDS, Scope
from tests.support.application import MemoryApplication, application
from tests.support.identities import TITLES, loaded

CONFIG = """
fleet:
  seed: 3
  pools:
    - {name: p, nodes: [n], device: a100, devices-per-node: 3, mig: [3g.20gb, 1g.5gb],
       devices: [{index: 2, mig: []}], identity: IDENTITY}
web: ["127.0.0.1:9400"]
workloads: {listen: [{listen: "127.0.0.1:4499", allow: [workloads, faults, clock]}]}
"""
HEADERS = "Host: localhost\r\nAccept: application/openmetrics-text; version=1.0.0\r\n"
#: What page faults make of a page is no page; the boards are in no rack.
OF_SERIES_AND_BOARDS = [
    kind for kind in KINDS.values() if kind.scope not in (Scope.PAGE, Scope.NODE) and not kind.needs_racks
]


#: Instead of the least number: drivers accept no power limit of 1 W.
GIVEN = {"watts": 300}


def families(app: MemoryApplication, why: str) -> list[str]:
    """The families of the node's page as OpenMetrics, which must be good."""
    answer = app.ask("GET", "/nodes/n/metrics", headers=HEADERS)
    assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, "application/openmetrics-text"), why
    return [family.name for family in text_string_to_metric_families(answer.body.decode())]


@pytest.mark.slow
@pytest.mark.parametrize("title", [title for title in TITLES if loaded(title).openmetrics])
def test_good_with_every_fault(title: str) -> None:
    """With every fault of boards, instances and series; each begins in the tick in which the one before it ends."""
    with application(CONFIG.replace("IDENTITY", title)) as app:
        peer = app.connect()
        run = r'run a devices=n/*/*,n/2 profile=60:10:0 pod="p\"\\q" namespace=x container=c detach'
        assert peer.say(run) == ["ok w2"]
        app.tick(2)
        well = families(app, "well")
        for kind in OF_SERIES_AND_BOARDS:
            needed = {each.name: GIVEN.get(each.name, each.low) for each in kind.parameters if each.default is None}
            # OpenMetrics has no counters that are NaN, and the fault makes them so: exporters do too.
            metric = {"metric": "temperature"} if kind.name == "nan" else {}
            body = {"kind": kind.name, "devices": "n/*", "duration": "1s", **needed, **metric}
            assert app.ask("POST", "/api/v1/faults", body).status == 201, kind.name
            app.tick()
            families(app, kind.name)
        peer.say("fault lost devices=n/0/1 duration=1s")
        app.tick()
        families(app, "an instance is lost")
        app.tick(3)
        # Some show devices of containers only; some show errors from the first on.
        conditional = loaded(title).conditional_families(app.fleet.quantity_names())
        at_times = {name.removesuffix("_total") for name in conditional}
        assert set(families(app, "over")) - at_times <= set(well)


def test_flags_that_are_no_numbers() -> None:
    """What is one bit of a number is NaN, or the sentinel, where the number is."""
    with application(CONFIG.replace("IDENTITY", "nvidia-gpu-exporter")) as app, warnings.catch_warnings():
        warnings.simplefilter("error")
        for index, fields in enumerate(({"kind": "nan"}, {"kind": "sentinel", "value": 1e30})):
            app.ask("POST", "/api/v1/faults", {**fields, "devices": [f"n/{index}"]})
        app.tick()
        page = app.get("/nodes/n/metrics").body.decode().splitlines()
        shown = [line.split()[-1] for line in page if line.startswith("nvidia_smi_clocks_event_reasons_sw_power_cap{")]
        assert shown == ["NaN", "1e+30", "0"]
