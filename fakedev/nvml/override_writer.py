"""Follows a node, and writes the file of nvml-mock with each tick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from fakedev.nvml.files import replace_file
from fakedev.nvml.overrides import CONFIG_FILE, OVERRIDES_FILE, overrides_text
from fakedev.nvml.smi.failures import Failure
from fakedev.nvml.smi.snapshot import read_snapshot
from fakedev.spec.os_errors import CannotWrite, plain_reason

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
