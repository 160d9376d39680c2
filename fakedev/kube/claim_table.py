"""The resource claims of a cluster, and which pods use them."""

from __future__ import annotations

from collections.abc import Iterable

from fakedev.kube.cluster_node import ClusterNode
from fakedev.kube.dra_claims import Claim, ClaimedDevices, claimed_devices
from fakedev.kube.dra_devices import DRIVER
from fakedev.kube.node_view import PreparedDevice
from fakedev.kube.pods import Pod
from fakedev.spec.errors import Refused

#: Namespace and name of a pod or of a claim.
Key = tuple[str, str]


class ClaimTable:
    """Claims by namespace and name."""

    def __init__(self) -> None:
        self._claims: dict[Key, Claim] = {}
        self._users: dict[Key, dict[Key, None]] = {}

    def listed(self, claims: Iterable[Claim]) -> set[Key]:
        """These are all claims; the pods that use those that have changed."""
        found = {(claim.namespace, claim.name): claim for claim in claims}
        gone = [key for key in self._claims if key not in found]
        return {pod for key in gone for pod in self.remove(*key)} | {
            pod for claim in found.values() for pod in self.put(claim)
        }

    def put(self, claim: Claim) -> list[Key]:
        """A claim is new, or has changed; the pods that use it."""
        key = (claim.namespace, claim.name)
        if self._claims.get(key) == claim:
            return []
        self._claims[key] = claim
        return list(self._users.get(key, ()))

    def remove(self, namespace: str, name: str) -> list[Key]:
        """A claim is there no more; the pods that used it."""
        if self._claims.pop((namespace, name), None) is None:
            return []
        return list(self._users.get((namespace, name), ()))

    def note_pod(self, pod: Pod) -> None:
        """A pod uses the claims that it names."""
        for claim in pod.claims.values():
            self._users.setdefault((pod.namespace, claim), {})[pod.namespace, pod.name] = None

    def forget_pod(self, pod: Pod) -> None:
        """A pod uses no claims any more."""
        for claim in pod.claims.values():
            users = self._users.get((pod.namespace, claim), {})
            users.pop((pod.namespace, pod.name), None)
            if not users:
                self._users.pop((pod.namespace, claim), None)

    def devices_of(self, pod: Pod, node: ClusterNode) -> ClaimedDevices:
        """What a pod has by its claims."""
        return claimed_devices(pod, node.name, node.dra_devices, self._claims)

    def prepared(self, node: str, namespace: str, name: str, uid: str) -> list[PreparedDevice]:
        """The devices of a node that a claim has.

        :param uid: of the claim: another one of the same name may have been known before.
        :raises Refused: ``unknown-name``, when the claim or its allocation is not known (yet).
        """
        claim = self._claims.get((namespace, name))
        results = claim.results if claim is not None and claim.uid == uid else ()
        found = [each for each in results if each.driver == DRIVER and each.pool == node]
        if not found:
            text = f"claim: no {namespace}/{name} with uid {uid} is allocated on {node}"
            raise Refused("unknown-name", text, "claim")
        return [PreparedDevice(each.request, each.pool, each.device) for each in found]
