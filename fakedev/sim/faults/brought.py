"""Faults that a workload brings: on its devices, as long as it runs."""

from __future__ import annotations

from fakedev.sim.errors import FieldError, Refused
from fakedev.sim.faults.faults import Fault, Faults
from fakedev.sim.faults.fields import fault_from_fields
from fakedev.sim.spec import WorkloadSpec


def brought_by(workload_id: str, spec: WorkloadSpec, faults: Faults) -> list[Fault]:
    """The faults that come with a workload, not yet among the others; those that its devices cannot have are left out.

    :raises Refused: when one cannot be; ``where`` is the field at fault.
    """
    found = []
    faults.check_room(len(spec.faults))
    for number, fields in enumerate(spec.faults, 1):
        try:
            fault = fault_from_fields({**fields, "devices": spec.devices, "node": spec.node})
            found.append(faults.made(f"{workload_id}-{number}", fault))
        except Refused as refusal:
            if refusal.where != "devices":
                text = refusal.text if isinstance(refusal, FieldError) else f"{refusal.where}: {refusal.text}"
                raise FieldError("faults", f"fault {number}: {text}") from None
    return found
