"""The shell commands that README and the pages of doc show, with what they show below each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "doc").glob("*.md"))]
_INDENT: Final = "    "
_PROMPT: Final = f"{_INDENT}$ "
#: A command without a prompt: it would not be found, and not be run.
_BARE: Final = re.compile(r"    (\.venv/bin/\S+|fakedev(-\w+)*|curl|docker|make|pip|python3?|kill|sudo|nc) \S")


@dataclass
class Command:
    """A command as it is written, without its prompt.

    :ivar shown: the lines below it, up to the next command or the end of the snippet.
    """

    page: str
    text: str
    shown: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def commands(page: Path) -> Iterator[Command]:
    """The commands of a page, in order."""
    return commands_in(page.name, page.read_text(encoding="utf-8"))


def commands_in(page: str, text: str) -> Iterator[Command]:
    """The commands of a part of a page, in order."""
    current: Command | None = None
    for line in text.splitlines():
        if line.startswith(_PROMPT):
            if current is not None:
                yield current
            current = Command(page, line.removeprefix(_PROMPT))
        elif current is not None and line.startswith(_INDENT):
            if current.text.endswith("\\") or current.text.count("'") % 2:
                current.text += f"\n{line.removeprefix(_INDENT)}"
            else:
                current.shown.append(line.removeprefix(_INDENT))
        elif current is not None:
            yield current
            current = None
    if current is not None:
        yield current


def without_prompt(page: Path) -> list[str]:
    """Lines of code that look like commands, but have no prompt and are not below one."""
    found, is_below = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        is_below = line.startswith(_PROMPT) or (is_below and line.startswith(_INDENT))
        if not is_below and _BARE.match(line):
            found.append(f"{page.name}: {line.strip()}")
    return found


def page_commands(name: str, part: str = "") -> list[Command]:
    """The commands of the page with a name.

    :param part: only those below this heading of the second level.
    """
    (page,) = (page for page in PAGES if page.name == name and (name != "README.md" or page.parent == ROOT))
    if not part:
        return list(commands(page))
    _, _, text = page.read_text(encoding="utf-8").partition(f"\n## {part}\n")
    return list(commands_in(name, text.partition("\n## ")[0]))
