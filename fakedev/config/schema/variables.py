"""``${NAME}`` and ``${NAME:-default}`` in values; ``$$`` is one dollar."""

from __future__ import annotations

import re
from typing import Final

from fakedev.config.schema.files import Files

_MARK: Final = re.compile(r"\$\$|\$\{([^}]*)\}?")
_NAME: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:-(.*))?", re.DOTALL)


class Variables:
    """Fills environment variables into texts."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def expand(self, text: str) -> tuple[str, str]:
        """The text with its variables filled in, and where they come from (``environment SEED``).

        :raises ValueError: for a variable that is not set and has no default, or is not well written.
        """
        used: list[str] = []
        filled = _MARK.sub(lambda match: self._filled(match, used), text)
        return filled, f"environment {', '.join(used)}" if used else ""

    def _filled(self, match: re.Match[str], used: list[str]) -> str:
        if match[0] == "$$":
            return "$"
        named = _NAME.fullmatch(match[1])
        if named is None or not match[0].endswith("}"):
            forms = "write ${NAME} or ${NAME:-default}, or $$ for a dollar"
            raise ValueError(f"{match[0][:60]!r} is no variable: {forms}")
        name, default = named[1], named[3]
        value = self._files.variable(name)
        used.append(name)
        if value or (value is not None and named[2] is None):
            return value
        if named[2] is None:
            raise ValueError(f"the environment variable {name} is not set: set it, or write ${{{name}:-default}}")
        return default or ""
