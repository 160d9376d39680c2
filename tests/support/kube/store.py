"""The objects of the API server in memory, with resource versions and the history that watches read."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.support.kube.checks import check
from tests.support.kube.kinds import Address, Kind
from tests.support.kube.statuses import conflict, exists, not_found

Item = dict[str, Any]


class Change(NamedTuple):
    """An entry of the history.

    :param word: ADDED, MODIFIED or DELETED.
    :param before: the object before the change; None when it is new.
    """

    version: int
    word: str
    kind: Kind
    item: Item
    before: Item | None


class Store:
    """All objects. Stored objects are never changed in place, so they can be given to readers.

    :param seconds: the time of day, for creationTimestamp.
    :ivar oldest: watches from an older resource version are expired.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.version = 100
        self.oldest = 0
        self.history: list[Change] = []
        self.listeners: list[Callable[[Change], None]] = []
        self._seconds = seconds
        self._items: dict[Kind, dict[tuple[str, str], Item]] = {}

    def all(self, kind: Kind, namespace: str = "") -> list[Item]:
        """The objects of a kind, by namespace and name."""
        held = self._items.get(kind, {})
        return [held[key] for key in sorted(held) if not namespace or key[0] == namespace]

    def get(self, address: Address) -> Item:
        """
        :raises StatusError: 404.
        """
        try:
            return self._items[address.kind][address.namespace, address.name]
        except KeyError:
            raise not_found(address) from None

    def create(self, address: Address, item: Item) -> Item:
        """Add a new object.

        :raises StatusError: when there is one, or it is invalid.
        """
        item = copy.deepcopy(item)
        metadata = item.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self.version + 1:05x}"
        address = Address(address.kind, address.namespace, metadata.get("name", ""))
        if (address.namespace, address.name) in self._items.get(address.kind, {}):
            raise exists(address)
        if address.namespace:
            metadata["namespace"] = address.namespace
        created = datetime.fromtimestamp(self._seconds(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata.setdefault("uid", str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.version}")))
        metadata.setdefault("creationTimestamp", created)
        check(address, item)
        return self._keep(address, "ADDED", item, None)

    def replace(self, address: Address, item: Item, *, is_whole: bool = False) -> Item:
        """Replace an object, or the part of it that a subresource has.

        :param is_whole: replace the object and its status.
        :raises StatusError: when there is none, it has changed since the resource version given, or is invalid.
        """
        before = self.get(address)
        given = item.get("metadata", {}).get("resourceVersion")
        if given and given != before["metadata"]["resourceVersion"]:
            raise conflict(address)
        item = copy.deepcopy(item)
        kept = ("name", "namespace", "uid", "creationTimestamp")
        metadata = item.setdefault("metadata", {})
        metadata.update({key: before["metadata"][key] for key in kept if key in before["metadata"]})
        item["kind"], item["apiVersion"] = before["kind"], before["apiVersion"]
        if address.kind.has_status and not is_whole:
            # Each of the two paths leaves the other part of the object as it is.
            other = "status" if not address.subresource else "spec"
            item.pop(other, None)
            if other in before:
                item[other] = before[other]
        check(address, item)
        metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
        if item == before:
            return before  # the real server writes nothing then
        return self._keep(Address(address.kind, address.namespace, address.name), "MODIFIED", item, before)

    def delete(self, address: Address) -> Item:
        """Remove an object.

        :raises StatusError: when there is none.
        """
        before = self.get(address)
        del self._items[address.kind][address.namespace, address.name]
        return self._note(address.kind, "DELETED", copy.deepcopy(before), before)

    def forget_history(self) -> None:
        """Watches from resource versions before now are expired."""
        self.version += 1
        self.oldest = self.version
        self.history.clear()

    def _keep(self, address: Address, word: str, item: Item, before: Item | None) -> Item:
        item = {"kind": address.kind.name, "apiVersion": address.kind.api_version, **item}
        self._items.setdefault(address.kind, {})[address.namespace, address.name] = item
        return self._note(address.kind, word, item, before)

    def _note(self, kind: Kind, word: str, item: Item, before: Item | None) -> Item:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        change = Change(self.version, word, kind, item, before)
        self.history.append(change)
        for listener in list(self.listeners):
            listener(change)
        return item


def merged(item: Any, patch: Any) -> Any:
    """A JSON value after a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(item) if isinstance(item, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
