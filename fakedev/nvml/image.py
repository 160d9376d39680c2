"""A slot of the NVML file: all that some nodes show in a tick, as records of boards, links and processes.

Records are NumPy arrays. What does not change from tick to tick of nodes, boards, MIG instances and links is kept as
records; facts become numbers and texts. The workloads on boards are the processes of the file.
"""

from __future__ import annotations

import math
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.base.binary_records import Field, Record, text_of
from fakedev.base.groups import grouped
from fakedev.base.names import version_number
from fakedev.exporters.numbers import number_of
from fakedev.exporters.row_levels import process_number
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.state import Level, Positions
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.levels import DEVICE, UNIT
from fakedev.fleet.levels import PART as PART_LEVEL
from fakedev.fleet.links.link_levels import LINK as LINK_LEVEL
from fakedev.fleet.links.link_levels import link_history
from fakedev.fleet.spec.device_types import DeviceType, attributes_of
from fakedev.fleet.workloads.workload import Workload
from fakedev.nvml import mig_numbers as mig
from fakedev.nvml import records as layout
from fakedev.nvml.amd_errors import afid_of
from fakedev.nvml.board_errors import BoardError
from fakedev.nvml.chosen_boards import AMD, NVIDIA, VENDORS, Chosen, chosen, units_of
from fakedev.nvml.records import (
    ABSENT,
    BOARD,
    FIRST_IMPOSSIBLE_PID,
    LINK,
    MAX_PROCESSES,
    MIG_ATTRIBUTES,
    NODE,
    PART,
    PROCESS,
    PROFILE,
    Counts,
    head_of,
)

Numbers = NDArray[np.int64]
#: From here up a number is no whole number of 64 bits.
_TOO_LARGE: Final = 2.0**63
_LEADING_NUMBER: Final = re.compile(r"[0-9]+")


def dtype_of(record: Record) -> np.dtype[Any]:
    """The type of an array of records."""
    return np.dtype([(field.name, f"S{field.text_bytes}" if field.text_bytes else "i8") for field in record.fields])


def whole(values: Floats | float, factor: float = 1.0) -> Numbers:
    """Values times a factor as whole numbers, rounded as on pages: what is no finite number is absent."""
    scaled = np.rint(np.asarray(values, dtype=np.float64) * factor)
    is_number = np.abs(scaled) < _TOO_LARGE
    return np.where(is_number, np.where(is_number, scaled, 0.0).astype(np.int64), ABSENT)


def fact_of(field: Field, facts: Mapping[str, str]) -> int | bytes:
    """The value of a field that shows a fact."""
    text = facts.get(field.fact, "")
    if field.text_bytes:
        return text_of(text, field.text_bytes)
    number = number_of(text)
    return ABSENT if math.isnan(number) else int(whole(number, field.factor))


def slices_of(profile: str) -> int:
    """The slices of the engines of a MIG profile, as ``3g.40gb``; absent for another text."""
    match = _LEADING_NUMBER.match(profile)
    return int(match[0]) if match else ABSENT


class Quantities:
    """The quantities of a level in the fields of a record, for some of its entities.

    :param records: whose fields they are written to.
    :param positions: of the entities in the level: shape as ``records``.
    """

    def __init__(self, record: Record, records: NDArray[Any], positions: NDArray[np.int64]) -> None:
        fields = record.quantities
        self._names = [field.quantity for field in fields]
        self._factors = np.array([[field.factor] for field in fields])
        self._rows = grouped((name, row) for row, name in enumerate(self._names))
        # All of them follow each other: one table, a row for each entity.
        first = record.offsets[fields[0].name] // 8
        table = np.ndarray((len(records), record.size // 8), "i8", records)
        self._table = table[:, first : first + len(fields)]
        count = len(positions)
        is_run = count > 0 and bool((np.diff(positions) == 1).all())
        self._places = slice(int(positions[0]), int(positions[0]) + count) if is_run else positions
        self._absent = np.full(count, math.nan)

    def write(self, level: Level) -> None:
        """Write the values of a tick."""
        places, arrays = self._places, level.arrays
        values = np.array([arrays[name][places] if name in arrays else self._absent for name in self._names])
        for name, has in level.present.items():
            for row in self._rows.get(name, ()):
                values[row][~has[places]] = math.nan
        self._table[:] = whole(values, self._factors).T  # type: ignore[arg-type]  # one factor for each row


#: The state of a board that has joined its fabric.
_IN_FABRIC: Final = 3
#: Serial numbers of racks have 13 digits.
_CHASSIS: Final = 1_820_000_000_000
#: How a board addresses memory of the system when a connection of chips leads to it: NVML_DEVICE_ADDRESSING_MODE_ATS.
_ATS: Final = 2
#: Boards of an older compute capability show N/A, as captures of T4 and A100 do, and of an RTX 3060 do not.
_FIRST_WITH_AVERAGE_POWER: Final = (8, 6)
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: The boards of a module with a CPU, and what the CPU draws in watts (captures of idle GB200 and GB300).
_BOARDS_OF_MODULE: Final = 2
_CPU_OF_MODULE_WATTS: Final = 135.0
#: NUMA nodes of a board's memory: itself, and a spare one for each of seven MIG instances (`nvidia-smi topo -m` of a
#: GB200, sgl-project/sglang#11208: GPUs are nodes 2, 10, 18 and 26).
_NUMA_NODES_OF_BOARD: Final = 8
#: Quantities of boards in racks, factors, and the fields that they have in place of what other boards have there.
_OF_RACKS: Final = (
    ("module_power_watts", 1000.0, "module_power"), ("fabric_health_mask", 1.0, "fabric_health"),
    ("fabric_manager_status", 1.0, "fabric_state"),
)
#: BAR1 memory in use on a board with this number of processes.
_BAR1_OF_BOARD, _BAR1_OF_PROCESS = 1 << 20, 2 << 20
#: The generation of NVLink by architecture.
_LINK_GENERATIONS: Final = {"pascal": 1, "volta": 2, "ampere": 3, "hopper": 4, "blackwell": 5}
#: From this generation on the driver shows the rate of the line by the data that it carries: nvidia-smi nvlink -s of
#: H100 has 26.562 GB/s, that of GB200 53.125 (NVIDIA/k8s-test-infra#371).
_NVLINK_4: Final = 4
_LINE_RATE: Final = 1.0625
#: Links to a Grace CPU: nvidia-smi c2c -s lists ten of a GH200 (a test of dmlc/xgboost); two GPUs of a GB200 share
#: as many.
_C2C_LINKS, _C2C_LINKS_OF_BLACKWELL, _BLACKWELL = 10, 5, 10
_MIB: Final = 1 << 20
#: A clock step that boards without dynamics have.
_CLOCK_STEP_MHZ: Final = 15.0


def static_records(roster: Roster, seed: int, boards: Chosen) -> dict[str, NDArray[Any]]:
    """The records of nodes, boards, parts, links and profiles, by the names of their places in a slot."""
    node_rows: list[dict[str, Any]] = []
    board_rows: list[dict[str, Any]] = []
    part_rows: list[dict[str, Any]] = []
    link_rows: list[dict[str, Any]] = []
    profile_rows: list[dict[str, Any]] = []
    #: Boards of a type share its profiles.
    first_profiles: dict[tuple[str, str], int] = {}
    place_of = {device: place for place, device in enumerate(boards.devices.tolist())}
    for node, *indices in boards.nodes:
        shown, of_amd = indices
        facts = roster.facts(seed, node)
        of_parts = roster.part_facts(seed, node, facts)
        first_part = roster.parts.of(node.first).start
        first = facts[next(chain(*indices))] if any(indices) else {}
        node_rows.append({
            **_facts(NODE, first), "name": text_of(node.name, 256), "cuda_version": _cuda_version(first),
            "first_board": len(board_rows), "board_count": len(shown),
            "first_amd": len(board_rows) + len(shown), "amd_count": len(of_amd),
        })  # fmt: skip
        for index in chain(*indices):
            device = node.first + index
            units, links = units_of(roster, node, index), roster.links.of(device)
            own = of_parts[units.start - first_part : units.stop - first_part]
            kind = node.pool.device_type
            key = kind.name, facts[index].get("pci_device_id", "")
            if key not in first_profiles:
                first_profiles[key] = len(profile_rows)
                profile_rows += _profiles(facts[index], kind)
            board = {
                **_board(facts[index], kind), "node": len(node_rows) - 1, "index": index,
                "first_part": len(part_rows), "part_count": len(own), "first_link": len(link_rows),
                "link_count": len(links), "first_profile": first_profiles[key],
                "profile_count": len(kind.mig_profiles),
            }  # fmt: skip
            board_rows.append(board)
            part_rows += [_part(part_index, len(board_rows) - 1, board) for part_index in own]
            link_rows += [_link(roster, node, link, place_of) for link in links]
    rows = ((NODE, node_rows), (BOARD, board_rows), (PART, part_rows), (LINK, link_rows), (PROFILE, profile_rows))
    return {f"{record.name}s": _array(record, record_rows) for record, record_rows in rows}


def _array(record: Record, rows: Sequence[Mapping[str, Any]]) -> NDArray[Any]:
    array = np.zeros(len(rows), dtype=dtype_of(record))
    for place, row in enumerate(rows):
        for field in record.fields:
            array[place][field.name] = row.get(field.name, b"" if field.text_bytes else ABSENT)
    return array


def _facts(record: Record, facts: Mapping[str, str]) -> dict[str, Any]:
    return {field.name: fact_of(field, facts) for field in record.fields if field.fact}


def _board(facts: Mapping[str, str], device_type: DeviceType) -> dict[str, Any]:
    pci = {**facts, "id": facts.get("pci_device_id", "").removeprefix("0x")}
    capability = version_number(facts.get("compute_cap", "")) or (ABSENT, ABSENT)
    dynamics, links = device_type.dynamics, device_type.connections.links
    low, high = device_type.power_limit_ends()
    per_link = dynamics.fabric_bytes_per_second / links.count if dynamics and links and links.count else 0.0
    address = facts.get("pci_address", "")
    values = _facts(BOARD, facts)
    total, video = int(device_type.memory_total_bytes), device_type.ranges.get("video_frequency_mhz")
    bar1 = number_of(facts.get("bar1_total_bytes", ""))
    # NVIDIA derives it from numbers in the board's fuses.
    pdi = int(facts["uuid"].replace("-", "")[-15:], 16) if _UUID.fullmatch(facts.get("uuid", "")) else ABSENT
    core = device_type.ranges.get("core_frequency_mhz")
    is_in_fabric = values["fabric_state"] == _IN_FABRIC
    is_amd = AMD in facts.get("vendor", "").upper()
    vendor = VENDORS[AMD if is_amd else NVIDIA]
    generation = _LINK_GENERATIONS.get(facts.get("architecture", ""), ABSENT)
    is_in_rack = values["c2c_mode"] == 1 and values["platform_host_id"] != ABSENT
    derived = {
        "addressing_mode": _ATS if values["c2c_mode"] == 1 else 0,
        "has_margin": 1,
        "applications_clock": int(whole(core.high)) if core else ABSENT,
        # Boards of a pool are in one rack.
        "chassis_serial": str(_CHASSIS + zlib.crc32(facts["pool"].encode())) if is_in_rack else "",
        "fabric_health": 0 if is_in_fabric else ABSENT,
        **_numa_nodes(facts, device_type, has_own=values["c2c_mode"] == 1),
        "fabric_cluster": str(uuid.UUID(int=0)) if is_in_fabric else "",
        "platform_module_id": int(facts["index"]) + 1,
        "platform_gpu_fabric_guid": pdi if values["platform_host_id"] != ABSENT else ABSENT,
    }
    return {
        **values, **{name: value for name, value in derived.items() if _is_nothing(values[name])},
        "pdi": pdi, "video_clock_max": int(whole(video.high)) if video else ABSENT,
        "has_average_power": int(capability >= _FIRST_WITH_AVERAGE_POWER),
        # Without a fact as large as the memory, for which the size is a power of two.
        "bar1_total": int(whole(bar1)) if not math.isnan(bar1) else 1 << max(0, total - 1).bit_length(),
        "uuid": text_of(prefixed("" if is_amd else "GPU-", facts.get("uuid", "")), 48),
        "pci_bus_id": text_of(f"0000{address.upper()}" if address else "", 32),
        "pci_device_id": int(pci["id"], 16) << 16 | vendor if _is_hexadecimal(pci["id"]) else ABSENT,
        "max_part_count": device_type.mig_slices,
        "minor_number": int(facts["index"]),
        "compute_major": capability[0],
        "compute_minor": capability[1],
        "power_limit_min": int(whole(low, 1000.0)) if dynamics else ABSENT,
        "power_limit_max": int(whole(high, 1000.0)) if dynamics else ABSENT,
        "clock_step": int(whole(dynamics.clock_step_mhz if dynamics else _CLOCK_STEP_MHZ, 1000.0)),
        "c2c_links": _c2c_links(values["c2c_mode"], capability[0]),
        "link_generation": generation if links else ABSENT,
        "link_bandwidth": int(whole(per_link, _LINE_RATE if generation >= _NVLINK_4 else 1.0)) if per_link else ABSENT,
    }


def _c2c_links(mode: int, compute_major: int) -> int:
    """The number of links to a Grace CPU; absent for boards that could have none."""
    if mode == ABSENT:
        return ABSENT
    on = _C2C_LINKS_OF_BLACKWELL if compute_major >= _BLACKWELL else _C2C_LINKS
    return on if mode == 1 else 0


def _numa_nodes(facts: Mapping[str, str], device_type: DeviceType, *, has_own: bool) -> dict[str, Any]:
    """The NUMA node of a board's memory, and the nodes near the board.

    :param has_own: the memory is a NUMA node of the system; its spare nodes are near all boards of the same CPU.
    """
    near, server = facts.get("numa_node", ""), device_type.connections.server
    if not (has_own and near and server is not None and server.cpus):
        return {"gpu_numa_node": ABSENT, "numa_affinity": text_of(near, 64)}
    first, size = len(server.cpus), _NUMA_NODES_OF_BOARD
    begins = [first + size * index for index, node in enumerate(server.numa_nodes) if str(node) == near]
    spare = [f"{begin + 1}-{begin + size - 1}" for begin in begins]
    own = first + size * int(facts["index"])
    return {"gpu_numa_node": own, "numa_affinity": text_of(",".join([near, *spare]), 64)}


def _is_nothing(value: int | bytes) -> bool:
    """Whether a field has no fact."""
    return value == ABSENT or (isinstance(value, bytes) and not value.strip(b"\0"))


def _part(facts: Mapping[str, str], board: int, of_board: Mapping[str, Any]) -> dict[str, Any]:
    prefix = "" if AMD in facts.get("vendor", "").upper() else "MIG-"
    own = {"uuid": text_of(prefixed(prefix, facts["part_uuid"]), 48), "board": board}
    profile, values = facts.get("mig_profile", ""), _facts(PART, facts)
    slices, memory_slices = slices_of(profile), mig.memory_slices_of(of_board["max_part_count"])
    place = mig.placement_of(max(0, values["gpu_instance"]), memory_slices)
    return {
        **values, **own, **_engines(facts, profile), "slices": slices, "begin": place.start,
        "memory_slices": len(place), "number": mig.number_of(profile, slices, len(place), memory_slices),
        "computes": int(facts.get("mig_compute") != "0"),
        # Its share, but for the last MiB, as on an A100.
        "bar1_total": max(0, of_board["bar1_total"] * len(place) // memory_slices - _MIB),
    }  # fmt: skip


def _engines(facts: Mapping[str, str], profile: str) -> dict[str, int]:
    names = (name for name, _ in MIG_ATTRIBUTES)
    return dict(zip(names, attributes_of(facts, profile) or (), strict=False))


def _profiles(facts: Mapping[str, str], device_type: DeviceType) -> list[dict[str, Any]]:
    """The rows of the kinds of instances of a type."""
    found, of_board = [], mig.memory_slices_of(device_type.mig_slices)
    for each in device_type.mig_profiles:
        number = mig.number_of(each.name, each.slices, each.memory_slices, of_board)
        found.append({
            "name": text_of(each.name, 24), "number": number, "kind": mig.kind_of(each.slices, number),
            "slices": each.slices, "memory_slices": each.memory_slices, "memory": int(each.memory_bytes),
            "begins": sum(1 << begin for begin in each.begins), "most": each.count_beside(device_type.mig_slices, ()),
            **_engines(facts, each.name),
        })  # fmt: skip
    return found


def _link(roster: Roster, node: RosterNode, link: int, place_of: Mapping[int, int]) -> dict[str, Any]:
    layout = roster.links
    owner, remote, switch = int(layout.owners[link]), int(layout.remotes[link]), int(layout.switches[link])
    row = {"board": place_of[owner], "number": link - int(layout.firsts[owner]), "up": 1}
    if remote >= 0:
        peer = int(layout.owners[remote])
        row |= {"remote_board": place_of.get(peer, ABSENT), "remote_number": remote - int(layout.firsts[peer])}
    if switch >= 0:
        row["switch_number"] = switch - layout.switches_of(node.first).start
    return row


def _cuda_version(facts: Mapping[str, str]) -> int:
    numbers = version_number(facts.get("cuda_version", ""))
    return numbers[0] * 1000 + numbers[1] * 10 if numbers else ABSENT


def prefixed(prefix: str, uuid: str) -> str:
    return uuid if uuid.startswith(prefix) or not uuid else prefix + uuid


def _is_hexadecimal(text: str) -> bool:
    return 0 < len(text) <= 4 and all(letter in "0123456789abcdefABCDEF" for letter in text)


#: Field to the quantity of which a process has a share.
_SHARES: Final[Mapping[str, str]] = {
    "usage": "usage_ratio",
    "memory_usage": "memory_usage_ratio",
    "encoder_usage": "encoder_active_ratio",
    "decoder_usage": "decoder_active_ratio",
}
_MEMORY: Final = "memory_used_bytes"
#: The kind of work of programs that draw.
_GRAPHICS: Final = "render"

#: The pid of the client of a workload, by the workload's id; None: it has none.
PidOf = Callable[[str], int | None]


def no_pid(workload_id: str) -> int | None:
    """No workload has a process."""
    return None


class Processes:
    """The processes of the boards of a file: a workload on an undivided board, or on an instance of one.

    :ivar records: in order of their boards and instances, at most 64 of each, beginning with the oldest.
    :ivar counts: the processes of each board, also those that are not listed: shape (B,).
    """

    def __init__(self, fleet: Fleet, boards: Chosen, pid_of: PidOf) -> None:
        self._fleet = fleet
        self._pid_of = pid_of
        parts = fleet.roster.parts
        #: The board and the instance of each unit of the fleet, -1 for none.
        self._board_of: Positions = np.full(parts.unit_count, -1, dtype=np.int64)
        self._part_of: Positions = np.full(parts.unit_count, -1, dtype=np.int64)
        self._board_of[boards.devices] = np.arange(len(boards.devices))
        units = boards.parts + parts.device_count
        self._board_of[units] = self._board_of[parts.owners[boards.parts]]
        self._part_of[units] = np.arange(len(boards.parts))
        #: The number of each board in its node.
        self._indices = [index for _, *indices in boards.nodes for index in chain(*indices)]
        self._followed = -1
        #: The pairs of workload and unit; the first pair of each unit, and the number of the unit of each pair.
        self._pairs: Positions = np.zeros(0, dtype=np.int64)
        self._firsts = self._numbers = self._pairs
        self.records: NDArray[Any] = np.zeros(0, dtype=dtype_of(PROCESS))
        self.counts: Positions = np.zeros(len(boards.devices), dtype=np.int64)

    def update(self) -> None:
        """Follow the workloads to the present tick."""
        if self._fleet.workloads.changes != self._followed:
            self._followed = self._fleet.workloads.changes
            self._find()
        if not len(self._pairs):
            return
        shares, table = self._fleet.workloads.shares(), self._fleet.workloads.table
        units = table.device[self._pairs]
        held = shares.of(_MEMORY, self._pairs)
        self.records["memory_used"] = np.floor(held / _MIB) * float(_MIB)
        # What a board or instance shows is divided by the loads of its workloads.
        loads = shares.parts[self._pairs]
        of_unit = np.add.reduceat(loads, self._firsts)[self._numbers]
        level, shown = self._fleet.state.levels[UNIT].arrays, np.zeros((len(_SHARES), len(loads)))
        for row, quantity in enumerate(_SHARES.values()):
            if quantity in level:
                shown[row] = level[quantity][units]
        parts = np.divide(loads, of_unit, out=np.zeros(len(loads)), where=of_unit > 0)
        for field, percents in zip(_SHARES, whole(shown * parts, 100.0), strict=True):
            self.records[field] = percents

    def _find(self) -> None:
        """List the workloads that run on the boards."""
        workloads = self._fleet.workloads
        table, by_id = workloads.table, workloads.by_id
        on_boards = np.flatnonzero(self._board_of[table.device] >= 0) if len(table.device) else self._pairs[:0]
        boards, parts = self._board_of[table.device[on_boards]], self._part_of[table.device[on_boards]]
        order = np.lexsort((on_boards, parts, boards))
        on_boards, boards, parts = on_boards[order], boards[order], parts[order]
        self.counts = np.bincount(boards, minlength=len(self.counts))
        starts = np.ones(len(boards), dtype=np.bool_)
        starts[1:] = (np.diff(boards) != 0) | (np.diff(parts) != 0)
        first = np.maximum.accumulate(np.where(starts, np.arange(len(boards)), 0))
        listed = np.arange(len(boards)) - first < MAX_PROCESSES
        self._pairs, boards, parts, starts = on_boards[listed], boards[listed], parts[listed], starts[listed]
        self._firsts, self._numbers = np.flatnonzero(starts), np.cumsum(starts) - 1
        records = np.zeros(len(self._pairs), dtype=dtype_of(PROCESS))
        records["board"] = boards
        records["part"] = np.where(parts < 0, ABSENT, parts)
        epoch = self._fleet.spec.epoch_seconds
        pids: dict[tuple[str, int], int] = {}
        used: set[int] = set()
        for place, (owner, board) in enumerate(zip(table.owner[self._pairs].tolist(), boards.tolist(), strict=True)):
            workload = by_id[table.ids[owner]]
            key = workload.workload_id, board  # on several instances of a board it is one process
            if key not in pids:
                pids[key] = self._pid(workload, board, used)
                used.add(pids[key])
            record, pid = records[place], pids[key]
            record["name"] = text_of(workload.spec.name, 64)
            record["pid"] = pid
            record["is_graphics"] = workload.spec.kind == _GRAPHICS
            record["started"] = int(whole(epoch + (workload.start_seconds or 0.0), 1e6))
        self.records = records

    def _pid(self, workload: Workload, board: int, used: Set[int]) -> int:
        pid = self._pid_of(workload.workload_id)
        if pid is None:
            pid = FIRST_IMPOSSIBLE_PID + process_number(workload.key, self._indices[board])
            while pid in used:
                pid += 1
        return pid


#: The fewest processes that a file has room for.
_FEWEST_PROCESSES: Final = 64


class Xid(NamedTuple):
    """An error code that the driver of a board of the file has reported: an XID, or of a board of AMD an AFID."""

    board: int
    code: int


class SlotImage:
    """The bytes of a slot for some nodes of a fleet, with their values of the present tick.

    The true values: faults of exporters do not concern the driver.

    :param nodes: nodes of the fleet's present roster.
    :param pid_of: the process of the client of a workload.
    :ivar counts: what the slot has room for.
    :ivar content: the bytes.
    :ivar has_amd: some boards are AMD's.
    """

    def __init__(self, fleet: Fleet, nodes: Sequence[RosterNode], pid_of: PidOf = no_pid) -> None:
        self._fleet = fleet
        self._boards = chosen(fleet.roster, nodes)
        self._board_of = {device: place for place, device in enumerate(self._boards.devices.tolist())}
        self._processes = Processes(fleet, self._boards, pid_of)
        self._processes.update()
        capacity = _FEWEST_PROCESSES
        while capacity < len(self._processes.records):
            capacity *= 2
        boards, parts, links = (len(board) for board in self._boards[1:])
        fixed = static_records(fleet.roster, fleet.spec.seed, self._boards)
        self.counts = Counts(len(nodes), boards, parts, links, len(fixed["profiles"]), capacity)
        head = head_of(self.counts)
        self.content = bytearray(int(head["slot_bytes"]))
        self._records: dict[str, NDArray[Any]] = {
            f"{record.name}s": np.ndarray(count, dtype_of(record), self.content, int(head[place]))
            for record, count, place in (
                (layout.NODE, self.counts.nodes, "nodes_in_slot"),
                (layout.BOARD, self.counts.boards, "boards_in_slot"),
                (layout.PART, self.counts.parts, "parts_in_slot"),
                (layout.LINK, self.counts.links, "links_in_slot"),
                (layout.PROFILE, self.counts.profiles, "profiles_in_slot"),
            )
        }
        for name, records in fixed.items():
            self._records[name][:] = records
        self._places = int(head["processes_in_slot"])
        self._head = np.ndarray(1, dtype_of(layout.SLOT), self.content)
        self._of_boards = Quantities(layout.BOARD, self._records["boards"], self._boards.devices)
        self._of_parts = Quantities(layout.PART, self._records["parts"], self._boards.parts)
        #: The module of each board; None: no board is on a module with a CPU.
        self._modules: Positions | None = None
        if (self._records["boards"]["module_power_limit"] != ABSENT).any():
            pairs = self._records["boards"]["index"] // _BOARDS_OF_MODULE
            keys = np.stack((self._records["boards"]["node"], pairs), axis=1)
            self._modules = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        self._up: object = None
        is_amd = fixed["boards"]["pci_device_id"] & 0xFFFF == VENDORS[AMD]
        self._is_amd = is_amd
        self.has_amd = bool(is_amd.any())
        self._amd_links = np.flatnonzero(is_amd[fixed["links"]["board"]])
        self.update()

    @property
    def nodes(self) -> bytes:
        """The records of the nodes: readers know where their node is in the file."""
        return self._records["nodes"].tobytes()

    def values(self, quantity: str) -> tuple[Positions, Floats]:
        """What the boards' records show of a quantity.

        :returns: positions of the boards, ascending, and values in the quantity's unit, NaN where absent, both (B,);
            none where no field shows it.
        """
        field = next((field for field in layout.BOARD.fields if field.quantity == quantity), None)
        if field is None:
            return self._boards.devices[:0], np.zeros(0)
        shown = self._records["boards"][field.name]
        return self._boards.devices, np.where(shown == ABSENT, np.nan, shown / field.factor)

    def update(self) -> bool:
        """Write the values of the fleet's present tick.

        :returns: False when the processes do not fit: then nothing is written, and another image is needed.
        """
        processes, state = self._processes, self._fleet.state
        processes.update()
        count = len(processes.records)
        if count > self.counts.processes:
            return False
        self._head["tick"] = state.tick
        self._head["wall_time"] = round(state.wall_seconds * 1e6)
        self._head["process_count"] = count
        self._of_boards.write(state.levels[DEVICE])
        boards = self._records["boards"]
        boards["process_count"] = processes.counts
        boards["bar1_used"] = np.minimum(_BAR1_OF_BOARD + _BAR1_OF_PROCESS * processes.counts, boards["bar1_total"])
        if self._modules is not None:
            power = np.where(boards["power"] == ABSENT, 0, boards["power"])
            of_module = np.bincount(self._modules, power) + _CPU_OF_MODULE_WATTS * 1000.0
            boards["module_power"] = np.where(boards["module_power_limit"] == ABSENT, ABSENT, of_module[self._modules])
        for name, factor, field in _OF_RACKS:
            if name in state.levels[DEVICE].arrays:
                values = np.rint(state.levels[DEVICE].arrays[name][self._boards.devices] * factor)
                boards[field] = np.where(values > 0, values, boards[field])
        boards["fabric_state"] = np.minimum(boards["fabric_state"], _IN_FABRIC)
        if self.counts.parts:
            self._of_parts.write(state.levels[PART_LEVEL])
        size = layout.PROCESS.size
        self.content[self._places : self._places + count * size] = processes.records.tobytes()
        up = link_history(state.levels).up
        if self.counts.links and up is not self._up:
            self._records["links"]["up"] = 1 if up is None else up[self._boards.links]
            self._up = up
        if len(self._amd_links):
            of_links, links = state.levels[LINK_LEVEL].arrays, self._boards.links[self._amd_links]
            for field, quantity in (("sent", "fabric_tx_bytes"), ("received", "fabric_rx_bytes")):
                if quantity in of_links:
                    self._records["links"][field][self._amd_links] = whole(of_links[quantity][links])
        return True

    def xids(self) -> list[Xid]:
        """The error codes that boards of the slot reported in the present tick; those of AMD report no XIDs."""
        reports = ((report.code, device) for report in self._fleet.reports for device in report.devices.tolist())
        found = [Xid(self._board_of[device], code) for code, device in reports if device in self._board_of]
        return [xid for xid in found if not self._is_amd[xid.board]]

    def afids(self, errors: Iterable[BoardError]) -> list[Xid]:
        """The AFIDs of errors of AMD's boards of the slot."""
        devices = ((error, error.node.first + error.board) for error in errors if error.maker == AMD)
        found = [(self._board_of[device], afid_of(error)) for error, device in devices if device in self._board_of]
        return [Xid(board, afid) for board, afid in found if afid]
