"""``fakedev faults --show``: every sign of one fault, a minute after it strikes a busy board."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from fakedev.base.console import write_text
from fakedev.base.errors import FieldError, Refused, printable
from fakedev.commands.alert_rules import board_of
from fakedev.commands.reach import write_json
from fakedev.exporters.identity import Identity
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.samples import read_page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.events import InjectFault
from fakedev.fleet.faults.page_faults import PageFaults
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.links.link_levels import link_history
from fakedev.fleet.spec.fault_kinds import KINDS, Scope, fault_from_fields
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.fleet.spec.offers import KubernetesSettings
from fakedev.fleet.spec.rack_spec import RackKind
from fakedev.fleet.verbs import WORKLOAD_GRAMMAR
from fakedev.kubernetes.devices.health import HealthWatch, NodeHealth
from fakedev.kubernetes.devices.offered_devices import NodeDevices
from fakedev.kubernetes.devices.resource_slices import taint_of
from fakedev.kubernetes.nodes.node_status import KWOK_NODE, reports_of_health
from fakedev.kubernetes.nodes.simulated_node import ClusterNode
from fakedev.lines.grammar import ProtocolError
from fakedev.lines.words import parse_words
from fakedev.nvml.amd_errors import afid_of
from fakedev.nvml.board_errors import BoardErrors
from fakedev.nvml.chosen_boards import AMD
from fakedev.nvml.image import SlotImage
from fakedev.nvml.kernel_log import KernelLog, xids_of_tick
from fakedev.nvml.records import ABSENT, BOARD, head_of
from fakedev.scenario.rules.trials import BEGIN_SECONDS, TICK_SECONDS, Trial, trial_configuration
from fakedev.schema.options import Failed

_SECONDS: Final = 60
_NODE: Final = "trial-0"
_OF_RACKS: Final = "gb200"
_NVML: Final = "NVML and nvidia-smi"
#: The programs of other vendors' drivers.
_DRIVERS: Final = {"AMD": "amdsmi and amd-smi", "Intel(R) Corporation": "xpu-smi, which is not simulated"}
#: Of a node that KWOK has filled.
_STATUS: Final = {"allocatable": {"cpu": "96"}, "conditions": [{"type": "Ready", "status": "True"}]}
#: Of more series that are gone only the number is shown.
_MOST_GONE: Final = 5


@dataclass
class Seen:
    """A node of two boards at work, and what is shown of it."""

    fleet: Fleet
    identity: Identity
    page: Page[RosterNode]

    def samples(self) -> dict[str, object]:
        """The numbers of the page by series: each with the label that numbers boards, and those that not all have."""
        common = self.identity.labels
        numbering = next((label for label in common if "index" in label.value), common[0] if common else None)
        usual = {label.name for label in common if label is not numbering}
        found: dict[str, object] = {}
        for name, family in read_page(self.page.render(self.fleet.shown)).families.items():
            for sample in family.samples:
                labels = ",".join(f'{label}="{value}"' for label, value in sample.labels if label not in usual)
                found[f"{name}{{{labels}}}"] = sample.number
        return found

    def board(self) -> dict[str, object]:
        """The record of the first board in the file for NVML; empty for vendors whose boards are not in it."""
        image = SlotImage(self.fleet, self.fleet.roster.shown)
        if not image.counts.boards:
            return {}
        place = int(head_of(image.counts)["boards_in_slot"])
        record = BOARD.unpack(bytes(image.content), place)
        return {name: "N/A" if value == ABSENT else value for name, value in record.items()}

    def scrape_trouble(self) -> Iterator[str]:
        """How a scrape of the page fails."""
        faults = self.fleet.page_faults.of(frozenset([_NODE])) or PageFaults()
        if faults.is_closed:
            yield "the connection is closed without an answer"
        if faults.late_seconds:
            yield f"the answer comes {faults.late_seconds:g} s late"
        if faults.status:
            yield f"the answer has the status {faults.status}"
        if faults.is_html:
            yield "the answer has the type text/html"
        if faults.share < 1:
            yield f"the page ends after {faults.share:.0%} of its bytes"


#: The rack of the trial is small: it draws less than 9 kW, most of it by switch trays.
_OF_TRIAL: Final = {"busbar": {"kilowatts": 8.0}}


def show_fault(words: str, identity: str, device: str, *, as_json: bool) -> None:
    """Print every sign of a fault.

    :param words: its kind and its fields, as ``xid code=79``.
    :param device: empty: a board that can have it, and on which the identity shows most.
    :raises ConfigurationError: for an identity or a device that there is not.
    :raises Failed: for a fault that there is not, or that a board of the type cannot have.
    """
    try:
        request = parse_words(f"fault {words}".encode(), WORKLOAD_GRAMMAR)
        fault = fault_from_fields({**request.arguments, "devices": [f"{_NODE}/0"]})
        of_racks = KINDS[fault.kind].needs_racks and identity.partition("@")[0] == "dcgm"
        told = told_of(fault, identity, device or (_OF_RACKS if of_racks else board_of(identity)))
    except (FieldError, ProtocolError, Refused) as error:
        raise Failed(f"--show {words}: {error}", 2) from None
    if as_json:
        write_json(told)
    else:
        blocks = [[teller, *(f"  {line}" for line in lines or ["nothing"]), ""] for teller, lines in told.items()]
        write_text(sys.stdout, "\n".join(printable(line) for block in blocks for line in block))


def told_of(fault: FaultSpec, identity: str, device: str) -> dict[str, list[str]]:
    """The signs of a fault of a node's first board, by their source, in comparison with the same node without it.

    :raises ConfigurationError: for an identity or a device that there is not.
    :raises Refused: when the boards cannot have the fault.
    """
    entries: list[JournalEntry] = []
    kind = KINDS[fault.kind]
    fault = replace(fault, values={**_OF_TRIAL.get(fault.kind, {}), **fault.values})
    # A failed fan wall concerns racks with air; all others are of racks with coolant and a fabric.
    racks = "" if not kind.needs_racks else (RackKind.AIR if kind.scope is Scope.ROW else RackKind.NVL72).value
    seen, usual = _node(identity, device, racks, entries), _node(identity, device, racks, [])
    for _ in range(BEGIN_SECONDS // TICK_SECONDS):
        seen.fleet.advance()
        usual.fleet.advance()
    entries.clear()
    seen.fleet.apply(InjectFault(fault))
    fleet, log, errors = seen.fleet, KernelLog(seen.fleet.spec.seed), BoardErrors(seen.fleet)
    (node,) = fleet.roster.shown
    devices = NodeDevices(fleet.spec.seed, node.pool, node.spec)
    health, before = HealthWatch({_NODE: devices}.get), NodeHealth()
    health.observe(fleet)
    item = {"metadata": {"name": _NODE, "annotations": {KWOK_NODE: "fake"}}, "status": _STATUS}
    on_cluster = ClusterNode(item, node.pool, fleet.spec.seed, KubernetesSettings(), {})
    events, kernel, driver = list[str](), list[str](), list[str]()
    for _ in range(_SECONDS // TICK_SECONDS):
        fleet.advance()
        usual.fleet.advance()
        for xid in xids_of_tick(fleet, ()):
            driver.append(f"event XID {xid.code} of board {xid.board}")
            kernel += log.texts(xid)
        for error in errors.of_tick(fleet, ()):
            kernel += log.texts(error)
            if error.maker == AMD and afid_of(error):
                driver.append(f"record of an error, AFID {afid_of(error)}, of board {error.board}")
        health.observe(fleet)
        events += [f"{each.reason}: {each.message}" for each in reports_of_health(_NODE, "", before, health.of(_NODE))]
        before = health.of(_NODE)
    page = [*seen.scrape_trouble(), *_differences(usual.samples(), seen.samples())]
    if not page and kind.needs_racks:
        page.append("these counters show nothing of it: CPUs, coolant and the fabric need other counters, "
                    "for example those in etc/prometheus/rack-identity.yaml (doc/racks.md)")
    usual_node = _of_node(on_cluster, NodeHealth())
    taints = [(device, taint_of(why)) for device, why in before.unhealthy.items() if devices.is_nvidia]
    return {
        f"page ({identity})": page,
        _DRIVERS.get(node.pool.device_type.facts.get("vendor", ""), _NVML): [*driver, *_of_board(usual, seen)],
        "kernel's log": kernel,
        "Events of the Kubernetes node": events,
        "status of the Kubernetes node": list(_differences(usual_node, _of_node(on_cluster, before))),
        "taints of devices (DRA)": [
            f"{device}: {taint['key']}={taint.get('value', '')}:{taint['effect']}" for device, taint in taints
        ],
        "journal": [f"{entry.kind} {entry.scope}: {entry.text}" for entry in entries],
    }


def _node(identity: str, device: str, racks: str, entries: list[JournalEntry]) -> Seen:
    configuration = trial_configuration(identity, device, [Trial()], racks=racks)
    fleet = Fleet(configuration.fleet, tell=entries.extend)
    shown = configuration.identities["trials"]
    return Seen(fleet, shown, Page(LabelCache(shown, DeviceSource.of(fleet, shown)), list(fleet.roster.shown)))


def _of_node(node: ClusterNode, health: NodeHealth) -> dict[str, object]:
    """What the status of a node without a kubelet has of the health of its devices, and its taints."""
    node.health = health
    wanted = node.wanted()
    found: dict[str, object] = {f"allocatable {name}": count for name, count in wanted.allocatable.items()}
    found["Ready"] = wanted.ready.status if wanted.ready is not None else ""
    return found | {f"taint {taint.key}": taint.effect for taint in wanted.taints}


def _of_board(usual: Seen, seen: Seen) -> Iterator[str]:
    board = seen.board()
    if board.get("lost") == 1:
        (node,) = seen.fleet.roster.shown
        is_amd = node.pool.device_type.facts.get("vendor", "") == AMD
        yield "the board is not listed" if is_amd else "the board is lost: each call has the result 15 (GPU is lost)"
        return
    yield from _differences(usual.board(), board)
    up, links = link_history(seen.fleet.state.levels).up, seen.fleet.roster.links.of(0)
    if board and up is not None:
        yield from (f"link {number} is down" for number, link in enumerate(links) if not up[link])


def _differences(usual: Mapping[str, object], seen: Mapping[str, object]) -> Iterator[str]:
    for name, value in seen.items():
        if name not in usual:
            yield f"{name} {value}, new"
        elif usual[name] != value:
            yield f"{name} {usual[name]} -> {value}"
    gone = [name for name in usual if name not in seen]
    yield from (f"{name} is gone" for name in gone[:_MOST_GONE])
    if len(gone) > _MOST_GONE:
        yield f"{len(gone) - _MOST_GONE} more series are gone"
