"""Names of the module ``amdsmi`` 7.0.2: enumerations, numbers of results, exceptions; from ``catalog/amd-smi``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from os.path import join
from typing import Any, Final, NamedTuple

import fakedev

#: Numbers of results that the simulation gives; all are in the catalog.
INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, NOT_INITIALIZED, NO_DRIVER, UNEXPECTED_DATA = 1, 2, 10, 31, 32, 34, 43


def blocks(name: str) -> dict[str, list[str]]:
    """The lines of a file of the catalog by the name in brackets above them; also from an archive."""
    loader: Any = fakedev.__spec__.loader
    text = loader.get_data(join(fakedev.__path__[0], "catalog", "amd-smi", name)).decode()
    parts = (part.partition("]\n") for part in text.removesuffix("\n").split("\n[")[1:])
    return {title: body.split("\n") for title, _, body in parts}


class Names(NamedTuple):
    """What the module has besides its functions.

    :ivar enumerations: by name.
    :ivar constants: of ``amdsmi_wrapper``, the C names of members and results; and its tables of them.
    :ivar results: the C name of each result.
    :ivar missing: functions that are not simulated.
    """

    enumerations: Mapping[str, Any]
    constants: Mapping[str, Any]
    results: Mapping[int, str]
    missing: tuple[str, ...]


def _read_names() -> Names:
    enumerations: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    rows = blocks("names.txt")
    missing = tuple(rows.pop("functions"))
    for title, lines in rows.items():
        name, prefix, table = (*title.split(" "), "", "")[:3]
        members, values = [], {}
        for member, number, *c_name in map(str.split, lines):
            values[(*c_name, prefix + member)[0]] = int(number)
            members.append((member, int(number)))
        constants |= values
        if table:
            constants[table] = {number: text for text, number in values.items()}
        if name[0].isupper():
            enumerations[name] = IntEnum(name, members)
    results = {number: name for name, number in constants.items() if name.startswith("AMDSMI_STATUS_")}
    return Names(enumerations, constants, results, missing)


NAMES: Final = _read_names()


class AmdSmiException(Exception):
    """Base of all exceptions of the module."""


class AmdSmiLibraryException(AmdSmiException):
    """A call has failed.

    :ivar err_code: the number of its result.
    :ivar err_info: the name of that, and words.
    """

    def __init__(self, err_code: int) -> None:
        super().__init__(abs(err_code))
        self.err_code = abs(err_code)
        name = NAMES.results.get(self.err_code, "AMDSMI_STATUS_UNKNOWN_ERROR")
        self.err_info = f"{name} - {name.removeprefix('AMDSMI_STATUS_').replace('_', ' ').capitalize()}"

    def __str__(self) -> str:
        return f"Error code:\n\t{self.err_code} | {self.err_info}"

    def get_error_info(self, detailed: bool = True) -> str:
        """The name of the result, with words if ``detailed``."""
        return self.err_info if detailed else self.err_info.split(" - ")[0]

    def get_error_code(self) -> int:
        """The number of the result."""
        return self.err_code


class AmdSmiRetryException(AmdSmiLibraryException):
    """The call may work later; the simulation never raises it."""

    def __init__(self) -> None:
        super().__init__(9)


class AmdSmiTimeoutException(AmdSmiLibraryException):
    """The call took too long; the simulation never raises it."""

    def __init__(self) -> None:
        super().__init__(8)


class AmdSmiParameterException(AmdSmiException):
    """An argument has a wrong type."""

    def __init__(self, receivedValue: object, expectedType: object, msg: str | None = None) -> None:
        super().__init__(msg)
        self.err_code = None
        self.actualType, self.expectedType = type(receivedValue), expectedType
        self.err_msg = msg or f"Invalid parameter:\nActual type: {self.actualType}\nExpected type: {expectedType}"

    def __str__(self) -> str:
        return self.err_msg


class AmdSmiKeyException(AmdSmiException):
    """A key is missing; the simulation never raises it."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class AmdSmiBdfFormatException(AmdSmiException):
    """A text is no PCI address."""

    def __init__(self, bdf: object) -> None:
        super().__init__(bdf)
        self.bdf = bdf

    def __str__(self) -> str:
        return f"Wrong BDF format: {self.bdf}. It is DOMAIN:BUS:DEVICE.FUNCTION or BUS:DEVICE.FUNCTION, as 0000:0c:00.0"


EXCEPTIONS: Final = (
    AmdSmiException, AmdSmiLibraryException, AmdSmiRetryException, AmdSmiTimeoutException, AmdSmiParameterException,
    AmdSmiKeyException, AmdSmiBdfFormatException,
)  # fmt: skip
