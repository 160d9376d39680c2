"""The pods of a cluster: their devices, resource claims, and the work that the fleet begins and ends for them.

Pods get their devices by the rules of a kubelet, by the report of a kubelet, or by resource claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from fakedev.base.errors import FieldError, Refused
from fakedev.fleet.events import Where
from fakedev.fleet.spec.offers import KubernetesSettings, Resources, Struck
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.kubernetes.devices.dra import CHANNEL_DRIVER, DRIVER, Claim, claimed_devices
from fakedev.kubernetes.devices.health import NodeHealth
from fakedev.kubernetes.devices.node_ledger import ContainerIds, Grant, NotEnough, recorded_ids, recorded_text
from fakedev.kubernetes.nodes.node_table import NodeTable
from fakedev.kubernetes.nodes.node_view import Allocation, PreparedDevice
from fakedev.kubernetes.nodes.simulated_node import ClusterNode
from fakedev.kubernetes.pods import Pod
from fakedev.kubernetes.workloads.kubelet_reports import KubeletReports
from fakedev.kubernetes.workloads.pod_record import PodKey, PodRecord, WorkKey
from fakedev.kubernetes.workloads.work import work_of


@dataclass(frozen=True)
class WorkChange:
    """What the fleet is to run for a container.

    :param spec: None: nothing any more.
    """

    key: WorkKey
    spec: WorkloadSpec | None


#: Reports something of a pod: reason and message of an Event.
ReportOfPod = Callable[[PodRecord, str, str], None]


class PodTable:
    """The pods that want devices, with the claims that they use and the reports of their kubelets.

    :param report: called with what a pod does not get, and what of it cannot be read.
    :ivar has_more_work: whether the last :meth:`take_work` left pods for the next one.
    :ivar changed: the pods whose work may have to change.
    :ivar evictions: the pods that must be evicted.
    :ivar unrecorded: the devices of pods, by UID, that their annotations do not have yet.
    """

    def __init__(self, settings: KubernetesSettings, nodes: NodeTable, report: ReportOfPod) -> None:
        self._settings, self._nodes, self._report = settings, nodes, report
        self._pods: dict[PodKey, PodRecord] = {}
        #: The pods bound to each node, also to nodes that are not simulated (yet), in order of arrival.
        self._bound: dict[str, dict[PodKey, None]] = {}
        self._claims: dict[PodKey, Claim] = {}
        #: The claims with channels of a ComputeDomain.
        self.channels: dict[PodKey, Claim] = {}
        #: The pods that use each claim.
        self._users: dict[PodKey, dict[PodKey, None]] = {}
        #: The claims that have devices of each node.
        self._claims_on: dict[str, dict[PodKey, None]] = {}
        #: The lists that are awaited before pods get devices that no record has.
        self._awaited: set[str] = set()
        self._to_record: dict[PodKey, None] = {}
        self._reports = KubeletReports()
        self.changed: dict[PodKey, None] = {}
        self.evictions: dict[PodKey, None] = {}
        self.unrecorded: dict[str, ContainerIds] = {}
        self.has_more_work = False

    # -- pods -------------------------------------------------------------------------------------

    def list_pods(self, pods: Iterable[Pod]) -> Iterator[None]:
        """These are all pods of the cluster; one pod in each step."""
        found = {(pod.namespace, pod.name): pod for pod in pods if pod.node and pod.wants_devices}
        for key in [key for key, record in self._pods.items() if key not in found and not record.is_gone]:
            self.remove(*key)
        # Those of one node get their devices in the order in which they started, whatever the order of the list; what
        # is recorded comes first.
        order = sorted(found.values(), key=lambda pod: (pod.started or "~", pod.namespace, pod.name))
        for pod in sorted(order, key=lambda pod: not pod.devices):
            self.put(pod)
            yield
        uids = {pod.uid for pod in found.values()}
        for uid in [uid for uid in self._nodes.remembered if uid not in uids]:
            del self._nodes.remembered[uid]
        yield from self._listed("pods")

    def await_lists(self) -> None:
        """Another fakedev may have given devices to pods: nobody gets any before there are new lists."""
        self._awaited = {"pods", "claims"} if self._settings.resources is not Resources.DEVICE_PLUGIN else {"pods"}
        for node in self._nodes:
            if not node.has_kubelet:
                self._nodes.remembered |= node.ledger.take_all()
                node.lacking |= self._bound.get(node.name, {})
                node.denied.clear()
        self._to_record.clear()
        self.unrecorded.clear()

    @property
    def is_waiting(self) -> bool:
        """Whether lists are awaited: it is not known yet which pods have devices."""
        return bool(self._awaited)

    def _listed(self, what: str) -> Iterator[None]:
        """A list is complete; after the last one pods get their devices, one node in each step."""
        if self._awaited:
            self._awaited.discard(what)
            for node in list(self._nodes) if not self._awaited else ():
                self._reconcile(node)
                yield

    def _reconcile(self, node: ClusterNode) -> None:
        """Fill the ledger of a node: with what is recorded, then with claims, then with pods that have nothing."""
        keys = [*self._bound.get(node.name, ())]
        if node.has_kubelet:
            self._take_report(node, is_first=True)
        for key in keys:
            record = self._pods[key]
            if not (node.has_kubelet or record.is_gone or record.pod.is_over):
                self._restore(record, node)
        self._grant([*self._claims_on.get(node.name, ())])
        self._divide(node)
        self._place(keys)

    def put(self, pod: Pod) -> None:
        """A pod is new, or has changed."""
        if not pod.node or not pod.wants_devices:
            return
        key = (pod.namespace, pod.name)
        known = self._pods.get(key)
        if known is None:
            self._pods[key] = PodRecord(pod)
        elif known.pod.uid != pod.uid or known.is_gone:
            self._release(known)
            record = self._pods[key] = PodRecord(pod)
            record.running = known.running  # another pod of the same name: its work changes from that of the old one
        elif not known.update(pod):
            return
        self._bound.setdefault(pod.node, {})[key] = None
        self._place([key])

    def remove(self, namespace: str, name: str) -> None:
        record = self._pods.get((namespace, name))
        if record is not None:
            self._release(record)
            record.is_gone = True
            self.changed[record.key] = None

    def uid_of(self, namespace: str, name: str) -> str:
        """The UID of a pod; empty when it is not known."""
        record = self._pods.get((namespace, name))
        return record.pod.uid if record is not None else ""

    def on_nodes(self) -> Iterator[tuple[Pod, ClusterNode]]:
        for record in self._pods.values():
            node = self._nodes.get(record.pod.node)
            if node is not None and not record.is_gone:
                yield record.pod, node

    # -- nodes ------------------------------------------------------------------------------------

    def node_joined(self, name: str) -> None:
        """A node is simulated now, or has other devices."""
        keys = [*self._bound.get(name, ())]
        for key in keys:
            self._pods[key].work_again()
        node = self._nodes.get(name)
        if node is not None:
            self._reconcile(node)

    def node_left(self, name: str) -> None:
        self.changed.update(self._bound.get(name, {}))

    def reported(self, node: str, allocations: Sequence[Allocation], starting: Sequence[str] = ()) -> None:
        """The devices of all containers of a node, as its kubelet lists them.

        :param starting: the ids of devices that containers were given since then.
        """
        is_first = node not in self._reports
        self._reports.take(node, allocations, starting)
        found = self._nodes.get(node)
        if found is not None and found.has_kubelet:
            self._take_report(found, is_first=is_first)
        else:
            self._place([*self._bound.get(node, ())])

    def _take_report(self, node: ClusterNode, *, is_first: bool) -> None:
        """Fill the ledger with what the kubelet of a node reports.

        :param is_first: claims that no container has yet come last.
        """
        keys, claims = [*self._bound.get(node.name, ())], [*self._claims_on.get(node.name, ())]
        for claim in {*claims} - self._reports.used_claims(node.name) if is_first else ():
            node.ledger.unclaim(Claim(*claim).holder)
        for key in keys:
            node.ledger.release(self._pods[key].pod.uid)  # what one pod had another one may have now
        self._place(keys)
        node.ledger.reserve(node.ledger.slots_named(self._reports.ids_without_pod(node.name, self._pods)))
        self._ledger_changed(node)
        if is_first or node.denied:
            self._grant(claims)
            self._place(keys)

    def reserve(self, node: ClusterNode, ids: Sequence[str]) -> None:
        """Keep claims from devices that a kubelet is about to give to containers, until its next report.

        :raises Refused: ``unknown-name`` for a device that the node does not have; ``busy``, when a claim has one, or
            as long as the claims and what the kubelet has given are not known.
        """
        slots = node.ledger.slots_named(ids)
        if len(slots) < len(ids):
            raise Refused("unknown-name", f"node {node.name} does not have all of {', '.join(ids)}"[:300], "ids")
        if self._awaited or node.name not in self._reports:
            raise Refused("busy", f"it is not known yet who has which devices of {node.name}", "ids")
        claimed = node.ledger.reserve([*node.ledger.reserved, *slots])
        if claimed is not None:
            raise Refused("busy", self._in_the_way(node.name, claimed), "ids")
        self._ledger_changed(node)

    def forget_reports(self, node: str) -> None:
        self._reports.forget(node)

    def health_changed(self, node: ClusterNode, before: NodeHealth) -> None:
        """The health of a node's devices has changed: work begins again, or pods are evicted."""
        health = node.health
        became = [device_id for device_id in health.unhealthy if device_id not in before.unhealthy]
        healed = [device_id for device_id in before.unhealthy if device_id not in health.unhealthy]
        is_back = before.is_down and not health.is_down
        for key in self._bound.get(node.name, ()):
            record = self._pods[key]
            if is_back or (healed and record.has_any(node, healed)):
                record.work_again()
                self.changed[key] = None
            if became and self._settings.struck is Struck.EVICT and record.is_there and record.has_any(node, became):
                self.evictions[key] = None
                self._report(record, "Evicting", f"a device of it on {node.name} has failed: it is evicted")
        if healed:
            self._place_lacking(node.name)

    # -- claims -----------------------------------------------------------------------------------

    def list_claims(self, claims: Iterable[Claim]) -> Iterator[None]:
        found = {(claim.namespace, claim.name): claim for claim in claims}
        for key in [key for key in self._claims if key not in found]:
            self.remove_claim(*key)
        for claim in found.values():
            self.put_claim(claim)
            yield
        yield from self._listed("claims")

    def put_claim(self, claim: Claim) -> None:
        key = (claim.namespace, claim.name)
        before = self._claims.get(key)
        if before != claim:
            self._claims[key] = claim
            self.channels.pop(key, None)
            if claim.domain:
                self.channels[key] = claim
            self._claim_changed(key, before, claim)

    def remove_claim(self, namespace: str, name: str) -> None:
        before = self._claims.pop((namespace, name), None)
        self.channels.pop((namespace, name), None)
        if before is not None:
            self._claim_changed((namespace, name), before, None)

    def _claim_changed(self, key: PodKey, before: Claim | None, now: Claim | None) -> None:
        """The ledgers of the nodes whose devices it has, or had, have it too."""
        for claim in (before, now):
            for node in {each.pool for each in claim.results if each.driver == DRIVER} if claim is not None else ():
                self._claims_on.setdefault(node, {})[key] = None
        for node in [name for name, keys in self._claims_on.items() if key in keys]:
            if now is None or not now.devices_on(node):
                del self._claims_on[node][key]
                if not self._claims_on[node]:
                    del self._claims_on[node]
                found = self._nodes.get(node)
                if found is not None:
                    found.denied.pop(key, None)
                    if before is not None and found.ledger.unclaim(before.holder):
                        self._freed(found)
                    self._divide(found)
        self._grant([key])
        self._place([*self._users.get(key, ())])

    def _grant(self, keys: Iterable[PodKey]) -> None:
        """Grant claims their devices in the ledgers of their nodes, unless others hold one of them."""
        for key in keys if not self._awaited else ():
            claim = self._claims.get(key, Claim(*key))
            for name in {result.pool for result in claim.results if result.driver == DRIVER}:
                node = self._nodes.get(name)
                if node is None:
                    continue
                slots = [node.dra_slots[device] for device in claim.devices_on(name) if device in node.dra_slots]
                holder = node.ledger.claim(claim.holder, slots, claim.allocated, is_shared=claim.is_shared)
                if holder is None:
                    node.denied.pop(key, None)
                else:
                    node.denied[key] = holder
                self._divide(node)
                self._ledger_changed(node)

    def _divide(self, node: ClusterNode) -> None:
        """Have the instances that claims have on a node."""
        if node.is_partitionable and not self._awaited:
            claims = [self._claims[key] for key in self._claims_on.get(node.name, ()) if key in self._claims]
            self._nodes.claims_changed(node, {name for claim in claims for name in claim.devices_on(node.name)})

    def prepared(self, node: str, namespace: str, name: str, uid: str) -> Sequence[PreparedDevice]:
        """The devices of a node that a claim has.

        :param uid: of the claim: another one of the same name may have been known before.
        :raises Refused: ``bad-argument``, when its parameters are wrong; ``unknown-name``, when the claim or its
            allocation is not known (yet); ``busy``, when another pod has one of the devices.
        """
        claim = self._claims.get((namespace, name))
        results = claim.results if claim is not None and claim.uid == uid else ()
        found = [result for result in results if result.driver in (DRIVER, CHANNEL_DRIVER) and result.pool == node]
        on = self._nodes.get(node)
        domain = claim.domain if claim is not None else ""
        if domain and on is not None and not (on.domain == domain and on.is_imex_ready):
            raise Refused("busy", "claim: the IMEX daemon of the node is not ready yet", "claim")
        names = {result.device for result in found}
        if on is not None and any(not device.is_made for device in on.dra_devices if device.name in names):
            raise Refused("busy", "claim: a board of it is being divided", "claim")
        has_both = self._settings.resources is Resources.BOTH
        if on is not None and has_both and on.has_kubelet and node not in self._reports:
            raise Refused("busy", f"claim: it is not known yet what the kubelet of {node} has given", "claim")
        if on is not None and (namespace, name) in on.denied:
            raise Refused("busy", f"claim: {self._in_the_way(node, on.denied[namespace, name])}", "claim")
        if not found:
            text = f"claim: no {namespace}/{name} with uid {uid} is allocated on {node}"
            raise Refused("unknown-name", text, "claim")
        slots = on.dra_slots if on is not None else {}
        devices = {dra_device.name: dra_device for dra_device in on.dra_devices} if on is not None else {}
        try:
            for result in found:
                if claim is not None and result.device in devices:
                    claim.sharing(result, devices[result.device])
        except FieldError as wrong:
            raise Refused("bad-argument", f"claim: {wrong.text}", "claim") from None
        return [
            PreparedDevice(
                each.request, each.pool, each.device, slots[each.device].id if each.device in slots else "", each.share
            )
            for each in found
        ]

    # -- devices ----------------------------------------------------------------------------------

    def _in_the_way(self, node: str, grant: Grant) -> str:
        pods = (key for key in self._bound.get(node, ()) if self._pods[key].pod.uid == grant.holder)
        holder = next((f"pod {'/'.join(key)}" for key in pods), grant.holder)
        return f"{grant.slot.device_id} has been given to {holder} by {grant.by.value}"

    def _place(self, keys: Iterable[PodKey]) -> None:
        """Give pods their devices, or find out which they were given."""
        for key in keys:
            record = self._pods.get(key)
            if record is None or record.is_gone:
                continue
            self.changed[key] = None
            node = self._nodes.get(record.pod.node)
            if node is None:
                continue
            if record.pod.is_over:
                self._take_back(record, node)
                continue
            for claim in record.pod.claims.values():
                self._users.setdefault((record.pod.namespace, claim), {})[key] = None
            if record.work is None or record.worked_for is not node.pool:
                record.work, record.worked_for = work_of(record.pod, self._settings, node.pool), node.pool
                for problem in record.work.problems:
                    self._report(record, "UnreadableAnnotation", problem)
            if record.pod.claims:
                own = [(record.pod.namespace, name) for name in record.pod.claims.values()]
                granted = {key: self._claims[key] for key in own if key in self._claims and key not in node.denied}
                record.claimed = claimed_devices(record.pod, node.name, node.dra_devices, granted)
                for denied in filter(node.denied.__contains__, own):
                    text = f"claim {'/'.join(denied)} waits: {self._in_the_way(node.name, node.denied[denied])}"
                    self._report(record, "DeviceTaken", text)
                for reason, problem in record.claimed.problems:
                    self._report(record, reason, problem)
            if node.has_kubelet:
                self._adopt(record, node)
            else:
                self._admit(record, node)
            self._ledger_changed(node)

    def _admit(self, record: PodRecord, node: ClusterNode) -> None:
        pod = record.pod
        if self._awaited:
            node.lacking[record.key] = None
            return
        try:
            if not self._restore(record, node):
                # A pod that runs already was given its devices when they were healthy.
                node.ledger.admit(pod, () if pod.phase == "Running" else node.health.unhealthy.keys())
            self._nodes.remembered.pop(pod.uid, None)
            node.lacking.pop(record.key, None)
            self._note_devices(record, node)
        except NotEnough as lack:
            node.lacking[record.key] = None
            self._report(record, "UnexpectedAdmissionError", str(lack))

    def _restore(self, record: PodRecord, node: ClusterNode) -> bool:
        """Give a pod the devices that it had: as its annotation is still to say, as it says, or as is remembered."""
        pod = record.pod
        remembered = self._nodes.remembered.get(pod.uid, {})
        known_ids = self.unrecorded.get(pod.uid, {}), recorded_ids(pod.devices), remembered
        return not self._awaited and any(node.ledger.restore(pod, ids) for ids in known_ids)

    def _note_devices(self, record: PodRecord, node: ClusterNode) -> None:
        """Have the devices of a pod recorded in its annotation, if they are not."""
        ids = node.ledger.ids_of(record.pod.uid)
        text = recorded_text(ids)
        # An event may be older than the record.
        if not ids or text == record.pod.devices or (not record.pod.devices and record.recorded == text):
            self.unrecorded.pop(record.pod.uid, None)
            self._to_record.pop(record.key, None)
        else:
            self.unrecorded[record.pod.uid] = ids
            self._to_record[record.key] = None

    def _ledger_changed(self, node: ClusterNode) -> None:
        """What one mechanism has given the other one does not offer."""
        if node.offered_version != node.ledger.version:
            node.offered_version = node.ledger.version
            if self._settings.resources is Resources.BOTH:
                for waiting in (self._nodes.changed, self._nodes.viewed, self._nodes.sliced):
                    waiting[node.name] = None

    def _adopt(self, record: PodRecord, node: ClusterNode) -> None:
        unknown, taken = node.ledger.adopt(record.pod, self._reports.containers(node.name, record.key))
        for each_id in unknown:
            self._report(record, "UnknownDevice", f"the kubelet of {node.name} gave it {each_id}, which is unknown")
        for grant in taken:
            node.lacking[record.key] = None
            self._report(record, "DeviceTaken", self._in_the_way(node.name, grant))
        if not taken:
            node.lacking.pop(record.key, None)

    def _release(self, record: PodRecord) -> None:
        """A pod is gone: so is all that was kept for it but its work."""
        bound = self._bound.get(record.pod.node, {})
        bound.pop(record.key, None)
        if not bound:
            self._bound.pop(record.pod.node, None)
        self.evictions.pop(record.key, None)
        for claim in record.pod.claims.values():
            users = self._users.get((record.pod.namespace, claim), {})
            users.pop(record.key, None)
            if not users:
                self._users.pop((record.pod.namespace, claim), None)
        node = self._nodes.get(record.pod.node)
        if node is not None:
            self._take_back(record, node)

    def _take_back(self, record: PodRecord, node: ClusterNode) -> None:
        self._nodes.remembered.pop(record.pod.uid, None)
        self.unrecorded.pop(record.pod.uid, None)
        node.lacking.pop(record.key, None)
        if node.ledger.release(record.pod.uid):
            self._freed(node)

    def _freed(self, node: ClusterNode) -> None:
        """Devices are free: who was denied them gets them, claims first."""
        denied = [*node.denied]
        self._grant(denied)
        self._place(user for key in denied if key not in node.denied for user in [*self._users.get(key, ())])
        self._place_lacking(node.name)
        self._ledger_changed(node)

    def _place_lacking(self, name: str) -> None:
        """Devices may be free now: give them to the pods of a node that lack some, in order of arrival."""
        node = self._nodes.get(name)
        if node is not None:
            self._place(list(node.lacking))

    # -- records ----------------------------------------------------------------------------------

    def take_records(self, most: int) -> list[tuple[Pod, str]]:
        """Pods whose devices must be recorded, up to a limit, with the text of their annotation."""
        taken: list[tuple[Pod, str]] = []
        for key in list(islice(self._to_record, most)):
            del self._to_record[key]
            record = self._pods.get(key)
            ids = self.unrecorded.get(record.pod.uid) if record is not None and record.is_there else None
            if record is not None and ids is not None:
                taken.append((record.pod, recorded_text(ids)))
        return taken

    def recorded(self, pod: Pod, text: str, *, is_taken: bool) -> None:
        """The API server has taken an annotation, or not: then it must be written again.

        :param pod: as it was when its annotation was taken from here.
        """
        record = self._pods.get((pod.namespace, pod.name))
        if record is None or record.pod.uid != pod.uid or pod.uid not in self.unrecorded:
            return
        if is_taken:
            record.recorded = text
        if is_taken and recorded_text(self.unrecorded[pod.uid]) == text:
            del self.unrecorded[pod.uid]
        else:
            self._to_record[record.key] = None

    @property
    def only_here(self) -> Mapping[str, ContainerIds]:
        """The devices of pods, by UID, that the cluster does not have yet, or that are not given again yet."""
        return {**self._nodes.remembered, **self.unrecorded}

    @property
    def has_records(self) -> bool:
        """Whether :meth:`take_records` has any."""
        return bool(self._to_record)

    # -- work -------------------------------------------------------------------------------------

    def ended(self, key: WorkKey, code: int, text: str = "") -> float:
        """The work of a container has ended in the fleet: it idles, after a failure until its devices are healthy.

        :param text: why.
        :returns: seconds after which to call :meth:`again`; 0: not at all.
        """
        record = self._pods.get(key[:2])
        if record is None:
            return 0.0
        self.changed[record.key] = None
        if code:
            self._report(record, "WorkFailed", f"container {key[2]}: {text}; it is tried again")
        return record.ended(key[2], code)

    def refused(self, key: WorkKey, reason: str) -> None:
        """The fleet does not run the work of a container."""
        record = self._pods.get(key[:2])
        if record is not None:
            record.running.pop(key[2], None)
            self._report(record, "NotSimulated", f"container {key[2]}: {reason}")

    def again(self, namespace: str, name: str) -> None:
        """Try once more what was refused, or has failed; work does not begin on devices that are unhealthy."""
        record = self._pods.get((namespace, name))
        if record is None:
            return
        node = self._nodes.get(record.pod.node)
        if node is not None and not node.health.is_down and not record.has_any(node, node.health.unhealthy):
            record.struck.clear()
        self.changed[record.key] = None

    def take_work(self, is_there: Callable[[str, Where], bool], most: int) -> Sequence[WorkChange]:
        """The changes of pods, up to a limit: what ends first.

        :param is_there: whether the fleet has a node in a pool, with boards divided like this, by now; pods of others
            wait, and what they did ends.
        """
        ends: list[WorkChange] = []
        starts: list[WorkChange] = []
        count = 0
        self.has_more_work = False
        for key in [*self.changed]:
            record = self._pods[key]
            node = None if record.is_gone else self._nodes.get(record.pod.node)
            if node is not None and self._awaited and key in node.lacking:
                continue  # what runs goes on until it is known which devices it has
            is_waiting = node is not None and not is_there(node.name, (node.pool.name, node.pool.layout))
            if is_waiting and not record.running:
                continue
            if count == most:
                self.has_more_work = True
                break
            # Pods of nodes that are not simulated are many in some clusters, and cost nothing.
            count += bool(record.running) or node is not None
            before, record.running = record.running, {} if node is None or is_waiting else record.work_on(node)
            ends += [WorkChange((*key, name), None) for name in before if before[name] != record.running.get(name)]
            starts += [
                WorkChange((*key, name), spec) for name, spec in record.running.items() if before.get(name) != spec
            ]
            if not is_waiting:
                del self.changed[key]
            if record.is_gone:
                del self._pods[key]
        return [*ends, *starts]

    def take_evictions(self) -> Sequence[Pod]:
        taken = [self._pods[key].pod for key in self.evictions]
        self.evictions.clear()
        return taken

    def evict_again(self, pod: Pod) -> None:
        """A pod could not be evicted: try again, if its devices are still unhealthy."""
        record, node = self._pods.get((pod.namespace, pod.name)), self._nodes.get(pod.node)
        if record is None or node is None or record.pod.uid != pod.uid or not record.is_there:
            return
        if record.has_any(node, node.health.unhealthy):
            self.evictions[record.key] = None
