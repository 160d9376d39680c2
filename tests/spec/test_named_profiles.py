"""Profiles by name: on ports, and dealt to the devices of pools."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import ConfigurationError
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import FieldError
from fakedev.spec.fleet import FleetSpec
from fakedev.spec.named_profiles import PROFILES
from fakedev.spec.workload_fields import fields_of_workload, workload_from_fields
from tests.support.paths import DOCUMENTS

PAGE = (DOCUMENTS / "simulation.md").read_text(encoding="utf-8")


def fleet_of(pools: str, more: str = "") -> FleetSpec:
    """The fleet of a configuration with these pools."""
    text = f"version: 1\nfleet: {{seed: 5, epoch: 0, pools: [{pools}]}}\nweb: []\nworkloads: {{listen: []}}\n{more}"
    return load(None, Files(environ={}), text=text).fleet


class TestWorkloads:
    """A profile of a workload may be a name."""

    @pytest.mark.parametrize("name", PROFILES)
    def test_each(self, name: str) -> None:
        """It is a workload like any other, which the record writes in full."""
        workload = workload_from_fields({"name": "x", "devices": "all", "profile": name})
        assert workload.repeat == 0
        assert workload_from_fields(fields_of_workload(workload)) == workload
        assert workload_from_fields({"name": "x", "devices": "all", "profile": name, "repeat": 2}).repeat == 2

    @pytest.mark.parametrize("name", PROFILES)
    def test_the_documentation_has_it(self, name: str) -> None:
        """With the words and, where it is short, the load of the program."""
        (row,) = re.findall(rf"^\| `{name}` \| .*$", PAGE, re.MULTILINE)
        assert PROFILES[name].summary in row
        profile = PROFILES[name].fields["profile"]
        assert f"`{profile}`" in row or len(profile) > 100

    def test_schedules_of_utilization(self) -> None:
        """As an object, or only as the list."""
        entries = [{"time": "1h", "utilization": 80}, {"time": 90, "utilization": 10.5}]
        whole = workload_from_fields(
            {"name": "x", "devices": "all", "profile": {"schedule": entries, "repeat": 5}}
        )
        assert [(each.value, each.seconds) for each in whole.activities] == [(80, 3600), (10.5, 90)]
        assert whole.repeat == 5
        assert workload_from_fields({"name": "x", "devices": "all", "profile": entries}).activities == whole.activities

    @pytest.mark.parametrize(
        ("profile", "text"),
        [
            ("trainin", "did you mean training"),
            ("nothing-like-it", "give one of static"),
            ({"schedule": [], "repet": 5}, "unknown 'repet'"),
            ({"repeat": 5}, "list of activities"),
            ([{"time": "1x", "utilization": 80}], "activity 1: time: '1x'"),
            ([{"time": "1h", "utilization": 80, "load": 3}], "unknown 'load'"),
            ([{"time": "1h", "utilization": 101}], "activity 1"),
        ],
    )
    def test_what_is_refused(self, profile: object, text: str) -> None:
        """With what would be right."""
        with pytest.raises(FieldError, match=re.escape(text)):
            workload_from_fields({"name": "x", "devices": "all", "profile": profile})


class TestPools:
    """Profiles of pools and devices."""

    def test_dealt_round(self) -> None:
        """Over all devices of the pool; single devices have their own. Idle devices have no workload."""
        spec = fleet_of(
            "{name: a, nodes: 2, devices-per-node: 3, profile: [static, idle], devices: [{index: 1, profile: wave}]}"
        )
        dealt = {word: workload.name for workload in spec.base for word in workload.devices}
        assert dealt == {
            "a-0/0": "static-a-0", "a-0/1": "wave-a-0", "a-1/0": "static-a-1", "a-1/1": "wave-a-1",
        }  # fmt: skip

    def test_what_the_boards_have_not(self) -> None:
        """Metrics and faults of a profile are left out where the boards lack them."""
        spec = fleet_of("{name: a, device: flex-170, identity: collectd, profile: [training, faulty]}")
        assert "xid" not in {fault.kind for fault in spec.faults}
        assert "nan" in {fault.kind for fault in spec.faults}
        fleet = Fleet(spec)
        fleet.advance()
        running = fleet.workloads.running()
        used = {use.metric for workload in running for use in workload.spec.uses}
        assert used == {"memory_used_bytes", "pcie_rx_bytes_per_second"}

    def test_a_wrong_name(self) -> None:
        """A line that says where, and what is near."""
        with pytest.raises(ConfigurationError, match="did you mean training"):
            fleet_of("{name: a, profile: trainin}")

    @pytest.mark.slow
    def test_an_hour(self) -> None:
        """Each does what it says: the values that a real board would show together."""
        names = ", ".join(PROFILES)
        fleet = Fleet(fleet_of(f"{{name: a, nodes: 1, devices-per-node: {len(PROFILES)}, profile: [{names}]}}"))
        usage, heat, missing = [], [], 0
        for _ in range(1500):
            fleet.advance()
            usage.append(fleet.usage_ratio)
            heat.append(fleet.temperature_celsius)
            missing += int(np.isnan(fleet.shown.levels["device"].arrays["power_watts"][list(PROFILES).index("faulty")]))
        of_usage = dict(zip(PROFILES, np.array(usage).T, strict=True))
        of_heat = dict(zip(PROFILES, np.array(heat).T, strict=True))
        assert np.ptp(of_usage["static"]) == 0
        assert 0 < np.ptp(of_usage["stable"]) <= 0.1
        assert np.mean(of_usage["spike"] > 0.9) == pytest.approx(0.1, abs=0.02)
        assert of_usage["wave"].min() < 0.15
        assert of_usage["wave"].max() > 0.85
        assert of_heat["degrading"][-1] > of_heat["degrading"][300] + 4
        assert 0.1 < missing / 1500 < 0.3
        assert np.std(of_usage["chaos"]) > 0.2
        assert not of_usage["idle"].any()
        assert np.median(of_usage["training"]) > 0.9
        errors = fleet.state.levels["device"].arrays["memory_errors_correctable"]
        assert [name for name, count in zip(PROFILES, errors, strict=True) if count] == ["degrading", "faulty"]

    def test_faults_of_the_configuration(self) -> None:
        """They are numbered, the file's first; an error names its place."""
        spec = fleet_of("{name: a, profile: degrading}", "faults: [{kind: fan, devices: a-0/1, start: 5s}]\n")
        assert next(iter(Fleet(spec).faults.by_id.values())).spec.kind == "fan"
        for fault, text in (
            ("{kind: xid, node: a-0}", "code: missing"),
            ("{kind: fun, node: a-0}", "did you mean fan"),
            ("{kind: fan, node: b-0}", "node: no node 'b-0'"),
            ("{kind: fan}", "devices: say which"),
            ("{kind: fan, node: a-0, every: 10ms}", "every: must not be less than a tick"),
            ("{kind: nan, node: a-0, metric: colour}", "metric: no metric 'colour'"),
            ("{kind: fan, node: a-0, watts: 3}", "watts: is nothing that the fault fan takes"),
        ):
            with pytest.raises(ConfigurationError, match=re.escape(text)):
                fleet_of("{name: a}", f"faults: [{fault}]\n")
