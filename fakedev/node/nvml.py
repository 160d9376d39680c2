"""NVML on the node: the folder with the library and nvidia-smi for containers, and the node's file for NVML.

With the folder NVIDIA's tools in containers see the boards. The file has what the service reports of the boards, and
is written once a second.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from fakedev.base import environment
from fakedev.base.atomic_files import replace_file
from fakedev.base.binary_records import NUMBER_BYTES
from fakedev.base.errors import CannotWrite, FieldError
from fakedev.kubernetes.nodes.node_view import PreparedDevice, slot_from
from fakedev.node.kubelet import OpenProblem
from fakedev.nvml.library import AMD_COMMAND, COMMAND, SONAME, CannotBuild, built_library, portable_command
from fakedev.nvml.map_file import MapFile
from fakedev.nvml.records import ABSENT, BOARD, FILE_NAME, SLOT, Counts, head_of
from fakedev.nvml.smi.boards import AMD, NVIDIA

#: Where containers see the folder.
_INSIDE: Final = "/run/fakedev-nvml"
#: Folders that the loaders of glibc search by default, in Debian's family and in Red Hat's.
_LIBRARY_FOLDERS: Final = ("/usr/lib", "/usr/lib64")
#: The commands of makers by how the names of their resources begin; fake-gpu-operator has its own in this folder, too.
COMMANDS: Final = {"nvidia.com/": f"/bin/{COMMAND}", "amd.com/": f"/bin/{AMD_COMMAND}"}
#: The variables that name the boards that a container sees.
VISIBLE: Final = {"nvidia.com/": NVIDIA.visible, "amd.com/": AMD.visible}
#: The version of the Container Device Interface that has all that is used here, and the device of the node.
_CDI_VERSION: Final = "0.3.0"
_CDI_KIND: Final = "fakedev/nvml"
_CDI_DEVICE: Final = "node"
_CDI_FILE: Final = "fakedev-nvml.json"
_CDI_CLAIMS: Final = "fakedev/claim"

_log = logging.getLogger("fakedev.node")


class Mount(NamedTuple):
    """A file or folder of the node, which a container sees but cannot change."""

    container_path: str
    host_path: str


class Provision(NamedTuple):
    """What a container with devices gets.

    :ivar cdi_device: the name of a device of the Container Device Interface that gives the same; empty: none.
    """

    envs: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()
    cdi_device: str = ""


class NvmlFolder:
    """The folder, which has the same path in this container as on the node.

    :param path: of the folder; empty: containers get the names of the node alone.
    :param cdi_folder: where the container runtime finds devices; empty: there is none.
    :raises CannotWrite: when the folder cannot be written.
    :ivar provision: for each container.
    :ivar map_path: of the file that the library reads; empty without a folder.
    """

    def __init__(self, node: str, path: str, cdi_folder: str = "") -> None:
        names = {environment.NODE: node, "NODE_NAME": node}
        self.provision, self.map_path, self._cdi_path = Provision(names), "", ""
        if not path:
            return
        self.map_path = os.path.join(path, FILE_NAME)
        # The folder and not the file: a new file that takes the place of the old one is seen.
        mounts = [Mount(_INSIDE, path)]
        try:
            os.makedirs(path, mode=0o755, exist_ok=True)
            for place in COMMANDS.values():
                name = os.path.basename(place)
                replace_file(Path(path, name), portable_command(name), 0o755)
                mounts.append(Mount(place, os.path.join(path, name)))
            try:
                replace_file(Path(path, SONAME), built_library().read_bytes(), 0o755)
                mounts += [Mount(f"{each}/{SONAME}", os.path.join(path, SONAME)) for each in _LIBRARY_FOLDERS]
            except CannotBuild as reason:
                _log.warning("containers get nvidia-smi, but not the NVML library: %s", reason)
            self.provision = Provision({**names, environment.NVML_FILE: f"{_INSIDE}/{FILE_NAME}"}, tuple(mounts))
            if cdi_folder:
                self._cdi_path = os.path.join(cdi_folder, _CDI_FILE)
                content = json.dumps(cdi_specification(self.provision), indent=1).encode()
                replace_file(Path(self._cdi_path), content, 0o644)
                self.provision = self.provision._replace(cdi_device=f"{_CDI_KIND}={_CDI_DEVICE}")
        except OSError as reason:
            raise CannotWrite(str(reason.filename or path), reason) from None

    def claim_devices(self, uid: str, devices: Sequence[PreparedDevice]) -> list[list[str]]:
        """For each device of a claim the CDI devices that its containers get; writes the specification of the claim.

        A container sees the boards of the requests that it uses; of two claims in one container, the last one's.

        :raises OSError: when it cannot be written.
        """
        if not self._cdi_path:
            return [[] for _ in devices]
        ids: dict[str, list[str]] = {}
        for device in devices:
            ids.setdefault(device.request, []).append(device.id)
        made, names = [], []
        for device in devices:
            name = f"{uid}-{device.device}"
            visible = ",".join(ids[device.request])
            env = [f"{variable}={visible}" for variable in ("FAKEDEV_DEVICES", *VISIBLE.values())]
            made.append({"name": name, "containerEdits": {"env": env}})
            # What all containers get, once for each request: the kubelet names a device by the first of its names.
            of_node = [self.provision.cdi_device] if device.id == ids[device.request][0] else []
            names.append([f"{_CDI_CLAIMS}={name}", *of_node])
        content = {"cdiVersion": _CDI_VERSION, "kind": _CDI_CLAIMS, "devices": made}
        replace_file(self._claim_file(uid), json.dumps(content, indent=1).encode(), 0o644)
        return names

    def forget_claim(self, uid: str) -> None:
        """No container has the devices of a claim any more."""
        if self._cdi_path:
            with suppress(OSError):
                os.unlink(self._claim_file(uid))

    def _claim_file(self, uid: str) -> Path:
        return Path(self._cdi_path).with_name(f"fakedev-claim-{os.path.basename(uid)}.json")

    def remove(self) -> None:
        """Take away what new containers would get; running ones keep their files."""
        if self._cdi_path:
            with suppress(OSError):
                os.unlink(self._cdi_path)


def cdi_specification(provision: Provision) -> dict[str, object]:
    """The specification of a device that gives a container the same as a device plugin's answer.

    Keys: SPEC.md of the Container Device Interface (tags.cncf.io/container-device-interface), version 0.3.0.
    """
    edits = {
        "env": [f"{name}={value}" for name, value in provision.envs.items()],
        "mounts": [
            {"hostPath": mount.host_path, "containerPath": mount.container_path, "options": ["ro", "rbind"]}
            for mount in provision.mounts
        ],
    }
    devices = [{"name": _CDI_DEVICE, "containerEdits": edits}]
    return {"cdiVersion": _CDI_VERSION, "kind": _CDI_KIND, "devices": devices}


#: Seconds between requests; the service has no newer ticks than its own clock's.
_ASK_SECONDS: Final = 1.0
#: All users may read the file.
_MODE: Final = 0o644

#: Sends a request to the service.
Send = Callable[[str, Mapping[str, object]], Future[Mapping[str, object]]]


class NvmlMirror:
    """Writes the file. The service's answers are its heartbeat: without them readers find no driver after 10 s.

    All methods are called in the program's thread.

    :param post: runs a call in the program's thread.
    :param monotonic_ns: CLOCK_MONOTONIC.
    """

    def __init__(
        self, path: str, send: Send, post: Callable[[Callable[[], None]], None], monotonic_ns: Callable[[], int]
    ) -> None:
        self._path, self._send, self._post, self._monotonic_ns = path, send, post, monotonic_ns
        self._file: MapFile | None = None
        self._counts: Counts | None = None
        self._xids: list[int] = []
        self._due_seconds = 0.0
        self._is_asked = False
        self._problem = OpenProblem(_log, "the file for NVML")

    def turn(self, now: float, is_attached: bool) -> None:
        """Ask the service, if it is time; one question at a time."""
        if is_attached and not self._is_asked and now >= self._due_seconds:
            self._is_asked, self._due_seconds = True, now + _ASK_SECONDS
            self._send("boards", {}).add_done_callback(lambda done: self._post(partial(self._answered, done)))

    def stop(self) -> None:
        """Tell readers that nothing follows."""
        if self._file is not None:
            self._file.end()
            self._file = None

    def _answered(self, answer: Future[Mapping[str, object]]) -> None:
        self._is_asked = False
        error = answer.exception()
        if error is None:
            try:
                self._write(*slot_from(answer.result()))
            except (OSError, CannotWrite, FieldError) as reason:
                error = reason
        if error is None:
            self._problem.over()
        else:
            self._problem.met(str(error))

    def _write(self, counts: Counts, content: bytes) -> None:
        now_ns = self._monotonic_ns()
        if self._file is None or counts != self._counts:
            old = self._file
            file = MapFile(self._path, _MODE, counts, now_ns, is_ours=old is not None)
            file.write_slot(content)
            file.show()
            self._file, self._counts, self._xids = file, counts, _xids(counts, content)
            if old is not None:
                old.end(is_replaced=True)
            return
        self._file.write_slot(content)
        before, self._xids = self._xids, _xids(counts, content)
        for board, (code, last) in enumerate(zip(self._xids, before, strict=True)):
            if code not in (last, 0, ABSENT):
                tick, wall_time = (_number(content, SLOT.offsets[name]) for name in ("tick", "wall_time"))
                self._file.add_event(
                    {"board": board, "gpu_instance": ABSENT, "xid": code, "tick": tick, "wall_time": wall_time}
                )
        self._file.beat(now_ns)


def _xids(counts: Counts, content: bytes) -> list[int]:
    """The last error code of each board: of a code that comes twice in a row only the first is seen."""
    first = int(head_of(counts)["boards_in_slot"]) + BOARD.offsets["xid"]
    return [_number(content, first + board * BOARD.size) for board in range(counts.boards)]


def _number(content: bytes, place: int) -> int:
    return int.from_bytes(content[place : place + NUMBER_BYTES], sys.byteorder, signed=True)
