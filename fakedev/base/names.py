"""Names and small texts of users: each function returns what to use, or raises ValueError for a text that is wrong."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")

_FACT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

_TEMPLATE: Final = re.compile(r"[^{}]*+(\{(0[1-9])?\})?[^{}]*+")

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_PCI: Final = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")

_DRIVER: Final = re.compile(r"[0-9]{1,9}\.[0-9A-Za-z.+~-]{1,21}")

_VERSION: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){1,5}")

_NODE_LABEL: Final = re.compile(
    r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)

#: Facts that the simulation computes.
COMPUTED_FACTS: Final = (
    "index", "node", "pool", "pod", "namespace", "container", "xid",
    "device_count", "device_memory_bytes", "pci_domain", "pci_bus", "pci_device", "pid", "process",
)  # fmt: skip

LONGEST_NODE_NAME: Final = 253

LONGEST_POOL_NAME: Final = 63

LONGEST_QUEUE_NAME: Final = 100

#: A page of this many queues takes some ten milliseconds, in which the reactor does nothing else.
MAX_QUEUES: Final = 100

MAX_NODES: Final = 100_000

MAX_DEVICES_PER_NODE: Final = 1024

#: The range of inlet temperatures, in degrees Celsius: colder air does not exist, hotter air does not cool.
COLDEST_INLET: Final = -60

HOTTEST_INLET: Final = 100

#: The largest drift of a room over the day, in degrees Celsius.
MAX_INLET_DRIFT: Final = 20


def version_number(text: str) -> tuple[int, ...] | None:
    """A version such as ``580.95.05`` as numbers, which compare as versions do; None for another text."""
    return tuple(map(int, text.split("."))) if _VERSION.fullmatch(text) else None


def is_version_between(text: str, first: str, end: str = "") -> bool:
    """Whether a version is at least the first and below the end, if there is one. Other texts count as the newest."""
    newest = (math.inf,)
    version, lowest, above = (version_number(each) or newest for each in (text, first, end))
    return lowest <= version and (version < above or not end)


def pool_name(text: str) -> str:
    return _checked_name(text, "pool", LONGEST_POOL_NAME)


def node_name(text: str) -> str:
    """A node's name: a valid name of a host."""
    return _checked_name(text, "node", LONGEST_NODE_NAME)


def host_name(text: str) -> str:
    """The name of a host, without a port, in lower case."""
    return _checked_name(text.removesuffix("."), "host", LONGEST_NODE_NAME).lower()


def queue_name(text: str) -> str:
    """A queue's name: a word of the line protocol, and a part of a path."""
    good = text.isprintable() and not any(character.isspace() or character in "=?#\"'\\" for character in text)
    if not good or not 0 < len(text) <= LONGEST_QUEUE_NAME or text in (".", "..") or text[0] == "-":
        raise ValueError(
            f"{text[:60]!r} is no queue name: at most {LONGEST_QUEUE_NAME} characters that print, without blanks, "
            "quotes and = ? # \\, the first not -"
        )
    return text


def node_label(text: str) -> str:
    """The name of a label of nodes in Kubernetes."""
    if not _NODE_LABEL.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no name of a label, as fakedev/pool")
    return text


def fact_name(text: str) -> str:
    """The name of a label that the user gives."""
    if not _FACT.fullmatch(text) or len(text) > 128:
        raise ValueError(f"{text[:60]!r} is no label name: letters, digits and _ only, no digit first")
    if text in COMPUTED_FACTS:
        raise ValueError(f"the label {text!r} is computed and cannot be given")
    return text


def inlet_celsius(text: str) -> float:
    """An inlet temperature in degrees Celsius."""
    try:
        celsius = float(text)
    except ValueError:
        celsius = math.nan
    if not COLDEST_INLET <= celsius <= HOTTEST_INLET:
        raise ValueError(f"inlet {text[:60]!r} is no number within {COLDEST_INLET:g} to {HOTTEST_INLET:g}")
    return celsius


def is_path(name: str) -> bool:
    """Whether a name is the path of a file, not a name in the catalog."""
    return "/" in name or name.endswith((".yaml", ".yml", ".json"))


def _checked_name(text: str, what: str, longest: int) -> str:
    if len(text) > longest or not _NAME.fullmatch(text):
        raise ValueError(
            f"{text[:60]!r} is no {what} name: at most {longest} letters, digits, '.', '_' and '-', "
            "the first and the last no sign"
        )
    return text


def uuid_text(text: str) -> str:
    if not _UUID.fullmatch(text):
        raise ValueError(f"{text!r} is no UUID of 36 characters, as 927d7444-b45a-7c49-8402-5e686e46a026")
    return text.lower()


def pci_address(text: str) -> str:
    if not _PCI.fullmatch(text):
        raise ValueError(f"{text!r} is no PCI address, as 0000:1b:00.0")
    return text


def driver_version(text: str) -> str:
    """The version of a driver; NVML has 31 characters for it."""
    if not _DRIVER.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no version of a driver, as 580.105.08: at most 31 characters, digits first")
    return text


def epoch_seconds(text: str) -> float | None:
    """Seconds since 1970 of ``start`` (None), an ISO 8601 time or a number."""
    if text == "start":
        return None
    if re.fullmatch(r"[0-9]{1,11}(\.[0-9]{1,6})?", text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time: give start, 2026-01-31T12:00:00Z or seconds since 1970") from None
    if seconds < 0:
        raise ValueError(f"{text!r} is before 1970")
    return seconds


def node_pattern(text: str) -> str:
    if not _TEMPLATE.fullmatch(text):
        raise ValueError(f"{text!r} must have one {{}} where the number goes ({{03}} for three digits), as dgx-{{}}")
    return text


def token_text(text: str) -> str:
    """A token that is hard to guess."""
    if not re.fullmatch(r"[!-~]{8,1024}", text):
        raise ValueError("a token is 8 to 1024 printable ASCII characters without blanks")
    return text


def without_variables(text: str) -> str:
    """A text for a configuration that is read as this very text: a dollar sign in it begins no variable."""
    return text.replace("$", "$$")
