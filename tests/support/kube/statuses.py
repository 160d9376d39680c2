"""The errors of an API server: objects of the kind Status, with the messages of the real one."""

from __future__ import annotations

from typing import Any

from tests.support.kube.kinds import Address

USER = "system:serviceaccount:fakedev:fakedev"


class StatusError(Exception):
    """An answer that is an error.

    :param headers: of the answer, as ``Retry-After``.
    :param text: a body that is no JSON; empty: the Status.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        text: str = "",
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details = details or {}
        self.headers = headers or {}
        self.text = text

    @property
    def status(self) -> dict[str, Any]:
        """The object of the kind Status."""
        return {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "reason": self.reason, "details": self.details, "code": self.code,
        }  # fmt: skip


def _details(address: Address) -> dict[str, Any]:
    details = {"name": address.name, "group": address.kind.group, "kind": address.kind.resource}
    return {key: value for key, value in details.items() if value}


def not_found(address: Address) -> StatusError:
    """404."""
    return StatusError(404, "NotFound", f'{address.kind.shown} "{address.name}" not found', _details(address))


def no_such_resource() -> StatusError:
    """404 for a path that names nothing."""
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def exists(address: Address) -> StatusError:
    """409 when an object is created again."""
    message = f'{address.kind.shown} "{address.name}" already exists'
    return StatusError(409, "AlreadyExists", message, _details(address))


def conflict(address: Address) -> StatusError:
    """409 when an object has changed meanwhile."""
    message = (
        f'Operation cannot be fulfilled on {address.kind.shown} "{address.name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return StatusError(409, "Conflict", message, _details(address))


def forbidden(verb: str, address: Address) -> StatusError:
    """403, with verb, resource, namespace and user."""
    scope = f'in the namespace "{address.namespace}"' if address.namespace else "at the cluster scope"
    name = f' "{address.name}"' if address.name else ""
    message = (
        f'{address.kind.shown}{name} is forbidden: User "{USER}" cannot {verb} resource "{address.resource}" '
        f'in API group "{address.kind.group}" {scope}'
    )
    return StatusError(403, "Forbidden", message, _details(address))


def invalid(address: Address, field: str, value: str, why: str) -> StatusError:
    """422, with the field that is wrong."""
    fault = f'Invalid value: "{value}": {why}'
    message = f'{address.kind.name} "{address.name}" is invalid: {field}: {fault}'
    causes = [{"reason": "FieldValueInvalid", "message": fault, "field": field}]
    return StatusError(422, "Invalid", message, {**_details(address), "kind": address.kind.name, "causes": causes})


def expired(message: str) -> StatusError:
    """410: list anew."""
    return StatusError(410, "Expired", message)
