"""The options of ``fakedev replay``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from fakedev.app.configuration_options import SERVE, add_options, argument_type
from fakedev.commands.parser import Parser
from fakedev.spec.units import parse_duration
from fakedev.traces.formats import FORMATS
from fakedev.traces.placement import POLICIES
from fakedev.traces.usage import DISTRIBUTIONS, LIKE, usage_of

#: The options of ``fakedev serve`` that a replay has, too.
_OF_SERVE: Final = ("set", "port", "shard", "web-config-file", "record", "ready-file")
#: Ticks in a real second, where --tick does not say otherwise.
_TICKS_PER_SECOND: Final = 60


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; ``tick`` is in seconds."""
    formats = "; ".join(f"{name}: {each.words}" for name, each in FORMATS.items())
    parser = Parser("fakedev replay", description=f"Replays a trace of a cluster on simulated devices. {formats}.")
    parser.add_argument("format", metavar="FORMAT", choices=list(FORMATS), help=", ".join(FORMATS))
    parser.add_argument("folder", metavar="DIR", help="the folder with the files of the trace")
    _add(parser, "map", "MODEL=DEVICE,...", "the device types of models", _mapping, {})
    parser.add_argument("--device", metavar="DEVICE", help="the device type of all models that --map does not name")
    parser.add_argument("--variant", metavar="NAME", help="of openb's list of pods, as gpuspec33; default: default")
    _add(parser, "from", "TIME", "begin at this time of the trace, as 117d", parse_duration, 0.0)
    _add(parser, "for", "TIME", "replay so much of it; default: to the end", parse_duration, None)
    _add(parser, "scale", "N", "have each job so many times, evenly over an hour", _count, 1)
    _add(parser, "nodes", "N", "have the first N nodes, or repeat them until there are N", _count, None)
    parser.add_argument(
        "--place", choices=POLICIES, default=POLICIES[0], help="where jobs go that the trace gives no node"
    )
    like = " or ".join(f"{LIKE}{name}" for name in DISTRIBUTIONS)
    text = f"what jobs do that the trace has no usage of: percent, plus or minus; or as another trace: {like}"
    _add(parser, "usage", "P:F", text, usage_of, None)
    _add(parser, "seed", "N", "of what is drawn; default 0", _number, 0)
    _add(parser, "speed", "N", "simulated seconds a second; default 1", _speed, 1.0)
    _add(parser, "tick", "TIME", f"default: what gives {_TICKS_PER_SECOND} ticks a second, 1s at least", _tick, None)
    _add(parser, "lenient", "N", "leave out up to N lines that cannot be used", _number, 0)
    parser.add_argument("--check", action="store_true", help="only read and place it, and print the head")
    parser.add_argument(
        "--report", metavar="FILE.html", help="replay in virtual time, compare, and write trace and replay side by side"
    )
    parser.add_argument("--output", metavar="FILE.yaml", help="write the replay as a scenario")
    add_options(parser, [option for option in SERVE if option.name in _OF_SERVE])
    options: argparse.Namespace = parser.parse_args(list(arguments))
    if options.variant is not None and FORMATS[options.format].read_variant is None:
        parser.error(f"--variant: the files of {options.format} have no variants")
    if options.tick is None:
        options.tick = max(1.0, options.speed / _TICKS_PER_SECOND)
    return options


def _add(parser: Parser, name: str, metavar: str, text: str, read: Any, default: Any) -> None:
    parser.add_argument(f"--{name}", metavar=metavar, help=text, type=argument_type(read), default=default)


def _mapping(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in text.split(","):
        model, equals, device = (part.strip() for part in each.partition("="))
        if not (model and equals and device):
            raise ValueError(f"{each[:40]!r} is no MODEL=DEVICE, as P100=v100")
        if model in found:
            raise ValueError(f"the model {model!r} is there twice")
        found[model] = device
    return found


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise ValueError(f"{text[:40]!r} is no whole number below 10,000,000")
    return int(text)


def _count(text: str) -> int:
    if not _number(text):
        raise ValueError("must be 1 or more")
    return int(text)


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 10_000:
        raise ValueError(f"{text[:40]!r} is no speed: above 0, up to 10000")
    return value


def _tick(text: str) -> float:
    value = parse_duration(text)
    if value <= 0:
        raise ValueError("a tick takes some time")
    return value
