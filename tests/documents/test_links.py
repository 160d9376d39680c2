"""The links of the documentation: every file, heading and page that a document refers to exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent
while not (ROOT / "README.md").is_file():
    ROOT = ROOT.parent
DOCUMENTS = ROOT / "doc"
INDEX = DOCUMENTS / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "systemd").glob("*.md"), *DOCUMENTS.glob("*.md")])
#: A command that asks an index of packages for fakedev.
FROM_AN_INDEX = re.compile(
    r"""\b(?:pip|pipx|uv)[ a-z]* install (?:-[\w-]+ +)*['"]?fakedev(?:\[[\w,]+\])?(?![\w.\[-]| +@ )"""
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"#{1,6} +(.+)")
_ANCHOR = re.compile(r'<a (?:id|name)="([^"]+)">')


def prose(page: Path) -> Iterator[str]:
    """The lines of a page that are neither indented nor fenced code."""
    is_fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            is_fenced = not is_fenced
        elif not is_fenced and not line.startswith("    "):
            yield line


def links(page: Path) -> list[str]:
    """The relative links of a page, with their anchors."""
    found = [link for line in prose(page) for link in _LINK.findall(re.sub(r"`[^`]*`", "", line))]
    return [link for link in found if "://" not in link]


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page: those of its headings, as GitHub forms them, and those written out."""
    found: list[str] = []
    for line in prose(page):
        found += _ANCHOR.findall(line)
        heading = _HEADING.fullmatch(line.rstrip())
        if heading:
            text = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
            number = sum(1 for each in found if each == text or re.fullmatch(rf"{re.escape(text)}-\d+", each))
            found.append(f"{text}-{number}" if number else text)
    return frozenset(found)


def problems(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    wrong = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links(page: Path) -> None:
    """Each relative link of a page leads to a file, and to a heading of it where the link has an anchor."""
    assert problems(page) == []


def test_index() -> None:
    """The index lists every page of doc/ once, and the first page of the project links to the index."""
    pages = {path.name for path in DOCUMENTS.iterdir() if path.suffix in {".md", ".txt", ".json"}}
    listed = [link for link in links(INDEX) if "/" not in link and "#" not in link]
    assert sorted(listed) == sorted(pages - {INDEX.name})
    assert "doc/README.md" in links(ROOT / "README.md")


def test_index_groups() -> None:
    """The index has its four groups, in order."""
    headings = [match[1] for line in prose(INDEX) if (match := re.fullmatch(r"## (.+)", line))]
    assert headings == ["First steps", "How to ...", "Reference", "How it works"]


def test_wrong_links_are_found(tmp_path: Path) -> None:
    """A link to a missing file, a missing heading of another page, and a missing heading of the page itself."""
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text('# One `two`: three\n\n## Same\n\n## Same\n\n<a id="old"></a>\n', encoding="utf-8")
    page.write_text(
        "# Page\n\n[a](other.md#one-two-three) [b](other.md#same-1) [c](other.md#old) [d](#page) [e](https://example.org/x)\n"
        "[f](none.md) [g](other.md#same-2) [h](#none) `[i](code.md)`\n\n    [j](code.md)\n",
        encoding="utf-8",
    )
    assert problems(page) == ["none.md", "other.md#same-2", "#none"]


#: Files that a document names in backticks: with a folder, and of the kinds that the project has.
_FILE = re.compile(r"`((?:[\w@*.-]+/)+[\w@*.-]+\.(?:py|yaml|md|txt|toml|sh))`")
#: Files that exist only where a user makes them.
_EXAMPLES = ("NAME", "etc/fakedev/", "prometheus_alert_rules/")


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_files_that_pages_name(page: Path) -> None:
    """They exist, at the root of the project or in the package."""
    found = set(_FILE.findall(page.read_text(encoding="utf-8")))
    named = {name for name in found if not any(part in name for part in _EXAMPLES)}
    folders = (ROOT, ROOT / "fakedev", page.parent)
    assert [name for name in sorted(named) if not any(list(folder.glob(name)) for folder in folders)] == []


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("pip install fakedev", True),
        ("`pip install 'fakedev[tls]'`", True),
        ("uv tool install --quiet fakedev[tls]", True),
        ("pip install 'fakedev-0.3.0-py3-none-any.whl[fast]'", False),
        ('uv tool install "fakedev[tls] @ file:///x.whl"', False),
        ("pip install '.[fast]'", False),
    ],
)
def test_how_an_index_is_named(text: str, is_wrong: bool) -> None:
    """A wheel, a checkout or an address is none."""
    assert bool(FROM_AN_INDEX.search(text)) == is_wrong


@pytest.mark.parametrize("page", [*PAGES, *sorted(DOCUMENTS.glob("*.txt"))], ids=lambda page: page.name)
def test_no_page_installs_from_an_index(page: Path) -> None:
    """No index of packages has fakedev."""
    assert FROM_AN_INDEX.findall(page.read_text(encoding="utf-8")) == []
