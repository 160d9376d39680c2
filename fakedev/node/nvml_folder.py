"""What containers get so that NVIDIA's tools see the boards: a folder of the node with the library and nvidia-smi."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from fakedev.nvml.build import COMMAND, SONAME, CannotBuild, built_library, portable_command
from fakedev.nvml.files import replace_file
from fakedev.spec import environment
from fakedev.spec.nvml_layout import FILE_NAME
from fakedev.spec.os_errors import CannotWrite

#: Where containers see the folder.
_INSIDE: Final = "/run/fakedev-nvml"
#: Folders in which the loaders of glibc look by themselves: that of Debian's family, and that of Red Hat's.
_LIBRARY_FOLDERS: Final = ("/usr/lib", "/usr/lib64")
#: Where fake-gpu-operator has it, too.
_COMMAND_PLACE: Final = f"/bin/{COMMAND}"
#: The version of the Container Device Interface that has all that is used here, and the device of the node.
_CDI_VERSION: Final = "0.3.0"
_CDI_KIND: Final = "fakedev/nvml"
_CDI_DEVICE: Final = "node"
_CDI_FILE: Final = "fakedev-nvml.json"

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
            replace_file(Path(path, COMMAND), portable_command(), 0o755)
            mounts.append(Mount(_COMMAND_PLACE, os.path.join(path, COMMAND)))
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
            {"hostPath": each.host_path, "containerPath": each.container_path, "options": ["ro", "rbind"]}
            for each in provision.mounts
        ],
    }
    devices = [{"name": _CDI_DEVICE, "containerEdits": edits}]
    return {"cdiVersion": _CDI_VERSION, "kind": _CDI_KIND, "devices": devices}
