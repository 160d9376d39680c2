"""The file ``overrides.yaml`` of NVIDIA's nvml-mock: what it shows of boards, from a tick of a node.

A writer follows a node, and writes the file with each tick. Keys and their merging: NVIDIA/k8s-test-infra,
``pkg/gpu/mocknvml/engine/config_types.go`` and ``config_override_merge.go``. The file is JSON, which YAML contains. A
key of a board replaces the same key of its profile, and null removes it, also for values that would otherwise be
drawn (``dynamic_metrics``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fakedev.base.atomic_files import replace_file
from fakedev.base.errors import CannotWrite, plain_reason
from fakedev.nvml.smi.boards import Board, Failure, Snapshot, View, read_snapshot
from fakedev.nvml.smi.fields import MIB

#: The name of the file, beside the ``config.yaml`` of nvml-mock.
OVERRIDES_FILE: Final = "overrides.yaml"
CONFIG_FILE: Final = "config.yaml"
_VERSION: Final = 1
#: Sections of nvml-mock: for each key the field of our record.
_SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "utilization": {
        "gpu": "usage", "memory": "memory_usage", "encoder": "encoder_usage", "decoder": "decoder_usage",
        "jpeg": "jpeg_usage", "ofa": "ofa_usage",
    },
    "memory": {
        "total_bytes": "memory_total", "reserved_bytes": "memory_reserved", "used_bytes": "memory_used",
        "free_bytes": "memory_free",
    },
    "power": {
        "current_draw_mw": "power", "enforced_limit_mw": "power_limit", "default_limit_mw": "power_limit_default",
        "min_limit_mw": "power_limit_min", "max_limit_mw": "power_limit_max", "total_energy_consumption_mj": "energy",
    },
    "thermal": {"temperature_gpu_c": "temperature", "temperature_memory_c": "memory_temperature"},
    "clocks": {
        "graphics_current": "core_clock", "sm_current": "core_clock", "memory_current": "memory_clock",
        "video_current": "video_clock",
    },
    "pcie": {
        "current_link_gen": "pcie_generation", "current_link_width": "pcie_width", "replay_counter": "pcie_replays",
    },
    "remapped_rows": {"correctable": "remapped_corrected", "uncorrectable": "remapped_uncorrected"},
}  # fmt: skip
#: Bits of NVML's mask of reasons for lower clocks, by nvml-mock's names.
_REASONS: Final = {
    "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}  # fmt: skip


def overrides_text(snapshot: Snapshot) -> str:
    """The content of the file for a tick of a node."""
    devices = {str(board.number): _overrides_of(board) for board in snapshot.boards}
    return json.dumps({"version": _VERSION, "devices": devices}, separators=(",", ":")) + "\n"


def _overrides_of(board: Board) -> dict[str, Any]:
    view = board.view
    lost = {"mode": "lost", "xid": {"code": view.count("xid")}} if view.count("xid") else {"mode": "lost"}
    found: dict[str, Any] = {"dynamic_metrics": None, "failure": lost if board.is_lost else None}
    for section, keys in _SECTIONS.items():
        values = {key: view.number(field) for key, field in keys.items()}
        found[section] = {key: number for key, number in values.items() if number is not None}
    for key, field in (("tx_throughput_kbps", "pcie_sent"), ("rx_throughput_kbps", "pcie_received")):
        rate = view.number(field)
        if rate is not None:
            found["pcie"][key] = (rate + 512) // 1024
    for key, field in (("pending", "remap_pending"), ("failure_occurred", "remap_failure")):
        flag = view.number(field)
        if flag is not None:
            found["remapped_rows"][key] = bool(flag)
    mask, state, fan = (view.number(name) for name in ("throttle_reasons", "performance_state", "fan_speed"))
    if mask is not None:
        found["clocks_throttle_reasons"] = {name: bool(mask & bit) for name, bit in _REASONS.items()}
    if state is not None:
        found["performance_state"] = f"P{state}"
    if fan is not None:
        found["fan"] = {"count": 1, "speed_percent": str(fan)}
    # Counters since the last reset and those of all time are the same, as in the exporters' pages.
    found["ecc"] = {"errors": {scope: _errors(view) for scope in ("volatile", "aggregate")}}
    found["processes"] = [_process(process) for process in board.processes]
    return {name: value for name, value in found.items() if value != {}}


def _errors(view: View) -> dict[str, Any]:
    found = {}
    for key, name in (("single_bit", "corrected"), ("double_bit", "uncorrected")):
        memory, cache = (view.number(f"{place}_{name}") for place in ("memory", "cache"))
        found[key] = {"device_memory": memory or 0, "l2_cache": cache or 0, "total": (memory or 0) + (cache or 0)}
    return found


def _process(process: View) -> dict[str, Any]:
    fields = {"sm_util": "usage", "mem_util": "memory_usage", "enc_util": "encoder_usage", "dec_util": "decoder_usage"}
    return {
        "pid": process.count("pid"),
        "type": "G" if process.number("is_graphics") == 1 else "C",
        "name": process.text("name"),
        "used_memory_mib": process.count("memory_used") // MIB,
        **{key: process.count(field) for key, field in fields.items()},
    }


#: Seconds between two looks: the shortest tick that is followed. nvml-mock itself looks once a second.
LOOK_SECONDS: Final = 0.25
#: All users may read the file, as those of nvml-mock.
_MODE: Final = 0o644


class OverrideWriter:
    """Writes the file as long as a service writes its own; then it removes it, so that nothing old looks alive.

    :param folder: with the ``config.yaml`` of nvml-mock.
    :param environ: names the file of the service and the node.
    :param say: tells the user, once for each change.
    :raises CannotWrite: when this is no folder of nvml-mock.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._target, self._environ, self._say = folder / OVERRIDES_FILE, environ, say
        self._said: str | None = None
        self._tick: int | None = None
        try:
            if not (folder / CONFIG_FILE).is_file():
                reason = f"there is no {CONFIG_FILE}: name the folder with that of nvml-mock, as driver/config"
                raise CannotWrite(str(folder), reason)
        except OSError as reason:
            raise CannotWrite(str(folder), plain_reason(reason)) from None

    def look(self) -> None:
        """Write the present tick, if it is new.

        :raises CannotWrite: when the file cannot be written.
        """
        try:
            snapshot = read_snapshot(self._environ)
        except Failure as failure:
            self._tell(f"{failure.reason}: the boards of nvml-mock have the values of their profile until then")
            self.remove()
            return
        tick = snapshot.slot.number("tick")
        if tick != self._tick:
            replace_file(self._target, overrides_text(snapshot).encode(), _MODE)
            self._tick = tick
        name = snapshot.node.text("name")
        self._tell(f"{self._target} follows {len(snapshot.boards)} boards of {name}")

    def remove(self) -> None:
        """The boards of nvml-mock have the values of their profile again."""
        if self._tick is not None:
            self._tick = None
            with suppress(OSError):
                self._target.unlink()

    def _tell(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._say(text)
