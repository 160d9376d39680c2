"""Sections of documents that tests write."""

from __future__ import annotations


def with_section(document: str, head: str, section: str) -> str:
    """A document with a section in the place of the one of that head line, which ends where the next one begins.

    :raises ValueError: where it has no such line.
    """
    before, found, rest = document.partition(head)
    if not found:
        raise ValueError(f"the document has no line {head!r}")
    return before + section + rest[rest.index("\n## ") :]


def between(document: str, begin: str, end: str, section: str) -> str:
    """A document with a section between two lines that stay."""
    before, rest = document.split(begin)
    return before + begin + section + end + rest.split(end)[1]
