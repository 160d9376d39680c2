"""The module ``amdsmi``: its session, handles, and all its names.

``readings.py`` has what its functions return. A call reads the present tick; without a service it raises what the real
module raises without a driver. A lost board is not listed, and calls with a handle from before find nothing of it.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from types import ModuleType
from typing import Any, Final

from fakedev.nvml.amd import readings
from fakedev.nvml.amd.amdsmi_names import (
    EXCEPTIONS,
    INVALID,
    NAMES,
    NO_DRIVER,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_INITIALIZED,
    UNEXPECTED_DATA,
    AmdSmiBdfFormatException,
    AmdSmiLibraryException,
    AmdSmiParameterException,
)
from fakedev.nvml.amd.cper import REPORTED, Source, afids_of, cper_of, header_of, severity_of
from fakedev.nvml.amd.gpu import Gpu, unsupported
from fakedev.nvml.smi.boards import AMD, Board, Failure, read_events, read_snapshot

VERSION: Final = "7.0.2"
#: The version of the library that ROCm 7.0.2 has.
_LIBRARY: Final[dict[str, int | str]] = {"major": 26, "minor": 0, "release": 2, "build": "fakedev"}
_BDF: Final = re.compile(r"(?:([0-9a-fA-F]{4}):)?([0-9a-fA-F]{2}):([01][0-9a-fA-F])\.([0-7])")
_PROCESS: Final = ("process_id", "vram_usage", "cu_occupancy")
_UTILIZATION: Final = "AmdSmiUtilizationCounterType"
#: The most records that a call returns, as the real module does; the number of a result that says that there are more.
_MOST_RECORDS, _MORE_DATA = 20, 39


class Handle:
    """``amdsmi_processor_handle``: a board, or a partition of one, by its PCI address."""

    def __init__(self, bdf: str) -> None:
        self.value = bdf

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"amdsmi_processor_handle({self.value})"


def gpus_of(boards: list[Board]) -> list[Gpu]:
    """The boards, or their partitions, that the driver shows: a lost board is gone."""
    addresses = {board.place: board.view.text("pci_bus_id")[4:].lower() for board in boards}
    units = [
        (unit, partition)
        for board in boards
        if not board.is_lost
        for partition, unit in enumerate(board.of_parts() or [board])
    ]
    return [Gpu(unit, number, partition, addresses) for number, (unit, partition) in enumerate(units)]


class Library:
    """The functions of the module; those of :mod:`fakedev.nvml.amd.readings` are added to them.

    :param environ: names the file and the node.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._uses = 0

    def gpus(self) -> list[Gpu]:
        """What the driver shows in the present tick.

        :raises AmdSmiLibraryException: before ``amdsmi_init``, and without a service.
        """
        if not self._uses:
            raise AmdSmiLibraryException(NOT_INITIALIZED)
        try:
            return gpus_of(read_snapshot(self._environ, AMD).boards)
        except Failure:
            raise AmdSmiLibraryException(NO_DRIVER) from None

    def gpu(self, handle: object) -> Gpu:
        """What a handle names.

        :raises AmdSmiLibraryException: also for a board that is lost or was removed.
        """
        if not isinstance(handle, Handle):
            raise AmdSmiParameterException(handle, Handle)
        found = next((gpu for gpu in self.gpus() if gpu.bdf == handle.value), None)
        if found is None:
            raise unsupported()
        return found

    def amdsmi_init(self, flag: int = 2) -> None:
        """Begin to use the library; the file says on standard error why there is no driver."""
        try:
            read_snapshot(self._environ, AMD)
        except Failure as failure:
            if failure.reason:
                sys.stderr.write(f"fakedev: {failure.reason}\n")
            raise AmdSmiLibraryException(NO_DRIVER) from None
        self._uses += 1

    def amdsmi_shut_down(self) -> None:
        """End a use."""
        if not self._uses:
            raise AmdSmiLibraryException(NOT_INITIALIZED)
        self._uses -= 1

    def amdsmi_get_processor_handles(self) -> list[Handle]:
        """The handles of all GPUs of the node."""
        return [Handle(gpu.bdf) for gpu in self.gpus()]

    def amdsmi_get_socket_handles(self) -> list[Handle]:
        """The handles of the boards: a socket is a board."""
        return [Handle(gpu.bdf) for gpu in self.gpus() if not gpu.partition]

    def amdsmi_get_socket_info(self, socket_handle: Handle) -> str:
        """The PCI address of a board, without the function."""
        return self.gpu(socket_handle).bdf.partition(".")[0]

    def amdsmi_get_processor_handle_from_bdf(self, bdf: str) -> Handle:
        """The handle of a PCI address."""
        match = _BDF.fullmatch(bdf) if isinstance(bdf, str) else None
        if match is None:
            raise AmdSmiBdfFormatException(bdf)
        handle = Handle(f"{match[1] or '0000'}:{match[2]}:{match[3]}.{match[4]}".lower())
        if handle not in self.amdsmi_get_processor_handles():
            raise AmdSmiLibraryException(NOT_FOUND)
        return handle

    def amdsmi_get_link_topology_nearest(self, processor_handle: Handle, link_type: int) -> dict[str, list[Handle]]:
        """The other GPUs that a kind of link leads to, the nearest first."""
        gpu = self.gpu(processor_handle)
        ways = [
            (way["hops"], other.bdf)
            for other in self.gpus()
            if other.bdf != gpu.bdf and (way := readings.topo_get_link_type(gpu, other))["type"] == link_type
        ]
        return {"processor_list": [Handle(bdf) for _, bdf in sorted(ways)]}

    def amdsmi_get_utilization_count(
        self, processor_handle: Handle, counter_types: list[Any]
    ) -> list[dict[str, int | str]]:
        """Use of the engine and of the memory in percent: accumulated counters are not simulated."""
        gpu = self.gpu(processor_handle)
        kinds = NAMES.enumerations[_UTILIZATION]
        names = {kinds.COARSE_GRAIN_GFX_ACTIVITY: "usage", kinds.COARSE_GRAIN_MEM_ACTIVITY: "memory_usage"}
        if not isinstance(counter_types, list) or any(counter_type not in names for counter_type in counter_types):
            raise AmdSmiLibraryException(INVALID)
        rows: list[dict[str, int | str]] = [{"timestamp": gpu.board.slot.count("wall_time") * 1000}]
        for each in counter_types:
            rows.append({"type": kinds(each).name, "value": gpu.must(names[each]), "fine_value": gpu.must(names[each])})
        return rows

    def amdsmi_get_gpu_compute_process_info(self) -> list[dict[str, Any]]:
        return [
            {**dict(zip(_PROCESS, (each[key] for key in ("pid", "mem", "cu_occupancy")), strict=True)), "sdma_usage": 0}
            for gpu in self.gpus()
            for each in readings.get_gpu_process_list(gpu)
        ]

    def amdsmi_get_gpu_compute_process_info_by_pid(self, pid: int) -> dict[str, Any]:
        for process in self.amdsmi_get_gpu_compute_process_info():
            if process["process_id"] == pid:
                return process
        raise AmdSmiLibraryException(NOT_FOUND)

    def amdsmi_get_gpu_compute_process_gpus(self, pid: int) -> list[int]:
        """The numbers of the GPUs that a process uses."""
        return [
            gpu.number for gpu in self.gpus() if any(each["pid"] == pid for each in readings.get_gpu_process_list(gpu))
        ]

    def amdsmi_get_gpu_cper_entries(
        self, processor_handle: Handle, severity_mask: int, buffer_size: int = 4 * 1048576, cursor: int = 0
    ) -> tuple[dict[int, dict[str, Any]], int, list[dict[str, Any]], int]:
        """Records of errors by number, the cursor for the next call, their bytes, and the number of the result.

        :param severity_mask: a bit for each severity.
        :param buffer_size: room for the records, in bytes.
        :param cursor: 0 at first.
        """
        gpu = self.gpu(processor_handle)
        if gpu.partition:
            raise unsupported()
        vendor_device, place = gpu.board.view.count("pci_device_id"), gpu.board.view.count("index")
        source = Source(vendor_device & 0xFFFF, vendor_device >> 16, place)
        records: list[bytes] = []
        for event in read_events(self._environ):
            number, afid = event.count("sequence"), event.count("xid")
            if event.number("board") != gpu.board.place or number <= cursor or afid not in REPORTED:
                continue
            if severity_mask >> severity_of(afid) & 1:
                record = cper_of(afid, source, event.count("wall_time"), number)
                if len(records) == _MOST_RECORDS or sum(map(len, records)) + len(record) > buffer_size:
                    return (*_entries(records, cursor), _MORE_DATA)
                records.append(record)
            cursor = number
        return (*_entries(records, cursor), 0)

    def amdsmi_get_afids_from_cper(self, cper_afid_data: Any) -> tuple[list[int], int]:
        """The AFIDs of a record, or of several; and how many they are."""
        found: list[int] = []
        is_one = isinstance(cper_afid_data, (bytes, bytearray))
        for record in [{"bytes": cper_afid_data}] if is_one else cper_afid_data:
            if not isinstance(record, dict) or "bytes" not in record:
                raise AmdSmiParameterException(record, dict)
            try:
                found += map(int, afids_of(bytes(byte & 0xFF for byte in record["bytes"])))
            except ValueError:
                raise AmdSmiLibraryException(UNEXPECTED_DATA) from None
        return found, len(found)

    def amdsmi_get_lib_version(self) -> dict[str, int | str]:
        """The version of the library, which is not that of ROCm."""
        return dict(_LIBRARY)

    def amdsmi_get_rocm_version(self) -> tuple[bool, str]:
        """The version of ROCm whose module this is like."""
        return True, VERSION

    def amdsmi_status_code_to_string(self, status: int) -> str:
        """The name of a result."""
        return NAMES.results.get(int(status), "AMDSMI_STATUS_UNKNOWN_ERROR")

    def names(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: getattr(self, name) for name in dir(self) if name.startswith("amdsmi_")}
        for name in NAMES.missing:
            found[name] = self._missing(NO_PERMISSION if name.startswith(("amdsmi_set_", "amdsmi_reset_")) else 0)
        for name, function in vars(readings).items():
            if name.startswith(("get_", "topo_", "is_", "gpu_")) and inspect.isfunction(function):
                found[f"amdsmi_{name}"] = self._call(function)
        return {**found, **NAMES.enumerations, **{exception.__name__: exception for exception in EXCEPTIONS}}

    def _call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        count = sum(parameter.annotation == "Gpu" for parameter in inspect.signature(function).parameters.values())

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            given = [*arguments, *named.values()]
            if len(given) < count:
                raise TypeError(f"amdsmi_{function.__name__}: {count} processor handles are missing")
            return function(*map(self.gpu, given[:count]), *given[count:])

        return call

    def _missing(self, code: int) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            for handle in (*arguments, *named.values()):
                if isinstance(handle, Handle):
                    self.gpu(handle)
            raise AmdSmiLibraryException(code) if code else unsupported()

        return call


def _entries(
    records: list[bytes], cursor: int
) -> tuple[dict[int, dict[str, Any]], int, list[dict[str, Any]]]:
    rows = [{"bytes": list(record), "size": len(record)} for record in records]
    return dict(enumerate(map(header_of, records))), cursor, rows


def install(package: str, namespace: dict[str, Any]) -> None:
    """Make a package the module ``amdsmi``.

    :param package: its name.
    :param namespace: its names.
    """
    names = Library(os.environ).names()
    wrapper = ModuleType(f"{package}.amdsmi_wrapper", "Constants of the C library.")
    vars(wrapper).update(NAMES.constants, amdsmi_processor_handle=Handle, amdsmi_socket_handle=Handle)
    interface, exceptions = (ModuleType(f"{package}.amdsmi_{part}") for part in ("interface", "exception"))
    vars(interface).update(NAMES.constants, **names, amdsmi_wrapper=wrapper)
    vars(exceptions).update({exception.__name__: exception for exception in EXCEPTIONS}, amdsmi_wrapper=wrapper)
    for module in (wrapper, interface, exceptions):
        sys.modules[module.__name__] = module
        namespace[module.__name__.rpartition(".")[2]] = module
    namespace.update(names, __version__=VERSION)
