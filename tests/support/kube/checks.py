"""What the API server in memory refuses of an object: what the real one refuses of the objects that fakedev writes."""

from __future__ import annotations

import re
from typing import Any

from tests.support.kube.kinds import Address
from tests.support.kube.statuses import StatusError, invalid

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_WHOLE = re.compile(r"\d+(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character"
)


def check(address: Address, item: dict[str, Any]) -> None:
    """
    :raises StatusError: 422 with the field, or 400 for a value of the wrong type.
    """
    metadata = item["metadata"]
    if not _NAME.fullmatch(metadata.get("name", "")):
        why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        raise invalid(address, "metadata.name", metadata.get("name", ""), why)
    for field in ("labels", "annotations"):
        for key, value in (metadata.get(field) or {}).items():
            if not isinstance(value, str):
                why = f"cannot unmarshal {type(value).__name__} into Go struct field ObjectMeta.metadata.{field}"
                raise StatusError(400, "BadRequest", f"{address.kind.name} in version: json: {why} of type string")
            if not _LABEL_KEY.fullmatch(key):
                raise invalid(address, f"metadata.{field}", key, "name part must consist of alphanumeric characters")
            if field == "labels" and not _LABEL_VALUE.fullmatch(value):
                raise invalid(address, "metadata.labels", value, _LABEL_RULE)
    if address.kind.resource == "nodes":
        _check_node(address, item)
    if address.kind.resource == "resourceslices":
        _check_slice(address, item)


def _check_node(address: Address, item: dict[str, Any]) -> None:
    for field in ("capacity", "allocatable"):
        for name, quantity in (item.get("status", {}).get(field) or {}).items():
            # Extended resources have the name of their maker in them.
            if "/" in name and not _WHOLE.fullmatch(str(quantity)):
                raise invalid(address, f"status.{field}[{name}]", str(quantity), "must be an integer")


def _check_slice(address: Address, item: dict[str, Any]) -> None:
    devices = item.get("spec", {}).get("devices") or []
    most = 64 if any("taints" in each or "consumesCounters" in each for each in devices) else 128
    if len(devices) > most:
        raise invalid(address, "spec.devices", str(len(devices)), f"must have at most {most} items")
