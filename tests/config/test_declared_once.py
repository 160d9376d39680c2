"""Ports and configuration take the fields of workloads and faults from their one declaration."""

from __future__ import annotations

from fakedev.fleet.settings.faults import BROUGHT, FAULT
from fakedev.fleet.settings.workloads import BASE
from fakedev.fleet.spec.fault_kinds import FAULT_FIELDS, PARAMETERS
from fakedev.fleet.spec.workload_fields import WORKLOAD_FIELDS
from fakedev.fleet.verbs import WORKLOAD_GRAMMAR


def test_fields_of_workloads() -> None:
    """The verb ``run`` and ``workloads.base`` have all of them; the latter has a file and `restart`, too."""
    run = WORKLOAD_GRAMMAR.find("run")
    assert {argument.name for argument in run.arguments} == WORKLOAD_FIELDS.keys()
    assert {key.name for key in BASE.keys} == {*WORKLOAD_FIELDS, "file", "restart"}


def test_fields_of_faults() -> None:
    """The verb ``fault`` and ``faults`` have all of them; a fault that a workload brings has the workload's devices."""
    fault = WORKLOAD_GRAMMAR.find("fault")
    assert {argument.name for argument in fault.arguments} == FAULT_FIELDS.keys()
    assert {key.name for key in FAULT.keys} == FAULT_FIELDS.keys()
    assert {key.name for key in BROUGHT.keys} == FAULT_FIELDS.keys() - {"devices", "node"}
    assert PARAMETERS.keys() < FAULT_FIELDS.keys()
