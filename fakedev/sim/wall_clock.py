"""When ticks are due by the clock on the wall: for timestamps, and for who does the ticks."""

from __future__ import annotations

from fakedev.sim.events import ChangeClock


class WallClock:
    """Ticks are due at equal distances since the clock was changed last.

    :param began: wall time of tick 0, in seconds since 1970.
    :param wall_per_tick: wall seconds between two ticks.
    """

    def __init__(self, began: float, wall_per_tick: float) -> None:
        self._change = ChangeClock(began, wall_per_tick)
        self._tick = 0

    def change(self, change: ChangeClock, tick: int) -> None:
        """From a tick on ticks are due at other times."""
        self._change, self._tick = change, tick

    def due_seconds(self, tick: int) -> float:
        """The wall time at which a tick is due, in seconds since 1970."""
        return self._change.wall_seconds + (tick - self._tick) * self._change.wall_per_tick
