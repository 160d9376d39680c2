"""Which requests to the API server fakedev may make, for tests that count them."""

from __future__ import annotations

from collections.abc import Iterable

from fakedev.kubernetes.client.api_paths import PERMISSIONS, Need


def not_allowed(requests: Iterable[tuple[str, str, int]], *needs: Need) -> list[str]:
    """The requests that no Role of etc/kubernetes allows, each once: there they would be answered with 403.

    ::

        assert not_allowed(api.requests, Need.ALWAYS) == []

    :param requests: verb, resource (``nodes/status``) and code, as ``ClusterApi.requests`` counts them.
    :param needs: the parts that are applied: the base has ALWAYS.
    """
    allowed = {(verb, each.resource) for each in PERMISSIONS if each.need in needs for verb in each.verbs}
    return sorted({f"{verb} {resource}" for verb, resource, _ in requests if (verb, resource) not in allowed})
