"""Faults that a workload brings: on its devices, as long as it runs."""

from __future__ import annotations

from fakedev.sim.faults.fault import Fault
from fakedev.sim.faults.fields import fault_from_fields
from fakedev.sim.faults.rules import FaultRules
from fakedev.spec.errors import FieldError, Refused
from fakedev.spec.fleet import WorkloadSpec


def brought_by(
    workload_id: str, spec: WorkloadSpec, rules: FaultRules, key: str = "", *, of_configuration: bool = False
) -> list[Fault]:
    """The faults that come with a workload, not yet among the others; those that its devices cannot have are left out.

    :param key: of the workload's randomness; empty: its id.
    :param of_configuration: every shard is told of it: there may be none of its devices here.
    :raises Refused: when one cannot be; ``where`` is the field at fault.
    """
    found = []
    for number, fields in enumerate(spec.faults, 1):
        try:
            fault = fault_from_fields({**fields, "devices": spec.devices, "node": spec.node})
            made = rules.made(
                f"{workload_id}-{number}", fault, f"{key or workload_id}-{number}", of_configuration=of_configuration
            )
            if len(made.devices):
                found.append(made)
        except Refused as refusal:
            if refusal.where != "devices":
                text = refusal.text if isinstance(refusal, FieldError) else f"{refusal.where}: {refusal.text}"
                raise FieldError("faults", f"fault {number}: {text}") from None
    return found
