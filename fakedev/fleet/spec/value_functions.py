"""Value functions: the value of an activity as a function of t, the seconds since the activity began.

The activity lasts L seconds. A plain number is a constant value. The table has the functions, and the integrals from 0
to t from which ticks compute means (:mod:`fakedev.fleet.workloads.profile`; P, D, N and n as written here):

=========================== =================================================== ======================================
function                    value at t                                          integral from 0 to t
=========================== =================================================== ======================================
v                           v                                                   v t
ramp(a,b)                   a + (b-a) t / L                                     a t + (b-a) t^2 / (2 L)
sine(m,A,P)                 m + A sin(2 pi t / P)                               m t + A (P / pi) sin^2(pi t / P)
square(a,b,P,duty)          b in the first duty P seconds of each P, else a     a t + (b-a) H, with D = duty P and
                                                                                H = D floor(t/P) + min(t mod P, D)
spike(a,b,D,P)              b in the last D seconds of each P, else a           a t + (b-a) H, with H =
                                                                                D floor(t/P) + max(0, t mod P - P + D)
random(a,b,N)               a + (b-a) u(n), n = floor(t/N)                      the sum over the intervals up to t
increase(a,b,N)             a + (b-a) (n + u(n)) / ceil(L/N)                    the sum over the intervals up to t
daily(a,b,H)                a + (b-a) g, with g in 0 to 1: see below            in closed form
steps(v1,...,vk)            v(i), i = floor(k t / L) + 1                        the sum over the parts up to t
=========================== =================================================== ======================================

u(n) is uniform in 0 to 1, and depends on the workload, the metric, the run through the profile, the activity and n.
g follows the wall clock (UTC): it is high around the time H after midnight and low twelve hours later, with smaller
waves that all replicas of a service share. ``ramp``, ``increase`` and ``steps`` need an end; ``daily`` has none.
Imports no NumPy: small commands use it.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fakedev.base.errors import did_you_mean
from fakedev.base.units import format_number, parse_number, parse_seconds

#: Much shorter periods would repeat more often than a float can count.
SHORTEST_SECONDS: Final = 1e-6
LONGEST_SECONDS: Final = 1e10
DAY_SECONDS: Final = 86_400.0
#: The most values of one ``steps``.
MAX_STEPS: Final = 10_000
_CALL: Final = re.compile(r"([A-Za-z][A-Za-z-]*)\s*\((.*)\)", re.DOTALL)


@dataclass(frozen=True)
class Function:
    """A value that changes with time; arguments that are seconds or shares are plain numbers."""

    name: str
    arguments: tuple[float, ...]


#: An activity's value: a constant or a function.
Value = float | Function


class Parameter(enum.Enum):
    """The kind of a function's argument."""

    VALUE = "a value, in the unit of what it is a value of"
    SECONDS = "a duration, as 90s, or seconds"
    SHARE = "a share, 0 to 1"


@dataclass(frozen=True)
class Form:
    """The form of a function's text.

    :param parameters: the kind of each argument; ``steps`` repeats its only parameter.
    :param usage: for messages and documents.
    :param defaults: of optional arguments at the end.
    :param has_end: whether it extends over its activity, which therefore needs an end.
    """

    usage: str
    parameters: tuple[Parameter, ...]
    defaults: tuple[float, ...] = ()
    has_end: bool = False
    is_list: bool = False


_V, _S = Parameter.VALUE, Parameter.SECONDS
FORMS: Final[dict[str, Form]] = {
    "ramp": Form("ramp(FROM,TO)", (_V, _V), has_end=True),
    "sine": Form("sine(MEAN,AMPLITUDE,PERIOD)", (_V, _V, _S)),
    "square": Form("square(LOW,HIGH,PERIOD[,DUTY])", (_V, _V, _S, Parameter.SHARE), defaults=(0.5,)),
    "spike": Form("spike(BASE,PEAK,DURATION,EVERY)", (_V, _V, _S, _S)),
    "random": Form("random(LOW,HIGH,EVERY)", (_V, _V, _S)),
    "increase": Form("increase(LOW,HIGH,EVERY)", (_V, _V, _S), has_end=True),
    "daily": Form("daily(LOW,HIGH[,PEAK])", (_V, _V, _S), defaults=(15 * 3600.0,)),
    "steps": Form("steps(VALUE,...)", (_V,), has_end=True, is_list=True),
}
#: Functions with random values; their third argument is the time between draws.
DRAWN: Final = ("random", "increase")
#: The shortest activity, and the shortest time between two draws, of a workload with random values is this part of a
#: tick.
MAX_DRAWS: Final = 50
#: The most activities of a workload in a tick whose lengths are drawn; those after them last as long as is written.
MAX_LENGTHS: Final = 16


def needs_end(value: Value) -> bool:
    """Whether a value extends over its activity, so that the activity must have an end."""
    return isinstance(value, Function) and FORMS[value.name].has_end


def bounds(value: Value) -> tuple[float, float]:
    """The lowest and the highest number of a value."""
    if not isinstance(value, Function):
        return value, value
    if value.name == "sine":
        mean, amplitude = value.arguments[:2]
        return mean - amplitude, mean + amplitude
    ends = value.arguments if value.name == "steps" else value.arguments[:2]
    return min(ends), max(ends)


def highest(value: Value) -> float:
    return bounds(value)[1]


def scaled(value: Value, factor: float) -> Value:
    """A value times a factor."""
    if not isinstance(value, Function):
        return value * factor
    kinds = _parameters(value.name, len(value.arguments))
    return Function(
        value.name,
        tuple(
            argument * factor if kind is Parameter.VALUE else argument
            for argument, kind in zip(value.arguments, kinds, strict=True)
        ),
    )


def is_call(text: str) -> bool:
    """Whether a text is a function."""
    return "(" in text


def parse_call(text: str, parse_value: Callable[[str], float]) -> Function:
    """The function of ``ramp(0,90)``.

    :param parse_value: the number of a value's text; raises ValueError.
    :raises ValueError: for a wrong text.
    """
    match = _CALL.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text.strip()[:100]!r} is no function, as ramp(0,90)")
    return made(match[1], match[2].split(","), parse_value)


def made(name: str, arguments: Sequence[object], parse_value: Callable[[str], float]) -> Function:
    """A function by its name, with texts or numbers as arguments.

    :raises ValueError: for a wrong name or argument.
    """
    if name not in FORMS:
        hint = did_you_mean(name.lower(), FORMS, f": give one of {', '.join(FORMS)}")
        raise ValueError(f"no value function {name[:100]!r}{hint}")
    form = FORMS[name]
    least = len(form.parameters) - len(form.defaults)
    if not least <= len(arguments) <= (MAX_STEPS if form.is_list else len(form.parameters)):
        raise ValueError(f"{name} is written {form.usage}: {len(arguments)} values do not fit")
    numbers = []
    for kind, argument in zip(_parameters(name, len(arguments)), arguments, strict=False):
        try:
            numbers.append(_argument(kind, argument, parse_value))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    numbers += form.defaults[len(arguments) - least :]
    function = Function(name, tuple(numbers))
    reason = _fault(function)
    if reason:
        raise ValueError(f"{name}: {reason}")
    return function


def format_value(value: Value, show: Callable[[float], str]) -> str:
    """The text of a value, without loss of a digit.

    :param show: the text of a number in the value's unit.
    """
    if not isinstance(value, Function):
        return show(value)
    kinds = _parameters(value.name, len(value.arguments))
    texts = [
        show(argument) if kind is Parameter.VALUE else format_number(argument)
        for argument, kind in zip(value.arguments, kinds, strict=True)
    ]
    return f"{value.name}({','.join(texts)})"


def _parameters(name: str, count: int) -> tuple[Parameter, ...]:
    form = FORMS[name]
    return form.parameters * count if form.is_list else form.parameters


def _argument(kind: Parameter, argument: object, parse_value: Callable[[str], float]) -> float:
    if isinstance(argument, bool) or not isinstance(argument, str | int | float):
        raise ValueError("arguments are numbers or texts")
    if not isinstance(argument, str):
        try:
            number = float(argument)
        except OverflowError:
            number = math.inf
    elif kind is Parameter.VALUE:
        number = parse_value(argument.strip())
    elif kind is Parameter.SECONDS:
        number = parse_seconds(argument)
    else:
        number = parse_number(argument)
    if not math.isfinite(number):
        raise ValueError("numbers must be finite")
    return number


def _fault(function: Function) -> str:
    """The fault of a function's arguments, without a check of its range; empty if there is none."""
    arguments, form = function.arguments, FORMS[function.name]
    for kind, number in () if form.is_list else zip(form.parameters, arguments, strict=True):
        if kind is Parameter.SECONDS and not SHORTEST_SECONDS <= number <= LONGEST_SECONDS:
            return f"{number:g} seconds is not within {SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g}"
        if kind is Parameter.SHARE and not 0 <= number <= 1:
            return f"the share {number:g} is not within 0 to 1"
    if function.name == "daily" and arguments[2] > DAY_SECONDS:
        return f"the peak is {arguments[2]:g} seconds after midnight: a day has {DAY_SECONDS:g}"
    if function.name in ("square", "random", "increase", "daily") and arguments[0] > arguments[1]:
        return f"{arguments[0]:g} is over {arguments[1]:g}: the smaller value comes first"
    if function.name == "sine" and arguments[1] < 0:
        return f"the amplitude {arguments[1]:g} is below 0"
    if function.name == "spike" and arguments[2] > arguments[3]:
        return f"{arguments[2]:g} seconds are longer than the {arguments[3]:g} in which they come once"
    return ""
