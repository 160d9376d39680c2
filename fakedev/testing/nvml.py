"""Programs of a test that ask NVIDIA's driver: the environment in which they see the boards of its fleet."""

from __future__ import annotations

import os
from pathlib import Path

from fakedev.client import FleetError
from fakedev.spec.nvml_layout import FILE_NAME


class NoBoards(FleetError):
    """Programs cannot see the boards of a fleet; the text says why."""


class ShowsBoards:
    """A fleet whose service may write a file for NVML.

    :ivar folder: of the files of the service.
    """

    folder: Path

    def nvml_env(self, node: str = "", with_library: bool = True) -> dict[str, str]:
        """The environment of this process with what ``fakedev nvml env`` prints, for programs of a test.

        :param node: that they see; empty: the only one.
        :param with_library: False: only the command nvidia-smi sees boards; no C compiler is needed.
        :raises NoBoards: when the configuration has no ``nvml``, there is no such node, or no C compiler.
        """
        from fakedev.nvml.build import CannotBuild, built_command, built_library  # noqa: PLC0415 - few tests ask for it
        from fakedev.nvml.environment import Unreadable, node_remark, nodes_of, variables  # noqa: PLC0415

        file = nvml_file(self.folder)
        try:
            remark = node_remark(nodes_of(str(file)), node, "nvml_env(NODE)")
            library = built_library() if with_library else None
        except Unreadable as reason:
            raise NoBoards(f"{reason}; for a test, set=[\"nvml={{}}\"]") from None
        except CannotBuild as reason:
            raise NoBoards(f"{reason}; nvidia-smi alone needs none: with_library=False") from None
        if remark:
            raise NoBoards(remark)
        return dict(os.environ) | variables(library, str(file), node, os.environ, built_command().parent)


def nvml_file(folder: Path) -> Path:
    """The file for NVML of a service of a test, if its configuration has one."""
    return folder / FILE_NAME
