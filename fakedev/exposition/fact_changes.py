"""What labels and numbers make of facts: ``{pci_address|upper}``, ``{driver_version|nvml}``."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha1
from typing import Final

_VERSION: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
#: The first branch of drivers with a CUDA (NVIDIA's table of CUDA toolkits and drivers), the latest first.
_CUDA_OF_BRANCHES: Final = ((580, 13), (525, 12), (450, 11))
#: What names of boards have in them, and their brand.
_BRANDS: Final = (("Tesla", "Tesla"), ("GeForce", "GeForce"), ("Quadro", "Quadro"), ("RTX", "NVIDIA RTX"))


def _packed(version: str, factor: int, scale: int) -> str:
    """A version of two numbers as one: the first by ``factor``, the second by ``scale``; empty for another text."""
    found = _VERSION.fullmatch(version)
    return str(int(found[1]) * factor + int(found[2]) * scale) if found else ""


def _nvml_version(driver: str) -> str:
    """The version of NVML of a driver: the CUDA that it has, then its own version (12.550.163.01)."""
    branch = driver.partition(".")[0]
    if not branch.isdecimal():
        return ""
    cuda = next((major for first, major in _CUDA_OF_BRANCHES if int(branch[:9]) >= first), 10)
    return f"{cuda}.{driver}"


def _brand(product: str) -> str:
    """The brand of a board by its name, in the words of nvidia-smi; those of DCGM are unverified."""
    return next((brand for mark, brand in _BRANDS if mark in product), "NVIDIA") if product else ""


def _cuda_number(version: str) -> str:
    """A version of CUDA as one number: 12.4 is 12040."""
    return _packed(version, 1000, 10)


def _compute_number(version: str) -> str:
    """A compute capability as DCGM has it: 9.0 is 9 * 65536."""
    return _packed(version, 65536, 1)


def _only_number(text: str) -> str:
    """The number in a text that has exactly one, as ``200`` of ``H200``; else an empty text."""
    numbers = _NUMBER.findall(text)
    return numbers[0] if len(numbers) == 1 else ""


def _next(text: str) -> str:
    """The number after a whole number, for exporters that count from 1; other texts stay."""
    return str(int(text) + 1) if text.isdecimal() else text


#: By the word after the bar; each is a function from a fact's text.
CHANGES: Final[dict[str, Callable[[str], str]]] = {
    "": str, "upper": str.upper, "lower": str.lower, "dashed": lambda text: text.replace(" ", "-"),
    "number": _only_number, "next": _next, "hex4": lambda text: text.lower().removeprefix("0x").zfill(4),
    "sha1_6": lambda text: sha1(text.encode(), usedforsecurity=False).hexdigest()[:6],
    "nvml": _nvml_version, "brand": _brand, "cuda_number": _cuda_number, "compute_number": _compute_number,
}  # fmt: skip
