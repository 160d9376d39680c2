"""The options of the command, declared once: the parser and ``-h`` follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fakedev.nvml.smi.failures import bad_argument, not_supported

#: Whether an option takes a value.
FLAG, VALUE, MAYBE = range(3)


class Option(NamedTuple):
    """An option.

    :ivar name: by which the command knows it, and with two dashes before it its long form.
    :ivar short: its short form, with the dash.
    """

    name: str
    short: str
    takes: int
    doc: str


LISTS: Final = (
    Option("help", "-h", FLAG, "Print this text."),
    Option("version", "", FLAG, "Print versions."),
    Option("list-gpus", "-L", FLAG, "List the boards of the node."),
)
QUERIES: Final = (
    Option("query", "-q", FLAG, "Print all about boards."),
    Option("display", "-d", VALUE, "With -q: only these sections, as ECC,POWER."),
    Option("xml-format", "-x", FLAG, "With -q: as XML."),
    Option("query-gpu", "", VALUE, "Print fields of boards, as --query-gpu=index,power.draw --format=csv."),
    Option("help-query-gpu", "", FLAG, "List these fields."),
    Option("query-compute-apps", "", VALUE, "Print fields of processes."),
    Option("help-query-compute-apps", "", FLAG, "List these fields."),
    Option("format", "", VALUE, "Of fields: csv, then noheader (no titles) and nounits (no units)."),
)
COMMON: Final = (
    Option("id", "-i", VALUE, "Only these boards: numbers, UUIDs, PCI addresses or serial numbers, with commas."),
    Option("filename", "-f", VALUE, "Write to this file."),
    Option("loop", "-l", MAYBE, "Again after so many seconds (5), until Ctrl+C."),
    Option("loop-ms", "-lms", VALUE, "Again after so many milliseconds, until Ctrl+C."),
)
#: Digits of a delay: no longer one has a meaning.
_DIGITS: Final = 9
#: What the real command has besides.
OTHERS: Final = (
    *(("list-excluded-gpus", "-B"), ("columns", "-col"), ("unit", "-u"), ("dtd", ""), ("query-supported-clocks", "")),
    *(("query-accounted-apps", ""), ("query-retired-pages", ""), ("query-remapped-rows", "")),
    *(("help-query-supported-clocks", ""), ("help-query-accounted-apps", ""), ("help-query-retired-pages", "")),
    *(("help-query-remapped-rows", ""), ("ecc-config", "-e"), ("reset-ecc-errors", "-p")),
    *(("compute-mode", "-c"), ("gom", ""), ("gpu-reset", "-r"), ("virt-mode", "-vm")),
    *(("mode", "-m"), ("lock-memory-clocks", "-lmc"), ("reset-memory-clocks", "-rmc")),
    *(("lock-memory-clocks-deferred", "-lmcd"), ("reset-memory-clocks-deferred", "-rmcd")),
    *(("applications-clocks", "-ac"), ("reset-applications-clocks", "-rac"), ("scope", "-sc")),
    *(("cuda-clocks", "-cc"), ("accounting-mode", "-am"), ("clear-accounted-apps", "-caa")),
    *(("auto-boost-default", ""), ("auto-boost-permission", ""), ("multi-instance-gpu", "-mig")),
    *(("gpu-target-temp", "-gtt"), ("dram-encryption", "-den"), ("set-hostname", ""), ("get-hostname", "")),
    *(("error-on-warning", "-eow"), ("toggle-led", "-t"), ("debug", "")),
)
_NOT_SIMULATED: Final = frozenset(word for long, short in OTHERS for word in (f"--{long}", short) if word)


def parse(arguments: Sequence[str], options: Sequence[Option]) -> dict[str, str]:
    """The given options, by their names; the value of a flag is empty.

    :param options: those that there are.
    :raises Failure: for what is no option, one without its value, and one that the simulation does not have.
    """
    known = {word: option for option in options for word in (f"--{option.name}", option.short) if word}
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        given = rest.pop(0)
        word, equals, value = given.partition("=")
        option = known.get(word)
        if option is None and word in _NOT_SIMULATED:
            raise not_supported(word)
        if option is None or (equals and option.takes == FLAG):
            raise bad_argument(f"ERROR: Option {given} is not recognized. Please run 'nvidia-smi -h'.\n")
        if not equals and option.takes == VALUE:
            if not rest:
                raise bad_argument(f"ERROR: Option {given} needs a value. Please run 'nvidia-smi -h'.\n")
            value = rest.pop(0)
            if not value:
                raise bad_argument(f"ERROR: Option {given} needs a value. Please run 'nvidia-smi -h'.\n")
        elif not equals and option.takes == MAYBE and rest and rest[0].isdecimal():
            value = rest.pop(0)
        found[option.name] = value
    return found


def number_of(given: Mapping[str, str], name: str, otherwise: int | None = None) -> int | None:
    """The value of an option that takes a positive whole number.

    :param otherwise: without the option, or without its value.
    :raises Failure: for another text.
    """
    text = given.get(name, "")
    if not text:
        return otherwise
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS or not int(text):
        raise bad_argument(f"ERROR: --{name} needs a positive whole number, not {text!r}.\n")
    return int(text)


def delay_seconds(given: Mapping[str, str]) -> float | None:
    """After how many seconds the command does the same again; None for never.

    :raises Failure: for a text that is no positive number.
    """
    if "loop-ms" in given:
        return (number_of(given, "loop-ms") or 0) / 1000.0
    return number_of(given, "loop", 5) if "loop" in given else None
