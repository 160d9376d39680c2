"""A file's text, YAML or JSON, to its node tree.

Values may have ``${NAME}`` and ``${NAME:-default}`` in them; ``$$`` is a dollar.
"""

from __future__ import annotations

import re
from typing import Final

from fakedev.config.schema.files import Files
from fakedev.config.schema.json_reader import parse_json
from fakedev.config.schema.nodes import Expand, Node, NodeBuilder, Place, Report, SyntaxProblem
from fakedev.config.schema.yaml_reader import parse_yaml

#: Characters that neither language allows; found here so that both give the same problem.
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_MARK: Final = re.compile(r"\$\$|\$\{([^}]*)\}?")
_NAME: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:-(.*))?", re.DOTALL)


def read_document(text: str, file: str, report: Report, expand: Expand | None = None) -> Node | None:
    """The tree of a YAML or JSON text; None when a problem was reported instead.

    :param file: its name, as problems shall show it; one that ends in ``.json`` is JSON.
    :param expand: fills in variables; None leaves texts as they are.
    """
    if not is_clean(text, file, report):
        return None
    try:
        return _parsed(text, file, report, expand)
    except SyntaxProblem as problem:
        report.problem(Place(file, problem.line), str(problem))
        return None


def is_clean(text: str, file: str, report: Report) -> bool:
    """Whether a text has only characters that a text file may hold; others are reported."""
    forbidden = _FORBIDDEN.search(text)
    if forbidden is None:
        return True
    line = text.count("\n", 0, forbidden.start()) + 1
    report.problem(Place(file, line), f"has the character U+{ord(forbidden[0]):04X}, which no text file may hold")
    return False


def is_json(text: str, file: str) -> bool:
    """Whether a file is JSON: by its name, or because it begins with a brace."""
    return file.lower().endswith(".json") or text.lstrip().startswith("{")


def _parsed(text: str, file: str, report: Report, expand: Expand | None) -> Node:
    if not is_json(text, file):
        return parse_yaml(text, NodeBuilder(file, report, expand))
    try:
        return _json_reported(text, file, report, expand)
    except SyntaxProblem as problem:
        if file.lower().endswith(".json"):
            raise
        try:
            return parse_yaml(text, NodeBuilder(file, report, expand))  # {in: flow style}
        except SyntaxProblem:
            raise problem from None


def _json_reported(text: str, file: str, report: Report, expand: Expand | None) -> Node:
    """JSON's tree; its small problems count only if the whole is JSON."""
    own = Report()
    node = parse_json(text, NodeBuilder(file, own, expand, json=True))
    report.extend(own)
    return node


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
