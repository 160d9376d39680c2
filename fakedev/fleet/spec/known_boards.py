"""Which device type of the catalog is most like a board that others name, by its product, memory and profile."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

#: Words of product names that say nothing about the model.
_MAKERS: Final = frozenset(("nvidia", "tesla", "amd", "instinct", "intel", "gpu"))

_SEPARATORS: Final = re.compile(r"[\s_/-]+")

#: The size and series of a virtual GPU: ``20c`` of NVIDIA H100-20C, ``16q`` of GRID T4-16Q.
_GUEST: Final = re.compile(r"[0-9]{1,3}[abcq]")

#: A model, as a100, l40s or gb200; not a size (80gb), a form (sxm5) or a kind of memory (hbm3).
_MODEL: Final = re.compile(r"(?!sxm|hbm|pcie|gddr)[a-z]{1,4}[0-9]{1,4}[a-z]{0,3}")


@dataclass(frozen=True)
class Board:
    """What kind of board GPUs are.

    :param product: as ``NVIDIA-A100-SXM4-80GB``; empty: see ``profile``.
    :param memory_mib: 0: that of the device type.
    :param profile: of the newer form: ``h100``, ``a100``; empty for none.
    """

    product: str = ""
    memory_mib: int = 0
    profile: str = ""
    driver_version: str = ""
    cuda_version: str = ""


@dataclass(frozen=True)
class KnownBoard:
    """A device type of the catalog, by its name there."""

    name: str
    product: str
    memory_mib: float
    vendor: str = "NVIDIA"


@dataclass(frozen=True)
class NearestBoard:
    """The known board that is most like a wanted one.

    :param is_model: whether it is of the same model, perhaps in another form or with other memory.
    :param is_same: whether it is that very product.
    """

    board: KnownBoard
    is_model: bool
    is_same: bool


def nearest_board(wanted: Board, known: Iterable[KnownBoard]) -> NearestBoard:
    """The board of the catalog for a product name of any spelling, or for a profile.

    The same product comes first, then the same model, then NVIDIA's board with the nearest memory, or with the most
    where no memory is given: what the catalog lacks is mostly newer. A virtual GPU is only for a virtual one.

    :param known: at least one.
    """
    words = _words(wanted.product or wanted.profile)

    def likeness(board: KnownBoard) -> tuple[bool, bool, int, bool, float, int, str]:
        own = _words(board.product)
        models = len(_models(words) & _models(own))
        is_other_kind = _is_guest(own) != _is_guest(words)
        distance = 0.0 if models else -board.memory_mib
        if wanted.memory_mib and board.memory_mib:
            distance = abs(math.log2(wanted.memory_mib / board.memory_mib))
        # The order of the last two is only for a choice that is always the same.
        common = len({*words} & {*own})
        return own != words, is_other_kind, -models, board.vendor != "NVIDIA", distance, -common, board.name

    best = min(known, key=likeness)
    own = _words(best.product)
    return NearestBoard(best, bool(_models(words) & _models(own)), own == words)


def _words(product: str) -> tuple[str, ...]:
    return tuple(word for word in _SEPARATORS.split(product.casefold()) if word and word not in _MAKERS)


def _is_guest(words: Iterable[str]) -> bool:
    """Whether a product is a virtual GPU."""
    return any(word == "grid" or _GUEST.fullmatch(word) for word in words)


def _models(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word for word in words if _MODEL.fullmatch(word))
