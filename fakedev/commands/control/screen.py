"""The terminal view of ``fakedev top``: its lines as text, and the terminal that shows them."""

from __future__ import annotations

import os
import select
import shutil
import termios
import tty
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TextIO

_BAR_CHARACTERS: Final = 20
#: ANSI colours of conditions; red for the others but ``well``.
_COLOURS: Final = {"well": "", "power": "33", "heat": "33", "error": "35", "hung": "35"}
_RED: Final = "31"
_KEYS: Final = {b"\x1b[A": -1, b"\x1b[B": 1, b"\x1b[5~": -20, b"\x1b[6~": 20, b"k": -1, b"j": 1}
#: From here on a condition is trouble: a board at its power limit works as designed.
_FIRST_TROUBLE: Final = "heat"


@dataclass
class View:
    """What the user chose.

    :ivar first: the first device that is shown.
    :ivar is_troubled: only devices in trouble are shown.
    """

    first: int = 0
    is_troubled: bool = False


def screen(
    head: list[str], outline: Mapping[str, Any], frame: Mapping[str, Any], size: tuple[int, int], view: View
) -> list[str]:
    """The lines of the screen: the head, and a line for each device that fits.

    :param outline, frame: as in the events ``fleet`` and ``tick`` of the live stream.
    :param size: columns and lines of the terminal.
    :param view: its ``first`` is brought into the range of the devices.
    """
    columns, lines = size
    names = [f"{name}/{index}" for name, pool in outline["nodes"] for index in range(outline["pools"][pool][2])]
    least = outline["health"].index(_FIRST_TROUBLE)
    chosen = [place for place in range(len(names)) if not view.is_troubled or frame["health"][place] >= least]
    room = max(1, lines - len(head) - 2)
    view.first = max(0, min(view.first, len(chosen) - room))
    width = max((len(names[place]) for place in chosen[view.first : view.first + room]), default=0)
    width = max(width, len("device"))
    title = f"{'device':{width}}  {'usage':{_BAR_CHARACTERS + 5}}  {'power':>7}  {'temp':>5}  condition  work"
    shown = [_device(place, names[place], width, outline, frame) for place in chosen[view.first : view.first + room]]
    last = min(view.first + room, len(chosen))
    keys = f"{view.first + 1 if chosen else 0}-{last} of {len(chosen)}   q quit  arrows scroll  t in trouble"
    keys += " (on)" if view.is_troubled else ""
    rows = [*((line, "") for line in head), (title, "1"), *shown]
    rows = [*rows[: lines - 1], (keys, "2")]
    return [f"\x1b[{colour}m{line[:columns]}\x1b[0m" if colour else line[:columns] for line, colour in rows]


def _device(
    place: int, name: str, width: int, outline: Mapping[str, Any], frame: Mapping[str, Any]
) -> tuple[str, str]:
    """The line of a device, and its colour."""

    def value(key: str, unit: str) -> str:
        return "-" if frame[key][place] < 0 else f"{frame[key][place]} {unit}"

    condition = outline["health"][frame["health"][place]]
    full = max(0, frame["usage"][place]) * _BAR_CHARACTERS // 100
    usage = f"{'█' * full}{'░' * (_BAR_CHARACTERS - full)}{value('usage', '%'):>5}"
    count, *names = frame["work"][place] if "work" in frame else (0,)
    work = ", ".join(names) + (f" and {count - len(names)} more" if count > len(names) else "")
    line = f"{name:{width}}  {usage}  {value('power', 'W'):>7}  {value('temperature', 'C'):>5}  {condition:9}  {work}"
    return line.rstrip(), _COLOURS.get(condition, _RED)


class Terminal:
    """A context in which the terminal shows whole screens and gives single keys."""

    def __init__(self, keyboard: int, output: TextIO) -> None:
        self._keyboard = keyboard
        self._output = output
        self._view = View()

    def __enter__(self) -> Self:
        self._settings = termios.tcgetattr(self._keyboard)
        tty.setcbreak(self._keyboard)
        self._output.write("\x1b[?1049h\x1b[?25l")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.write("\x1b[?25h\x1b[?1049l")
        self._output.flush()
        termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._settings)

    def show(self, made: Callable[[tuple[int, int], View], list[str]]) -> bool:
        """Show a screen, after the keys that were pressed; False once that is ``q``.

        :param made: the lines of a screen of some columns and lines, for a view.
        """
        while select.select([self._keyboard], [], [], 0)[0]:
            key = os.read(self._keyboard, 64)
            if key in (b"q", b"Q", b""):
                return False
            if key == b"t":
                self._view.is_troubled = not self._view.is_troubled
            self._view.first += _KEYS.get(key, 0)
        lines = made(shutil.get_terminal_size(), self._view)  # 80 by 24 where the terminal does not tell
        self._output.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines[:-1]) + f"{lines[-1]}\x1b[K\x1b[J")
        self._output.flush()
        return True
