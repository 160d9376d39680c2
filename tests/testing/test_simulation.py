"""A fleet in the test's process: the same answers and pages as those of a service."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fakedev.client import Fleet, NeverTrue, NoAnswer, RequestRefused
from fakedev.commands.render import render
from fakedev.schema.places import ConfigurationError
from fakedev.testing.order import DEFAULT, Order
from fakedev.testing.simulation import Simulation
from tests.support.application import STANDING, application
from tests.support.wire.memory_requester import MemoryRequester

#: The application in memory begins then, too.
TEXT = STANDING.replace("seed: 7", "seed: 7\n  epoch: 2027-01-15T08:00:00Z")


@pytest.fixture
def sim(tmp_path: Path) -> Simulation:
    return Simulation(Order(text=TEXT), tmp_path)


def used(fleet: Fleet | Simulation) -> list[object]:
    said: list[object] = [fleet.run("train", devices="a/0", profile="95:2:0", run_time_limit="1h"), fleet.workloads()]
    fault = fleet.fault("power-cap", devices="a/*", watts=200)
    other = fleet.run("other", "b/1", profile="50:0:0")
    said += [fault, fleet.advance("95s"), fleet.workload("train"), fleet.faults(), fleet.devices("a")]
    said += [fleet.explain("a/0"), fleet.page("a"), fleet.page(), list(fleet.scrape("b")), fleet.clear(fault)]
    said += [fleet.stop(other), fleet.advance(1.5), fleet.page(), fleet.journal("start,stop,ended")]
    said += [fleet.journal(devices="a/1"), fleet.journal("began,ended", limit=2, node="b")]
    said += [fleet.clear(), fleet.faults(), fleet.reset(), fleet.advance("5s"), fleet.workloads(), fleet.page("a")]
    said.append({name: value for name, value in fleet.device("a/0").items() if name != "links"})
    for wrong in (
        lambda: fleet.run("train", devices="a/7", profile="1:0:0"), lambda: fleet.run("x", "a/0", profil="1:0:0"),
        lambda: fleet.stop("missing"), lambda: fleet.clear("f99"), lambda: fleet.fault("fan", "all", watts=7),
        lambda: fleet.journal(kind="nothing"), lambda: fleet.advance(0),
    ):  # fmt: skip
        with pytest.raises(RequestRefused) as refused:
            wrong()
        said.append(re.sub(r" to 10000000 ticks|: give .*", "", str(refused.value)))
    return said


@pytest.mark.slow
def test_as_a_service(sim: Simulation) -> None:
    """What a client of the same configuration is answered, word for word."""
    with application(TEXT) as app:
        expected = used(Fleet("http://localhost", requester=MemoryRequester(app)))
    for one, other in zip(used(sim), expected, strict=True):
        assert one == other


def test_pages_with_faults(sim: Simulation) -> None:
    """As a scraper would see them: none, an error, a part."""
    sim.fault("node-down", devices="a/*", duration="1s")
    sim.fault("error-page", devices="b/*", status=503, duration="1s")
    whole = sim.page("a")
    sim.advance(1)
    with pytest.raises(NoAnswer, match="the node is down"):
        sim.page("a")
    with pytest.raises(RequestRefused) as refused:
        sim.scrape("b")
    assert refused.value.status == 503
    sim.fault("cut-page", devices="a/*", share=0.5)
    sim.advance(5)
    assert 0 < len(sim.page("a")) < len(whole) * 0.6
    with pytest.raises(RequestRefused, match="no node 'c'"):
        sim.page("c")


def test_the_state_itself(sim: Simulation) -> None:
    """Its arrays; a wait that is over, and one that never is."""
    sim.run("train", devices="a/0", profile="95:2:0")
    assert sim.wait_until(lambda: sim.fleet.power_watts[0] > 200)
    with pytest.raises(NeverTrue):
        sim.wait_until(lambda: sim.fleet.power_watts[1] > 200, at_most="10s")


def test_orders(tmp_path: Path) -> None:
    """The default with another identity, and values; what cannot be used has its own words."""
    sim = Simulation(Order(text=DEFAULT, identity="dcgm@3.2.5", overrides=("fleet.tick=500ms",)), tmp_path)
    assert (len(sim.devices()), sim.advance(1).tick) == (8, 2)
    with pytest.raises(ConfigurationError, match="unknown key 'flet'"):
        Simulation(Order(text="version: 1\nflet: {}\n"), tmp_path)


@pytest.mark.slow
def test_scenario(tmp_path: Path) -> None:
    """Its timeline is played while the clock advances, also a reload."""
    (tmp_path / "more.yaml").write_text(STANDING.replace("[a, b]", "[a, b, c]"))
    (tmp_path / "fleet.yaml").write_text(STANDING)
    file = tmp_path / "day.yaml"
    file.write_text("""
config: fleet.yaml
scenario: {for: 10m}
timeline:
  - {at: 1m, fault: {kind: xid, code: 79, devices: a/0}}
  - {at: 2m, reload: more.yaml}
""")
    sim = Simulation(Order(scenario=str(file)), tmp_path)
    sim.advance("90s")
    assert [each["kind"] for each in sim.journal(kind="xid")] == ["xid"]
    assert "Hostname=\"c\"" not in sim.page()
    sim.advance("1m")
    assert len(sim.devices()) == 6
    assert "Hostname=\"c\"" in sim.page()
    sim.advance("10m")


@pytest.mark.slow
def test_the_record_of_a_report(sim: Simulation, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run again, it gives the same page, byte for byte."""
    sim.run("train", devices="a/0", profile="95:2:0")
    sim.advance("30s")
    sim.fault("fan", devices="a/0")
    sim.advance("90s")
    sections = dict(sim.report())
    assert list(sections) == ["configuration", "journal", "record"]
    assert "fan on a/0" in sections["journal"]
    command = sections["record"].partition("Run it again: ")[2].split()
    assert command[:2] == ["fakedev", "render"]
    assert render(command[2:]) == 0
    assert capsys.readouterr().out.partition("# page tick=120 ")[2].partition("\n")[2] == sim.page()
