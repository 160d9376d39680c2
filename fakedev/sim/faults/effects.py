"""What faults do to devices: when they strike, while they last, and when they are over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from fakedev.sim.boards.conditions import WITH_NODE
from fakedev.sim.faults.tick import Cut, FaultTick
from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.fault_kinds import ALL_LINKS


class Touched(NamedTuple):
    """Some devices that a fault touches in a tick.

    :ivar values: what the fault's kind takes, defaults among it.
    """

    fault_id: str
    devices: Positions
    values: Mapping[str, float]


Act = Callable[[FaultTick, Touched], None]


def _nothing(tick: FaultTick, touched: Touched) -> None:
    """No effect on devices."""


@dataclass(frozen=True)
class Effect:
    """What a fault does to devices.

    :param strike: in the first tick of each time that it happens.
    :param hold: in each tick that it lasts.
    :param recover: in the tick after.
    """

    strike: Act = _nothing
    hold: Act = _nothing
    recover: Act = _nothing

    @property
    def lasts(self) -> bool:
        """Whether it goes on for a time."""
        return self.hold is not _nothing


NOTHING: Final = Effect()


def _code(code: int) -> Act:
    return lambda tick, touched: tick.report(touched.devices, code)


def _all(*acts: Act) -> Act:
    def act(tick: FaultTick, touched: Touched) -> None:
        for each in acts:
            each(tick, touched)

    return act


def _put(name: str, value: float = 1.0) -> Act:
    return lambda tick, touched: tick.put(name, touched.devices, value)


def _put_given(name: str, value: str) -> Act:
    return lambda tick, touched: tick.put(name, touched.devices, touched.values[value])


def _count(name: str, value: str = "") -> Act:
    """One more of an error, or as many as a value says."""
    return lambda tick, touched: tick.add(name, touched.devices, touched.values.get(value, 1.0))


def _end_work(text: str) -> Act:
    """End the workloads; the name of the device comes in the place of ``{}``."""
    return lambda tick, touched: tick.end_work(touched.devices, f"{text}, terminated", touched.fault_id)


def _count_replays(tick: FaultTick, touched: Touched) -> None:
    """PCIe replays at a rate: whole ones, the same number over any stretch of time."""
    rate, end = touched.values["rate"], tick.now_seconds
    tick.add("pcie_replays", touched.devices, int(rate * end) - int(rate * (end - tick.seconds)))


def _slow_pcie(tick: FaultTick, touched: Touched) -> None:
    """What is said of lanes and generation, else the share."""
    given = {name: touched.values[name] for name in ("width", "generation") if touched.values[name]}
    for name, value in given.items():
        tick.lower(f"pcie_{name}", touched.devices, value)
    if not given:
        tick.lower("pcie_share", touched.devices, touched.values["share"])


def _strike_links(tick: FaultTick, touched: Touched) -> None:
    tick.struck.append(Cut(touched.devices, int(touched.values.get("link", ALL_LINKS))))


def _cut_links(tick: FaultTick, touched: Touched) -> None:
    """One link is down, or of all the share that is said; XID 74 says none: all are down."""
    link = int(touched.values.get("link", ALL_LINKS))
    if link == ALL_LINKS:
        tick.lower("fabric_share", touched.devices, touched.values.get("share", 0.0))
    else:
        tick.cuts.append(Cut(touched.devices, link))


_RESET: Final = _put("reset")
#: A memory row, or page, is taken out of use: which of the two follows from what the board can.
_RETIRE: Final = _all(
    _count("remapped_rows_uncorrectable", "count"),
    _count("retired_pages_double_bit", "count"),
    _put("row_remap_pending"),
)


def _away(lost: float) -> Act:
    """The board is gone, and does no work; where several faults say so, the worst counts."""
    return _all(lambda tick, touched: tick.raise_to("lost", touched.devices, lost), _put("idled"))


def _double_bit(code: int) -> Act:
    """What comes with a code of a double-bit error."""
    return _all(_count("memory_errors_uncorrectable", "count"), _RETIRE, _end_work(f"XID {code} on {{}}"))



ECC_SINGLE: Final = Effect(
    strike=_all(
        _count("memory_errors_correctable", "count"),
        _count("remapped_rows_correctable", "rows"),
        _count("retired_pages_single_bit", "rows"),
    )
)
ECC_DOUBLE: Final = Effect(_all(_double_bit(48), _code(48)))
INLET: Final = Effect(
    hold=lambda tick, touched: tick.add("inlet_rise_celsius", touched.devices, touched.values["celsius"])
)
FAN: Final = Effect(
    hold=_all(
        _put("fan_stopped"),
        lambda tick, touched: tick.scale("resistance", touched.devices, touched.values["resistance"]),
    )
)
BRAKE: Final = Effect(hold=_put("braked"))
CAP: Final = Effect(hold=_put_given("power_limit_watts", "watts"))
LOCK: Final = Effect(hold=_put_given("highest_mhz", "megahertz"))
HANG: Final = Effect(hold=_put("hung"))
_LINK_COMPANY: Final = Effect(strike=_all(_count("link_errors"), _strike_links), hold=_cut_links)
LINK: Final = replace(_LINK_COMPANY, strike=_all(_LINK_COMPANY.strike, _code(74)))
PCIE: Final = Effect(hold=_slow_pcie)
REPLAYS: Final = Effect(hold=_count_replays)
RESET: Final = Effect(strike=_all(_RESET, _end_work("Device {} reset")))
NODE_DOWN: Final = Effect(hold=_all(_away(WITH_NODE), _end_work("Node of {} down")), recover=_RESET)
_LOST_COMPANY: Final = Effect(hold=_all(_away(1.0), _end_work("Device {} lost")), recover=_RESET)
LOST: Final = replace(_LOST_COMPANY, strike=_code(79))


def xid_effect(code: int) -> Effect:
    """What NVIDIA's error of that code comes with; of codes that are not known here only the code is reported."""
    ends = _end_work(f"XID {code} on {{}}")
    dead = _all(_put("idled"), ends)
    match code:
        case 13 | 31 | 43 | 45:  # a fault of the application: its work ends
            company = Effect(strike=_all(_count("programming_errors"), ends))
        case 48 | 94:  # a double-bit error; 94: that only its application has seen
            company = Effect(_double_bit(code))
        case 95:  # one that cannot be contained: the board is of no use until it is reset
            company = Effect(_double_bit(code), dead, _RESET)
        case 61 | 62 | 119 | 120:  # the board's own processor is stuck
            company = Effect(_count("driver_errors"), dead, _RESET)
        case 63:  # a row was remapped, or a page retired
            company = Effect(_RETIRE)
        case 64:  # that has failed
            company = Effect(_put("row_remap_failure"))
        case 74:
            company = _LINK_COMPANY
        case 79:
            company = _LOST_COMPANY
        case 92:  # many single-bit errors
            company = Effect(_count("memory_errors_correctable", "count"))
        case _:
            company = NOTHING
    return Effect(_all(company.strike, _code(code)), company.hold, company.recover)
