"""The verbs of a workload port about the whole fleet: workloads, devices, faults, explanations and the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from fakedev.net.fleet.describe import describe_workloads
from fakedev.net.fleet.faults import FaultHub, describe_explanations, describe_fault, describe_link_explanations
from fakedev.net.fleet.journal import find_entries
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.sim.entities.selectors import resolve
from fakedev.spec.errors import Refused
from fakedev.wire.grammar import Request
from fakedev.wire.replies import Reply
from fakedev.wire.words import quote_word

#: Workloads, devices or faults in one answer; a last line says how many more there are.
MAX_LINES: Final = 1000
#: Characters of one value in a line of `list` and `faults`.
_MAX_VALUE_CHARACTERS: Final = 400
#: Lines of the journal in one answer: by default, and at most.
_DEFAULT_ENTRIES: Final = 20
_MAX_ENTRIES: Final = 1000
#: What `devices` shows of each device.
_DEVICE_QUANTITIES: Final = (
    "usage_ratio", "power_watts", "temperature_celsius", "core_frequency_mhz", "memory_used_bytes",
)  # fmt: skip
_WORKLOAD_KEYS: Final = (
    "state", "device-count", "load-percent", "run-seconds", "remaining-seconds", "profile", "metrics", "repeat", "pod",
)  # fmt: skip


class FleetVerbs:
    """Serves the verbs that are the same for each peer of a port, each by the method ``do_VERB``.

    :param node: the node that device words without one name; empty for none.
    :param check_allowed: see WorkloadPortFactory.
    """

    def __init__(self, hub: WorkloadHub, node: str, check_allowed: Callable[[str, str], None]) -> None:
        self._hub = hub
        self._fleet = hub.fleet
        self._faults = FaultHub(hub.fleet)
        self._node = node
        self._check_allowed = check_allowed

    def do_stop(self, request: Request) -> Reply:
        """Stop a workload, or all of a name."""
        self._check_allowed("workloads", "start or stop workloads")
        stopped = self._hub.stop(str(request.arguments["workload"]))
        return Reply(f"stopped {len(stopped)}", data={"stopped": stopped})

    def do_reset(self, _: Request) -> Reply:
        """Let the fleet begin again."""
        self._check_allowed("workloads", "start or stop workloads")
        self._check_allowed("faults", "inject or clear faults")
        tick = self._hub.reset()
        return Reply(f"tick {tick}", data={"tick": tick})

    def do_list(self, _: Request) -> Reply:
        """A line for each workload."""
        workloads = list(self._fleet.workloads.by_id.values())
        described = describe_workloads(self._fleet, workloads[:MAX_LINES])
        lines = [_workload_line(each) for each in described]
        return _list_reply("workloads", lines, described, len(workloads))

    def do_show(self, request: Request) -> Reply:
        """All about one workload, a line for each field."""
        word = str(request.arguments["workload"])
        found = self._fleet.workloads.find(word)
        if not found:
            raise Refused("unknown-name", f"no workload {word!r}", "workload")
        (described,) = describe_workloads(self._fleet, [self._fleet.workloads.by_id[found[0]]])
        lines = [f"{key}: {_as_word(value)}" for key, value in described.items() if value is not None]
        return Reply(lines=lines, data={"workload": described})

    def do_devices(self, request: Request) -> Reply:
        """A line for each device."""
        roster, level = self._fleet.roster, self._fleet.state.levels["unit"]
        given = request.arguments.get("devices") or ["all"]
        devices = [str(word) for word in given] if isinstance(given, list | tuple) else [str(given)]
        positions = resolve(devices, roster, self._node).tolist()
        described: list[dict[str, Any]] = []
        for position in positions[:MAX_LINES]:
            node = roster.nodes[roster.node_position(position)]
            device: dict[str, Any] = {"device": roster.unit_name(position), "type": node.pool.device_type.name}
            for quantity in _DEVICE_QUANTITIES:
                if level.has(quantity, position):
                    device[quantity] = round(level.arrays[quantity][position].item(), 6)
            described.append(device)
        words = [{key: _as_word(value) for key, value in each.items()} for each in described]
        lines = [" ".join([each.pop("device"), *(f"{key}={word}" for key, word in each.items())]) for each in words]
        return _list_reply("devices", lines, described, len(positions))

    def inject(self, request: Request, host: str) -> Reply:
        """Inject a fault, for the limits of the peer's host."""
        self._check_allowed("faults", "inject or clear faults")
        fault_id = self._faults.inject(request.arguments, self._node, host)
        return Reply(fault_id, data={"fault": fault_id})

    def do_clear(self, request: Request) -> Reply:
        """Clear a fault, or all."""
        self._check_allowed("faults", "inject or clear faults")
        cleared = self._faults.clear(str(request.arguments["fault"]))
        return Reply(f"cleared {len(cleared)}", data={"cleared": cleared})

    def do_faults(self, _: Request) -> Reply:
        """A line for each fault."""
        faults = list(self._fleet.faults.by_id.values())
        described = [describe_fault(self._fleet, each) for each in faults[:MAX_LINES]]
        return _list_reply("faults", [_fault_line(each) for each in described], described, len(faults))

    def do_explain(self, request: Request) -> Reply:
        """Why the metrics of a device or a link have their values."""
        from fakedev.sim.explanation import link_word  # noqa: PLC0415 - as in describe_explanations

        word = str(request.arguments["device"])
        link = link_word(word)
        found = resolve([link[0] if link else word], self._fleet.roster, self._node).tolist()
        if len(found) != 1:
            raise Refused("bad-argument", f"device: {word!r} names {len(found)} devices: give one", "device")
        metric = str(request.arguments.get("metric") or "")
        if link:
            described = describe_link_explanations(self._fleet, found[0], link[1], metric)
        else:
            described = describe_explanations(self._fleet, found[0], metric)
        lines = [f"{each['metric']} {_number(each['value'])}: {each['text']}" for each in described["explanations"]]
        return Reply(lines=lines, data=described)

    def do_journal(self, request: Request) -> Reply:
        """The latest lines of the journal."""
        count = cast("int", request.arguments.get("count", _DEFAULT_ENTRIES))
        if not 1 <= count <= _MAX_ENTRIES:
            raise Refused("bad-argument", f"count: must be 1 to {_MAX_ENTRIES}", "count")
        kinds, devices = (cast("Sequence[str]", request.arguments.get(name) or []) for name in ("kind", "devices"))
        found = find_entries(self._fleet, kinds, devices, self._node if devices else "", count)
        described = [each.fields() for each in found]
        return Reply(lines=[_journal_line(each) for each in described], data={"journal": described})


def _list_reply(key: str, lines: list[str], described: list[dict[str, Any]], total: int) -> Reply:
    if len(lines) < total:
        lines = [*lines, f"... and {total - len(lines)} more"]
    return Reply(lines=lines, data={key: described, "total": total})


def _workload_line(described: Mapping[str, Any]) -> str:
    keys = [key for key in _WORKLOAD_KEYS if described.get(key) is not None]
    return " ".join([described["id"], quote_word(described["name"]), *_pairs(described, keys)])


def _fault_line(described: Mapping[str, Any]) -> str:
    first = ("state", "device-count", "active-devices")
    others = (key for key in described if key not in ("id", "kind", *first))
    keys = [key for key in (*first, *others) if described[key] is not None]
    return " ".join([described["id"], described["kind"], *_pairs(described, keys)])


def _journal_line(fields: Mapping[str, Any]) -> str:
    cause = f" ({fields['cause']})" if fields["cause"] else ""
    return f"{fields['tick']} {fields['seconds']:g} {fields['kind']} {fields['scope']}: {fields['text']}{cause}"


def _pairs(described: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """``key=value`` of these keys; long values are cut."""
    words = [(key, _as_word(described[key])) for key in keys]
    most = _MAX_VALUE_CHARACTERS
    return [f"{key}={word if len(word) <= most else word[:most] + '...'}" for key, word in words]


def _as_word(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}:{_as_word(each)}" for key, each in value.items())
    return quote_word(str(value)) if isinstance(value, str) else str(value)


def _number(value: float | None) -> str:
    return "not shown" if value is None else f"{value:g}"
