"""Faults as they are described, what is refused, and when they are there."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.base.errors import FieldError, Refused
from fakedev.fleet.door import fault_id_of
from fakedev.fleet.events import ClearFaults
from fakedev.fleet.spec.fault_kinds import KINDS, PARAMETERS, fault_from_fields, fields_of_fault
from fakedev.fleet.verbs import WORKLOAD_GRAMMAR
from tests.support.fleet.faulty_fleets import boards_of, busy, cleared, inject, shown
from tests.support.fleet.fleets import advance, make_fleet


class TestFields:
    def test_the_ports_know_all(self) -> None:
        verb = WORKLOAD_GRAMMAR.find("fault")
        assert " ".join(verb.notes).split()[4:] == list(KINDS)
        assert {option.name for option in verb.options} > set(PARAMETERS)

    @pytest.mark.parametrize("kind", KINDS)
    def test_there_and_back(self, kind: str) -> None:
        fields: dict[str, object] = {"kind": kind, "devices": ["a/0"], "node": "a", "every": 2.0, "probability": 0.25}
        fields |= {parameter.name: parameter.high for parameter in KINDS[kind].parameters if not parameter.instead_of}
        if KINDS[kind].takes_metric:
            fields["metric"] = "power"
        assert fields_of_fault(fault_from_fields(fields)) == fields

    @pytest.mark.parametrize(
        ("fields", "where", "text"),
        [
            ({}, "kind", "give one of xid"),
            ({"kind": "xidd", "devices": "all"}, "kind", "did you mean xid"),
            ({"kind": "lost"}, "devices", "say which"),
            ({"kind": "lost", "devices": []}, "devices", "list of device words"),
            ({"kind": "xid", "devices": "all"}, "code", "missing"),
            ({"kind": "xid", "devices": "all", "code": 1.5}, "code", "whole number from 1 to 999"),
            ({"kind": "xid", "devices": "all", "code": True}, "code", "whole number"),
            ({"kind": "lost", "devices": "all", "cod": 3}, "cod", "nothing that the fault lost takes"),
            ({"kind": "lost", "devices": "all", "metric": "power"}, "metric", "nothing that the fault lost takes"),
            ({"kind": "lost", "devices": "all", "duration": "5x"}, "duration", ""),
            ({"kind": "lost", "devices": "all", "probability": 1.1}, "probability", "from 0 to 1"),
            ({"kind": "lost", "devices": "all", "start": -1}, "start", "duration"),
            ({"kind": "pcie-slow", "devices": "all", "width": 3}, "width", "must be one of 0, 1, 2, 4, 8, 16, 32"),
        ],
    )
    def test_what_is_refused(self, fields: dict[str, object], where: str, text: str) -> None:
        with pytest.raises(FieldError) as caught:
            fault_from_fields(fields)
        assert caught.value.where == where
        assert text in caught.value.text

    @pytest.mark.parametrize(
        ("fields", "where"),
        [
            ({"kind": "lost", "devices": "c/0"}, "devices"),
            ({"kind": "lost", "node": "c"}, "node"),
            ({"kind": "nan", "devices": "all", "metric": "colour"}, "metric"),
            ({"kind": "link-down", "devices": "all"}, "devices"),
            ({"kind": "lost", "devices": "all", "every": 0.5}, "every"),
            ({"kind": "power-cap", "devices": "all", "watts": 351}, "watts"),
            ({"kind": "lost", "devices": "dgx-0/0/link/1"}, "devices"),
        ],
    )
    def test_what_the_fleet_refuses(self, fields: dict[str, object], where: str) -> None:
        fleet = make_fleet(boards_of("l40s", nodes=1, devices=2))
        with pytest.raises(Refused) as caught:
            inject(fleet, **fields)
        assert caught.value.where == where
        assert not fleet.faults.by_id
        assert inject(fleet, kind="lost", devices="all") == fault_id_of(1)


class TestTimes:
    def test_from_the_next_tick_until_it_is_cleared(self) -> None:
        """Also one of the configuration; it recovers with the tick after."""
        spec = fault_from_fields({"kind": "lost", "devices": "dgx-0/1"})
        fleet = make_fleet(boards_of("h100", nodes=1, devices=2), faults=(spec,))
        hang = inject(fleet, kind="hang", devices="dgx-0/0")
        assert shown(fleet, "hung") == 0
        advance(fleet, 100)
        assert (shown(fleet, "hung"), fleet.lost.tolist()) == (1, [0, 1])
        for fault in list(fleet.faults.by_id):
            cleared(fleet, fault)
        assert (shown(fleet, "hung"), fleet.lost.tolist(), dict(fleet.faults.by_id)) == (0, [0, 0], {})
        with pytest.raises(Refused, match="no fault"):
            fleet.apply(ClearFaults((hang,)))

    def test_start_and_duration(self) -> None:
        fleet = busy(10)
        inject(fleet, kind="hang", devices="dgx-0/0", start=3, duration="2s")
        seen = []
        for _ in range(8):
            fleet.advance()
            seen.append(shown(fleet, "hung"))
        assert seen == [0, 0, 0, 1, 1, 0, 0, 0]
        assert not fleet.faults.by_id

    def test_what_happens_once(self) -> None:
        """It is over at once; with every it happens again."""
        fleet = busy(10)
        inject(fleet, kind="ecc-single", devices="dgx-0/0", count=3)
        inject(fleet, kind="ecc-single", devices="dgx-0/1", every="10s", duration="35s")
        advance(fleet, 2)
        assert len(fleet.faults.by_id) == 1
        advance(fleet, 58)
        assert shown(fleet, "memory_errors_correctable") == 3
        assert shown(fleet, "memory_errors_correctable", 1) == 4
        assert not fleet.faults.by_id

    @pytest.mark.slow
    def test_probability(self) -> None:
        """Each device is drawn separately, each time again; whole nodes together."""
        fleet = make_fleet(boards_of("h100", nodes=50, devices=2))
        inject(fleet, kind="hang", devices="all", probability=0.3, every="5s")
        inject(fleet, kind="node-down", devices="all", probability=0.5, start=1000)
        seen = []
        for _ in range(40):
            fleet.advance()
            seen.append(fleet.hung > 0)
        table = np.array(seen)
        assert 0.2 < table.mean() < 0.4
        assert (table[:5] == table[0]).all()
        assert (table[5] != table[0]).any()
        advance(fleet, 1000)
        down = (fleet.lost > 0).reshape(50, 2)
        assert (down[:, 0] == down[:, 1]).all()
        assert 0 < down.mean() < 1
