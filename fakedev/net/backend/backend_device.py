"""Where a backend runs: its pod and node, and the device file that it puts in the place of FILENAME."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from twisted.logger import Logger


class DeviceFile:
    """The first file that matches a pattern: the one that was found first is kept, and looked for until there is one.

    :param find: the files that match the pattern now.
    """

    log = Logger()

    def __init__(self, pattern: str, find: Callable[[str], Sequence[str]]) -> None:
        self._pattern = pattern
        self._find = find
        self._path = ""
        self._is_missing = False

    def path(self) -> str:
        """The file's path; empty when no pattern was given, or nothing matches it."""
        if self._pattern and not self._path:
            paths = sorted(self._find(self._pattern))
            if len(paths) > 1:
                self.log.warn(
                    "{count} files match {pattern!r}: the first is used", count=len(paths), pattern=self._pattern
                )
            if paths:
                self._path = paths[0]
                self.log.info("{pattern!r} is {path}", pattern=self._pattern, path=self._path)
            elif not self._is_missing:
                self._is_missing = True
                self.log.warn(
                    "no file matches {pattern!r}: requests for one fail until there is one", pattern=self._pattern
                )
        return self._path


class Whereabouts:
    """What results say of where they were made."""

    def __init__(self, pod: str, node: str, device: DeviceFile) -> None:
        self._pod = pod
        self._node = node
        self._device = device

    def shown(self) -> dict[str, str]:
        """Pod, node, and the device file's base name; empty when there is none."""
        return {"pod": self._pod, "node": self._node, "device": os.path.basename(self._device.path())}
