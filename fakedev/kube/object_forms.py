"""The form of the objects of the API that are read from files: what the API server has not checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fakedev.spec.errors import FieldError

#: Texts, and quantities of resources, which may be numbers too.
_TEXT: Final = (str,)
_QUANTITY: Final = (str, int, float)


class _Every:
    """An object whose values all have one form, whatever their names."""

    def __init__(self, form: Any) -> None:
        self.form = form


_TEXTS: Final = _Every(_TEXT)
_QUANTITIES: Final = _Every(_QUANTITY)
_METADATA: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"), _TEXT),
    "labels": _TEXTS,
    "annotations": _TEXTS,
}
_CONTAINERS: Final = [
    {
        "name": _TEXT,
        "restartPolicy": _TEXT,
        "resources": {
            "limits": _QUANTITIES, "requests": _QUANTITIES, "claims": [{"name": _TEXT, "request": _TEXT}],
        },
    }
]  # fmt: skip
_CLAIMS: Final = [{"name": _TEXT, "resourceClaimName": _TEXT}]
#: What is read of each kind: objects with these fields, lists of one form, values of these types. Others are ignored.
FORMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "Node": {
        "kind": _TEXT,
        "metadata": _METADATA,
        "spec": {"taints": [{"key": _TEXT, "effect": _TEXT, "value": _TEXT}]},
        "status": {
            "capacity": _QUANTITIES, "allocatable": _QUANTITIES, "conditions": [{"type": _TEXT, "status": _TEXT}],
        },
    },
    "Pod": {
        "kind": _TEXT,
        "metadata": _METADATA,
        "spec": {
            "nodeName": _TEXT, "containers": _CONTAINERS, "initContainers": _CONTAINERS, "resourceClaims": _CLAIMS,
        },
        "status": {
            "phase": _TEXT,
            "startTime": _TEXT,
            "resourceClaimStatuses": _CLAIMS,
            "extendedResourceClaimStatus": {
                "resourceClaimName": _TEXT,
                "requestMappings": [{"containerName": _TEXT, "resourceName": _TEXT, "requestName": _TEXT}],
            },
        },
    },
}  # fmt: skip


def checked(item: object, kind: str) -> dict[str, Any]:
    """An object of a kind, without fields that are null.

    :raises FieldError: with the path of what has another form, or is missing.
    """
    found = _checked(item, FORMS[kind], "")
    if not found.get("metadata", {}).get("name"):
        raise FieldError("metadata.name", "missing")
    if found.get("kind", kind) != kind:
        raise FieldError("kind", f"is {str(found['kind'])[:40]}, and not {kind}")
    return dict(found)


def _checked(value: Any, form: Any, path: str) -> Any:
    if isinstance(form, tuple):
        # True is an int for Python.
        if not isinstance(value, form) or isinstance(value, bool):
            raise FieldError(path, "must be a text" if form == _TEXT else "must be a quantity")
        return value
    if isinstance(form, list):
        if not isinstance(value, list):
            raise FieldError(path, "must be a list")
        items = [_checked(each, form[0], f"{path}[{place}]") for place, each in enumerate(value)]
        for place, each in enumerate(items):
            if "name" in form[0] and "name" not in each:
                raise FieldError(f"{path}[{place}].name", "missing")
        return items
    if not isinstance(value, dict):
        raise FieldError(path or "it", "must be an object")
    found = {}
    for name, each in value.items():
        of_name = form.form if isinstance(form, _Every) else form.get(name)
        if each is not None:
            where = f"{path}.{name[:100]}" if path else name[:100]
            found[name] = each if of_name is None else _checked(each, of_name, where)
    return found
