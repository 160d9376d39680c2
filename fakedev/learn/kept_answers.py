"""Keeps the answers of a Prometheus in a folder, so that a reading that broke off goes on where it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson

from fakedev.base.atomic_files import replace_file
from fakedev.base.errors import CannotWrite, plain_reason
from fakedev.learn.range_history import Ask

#: The time until which the folder's answers are.
_UNTIL: Final = "until"


class KeptAnswers:
    """Sends queries, but for those whose answers are in the folder.

    :param ask: sends one.
    :param folder: None: nothing is kept.
    :ivar sent: how many queries were sent, by the name of the API's query.
    """

    def __init__(self, ask: Ask, folder: Path | None) -> None:
        self._ask = ask
        self._folder = folder
        self.sent: Counter[str] = Counter()

    def until(self, usual: float) -> float:
        """The end of the time that is read: as when the folder was begun.

        :raises ValueError: when the folder cannot be used.
        """
        if self._folder is None:
            return usual
        path = self._folder / _UNTIL
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not path.exists():
                if any(self._folder.iterdir()):
                    raise ValueError(f"--resume: {self._folder} has other files: name an empty or a new folder")
                path.write_text(f"{usual:.3f}")
            return float(path.read_text())
        except OSError as error:
            raise ValueError(f"--resume: {self._folder}: {plain_reason(error)}") from None

    def __call__(self, what: str, query: Mapping[str, str]) -> Any:
        """The data of an answer; errors are those of the function that asks."""
        path = None
        if self._folder is not None:
            path = self._folder / sha256(orjson.dumps([what, sorted(query.items())])).hexdigest()[:32]
            if path.exists():
                return orjson.loads(path.read_bytes())
        data = self._ask(what, query)
        self.sent[what] += 1
        if path is not None:
            try:
                replace_file(path, orjson.dumps(data), 0o600)
            except CannotWrite as error:
                raise ConnectionError(f"--resume: {error}") from None
        return data
