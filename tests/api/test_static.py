"""The files of the web page: what the page needs is there, nothing foreign is, and they are asked for once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files

import pytest

from fakedev.api.static import POLICY
from fakedev.fleet.journal import JOURNAL_KINDS
from tests.support.application import MemoryApplication, application

#: Everything that our files refer to: in markup, in modules.
NAMED = re.compile(r"""(?:href|src)="([^"#]+)"|from "([^"]+)"|import "([^"]+)\"""")
FILES = {entry.name: entry.read_text() for entry in files("fakedev.page").iterdir() if not entry.name.startswith("_")}
#: The released files of uPlot 1.6.32, of npm's registry, which we do not change: their SHA-256.
UPLOT = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    """An application with an address for everything."""
    with application() as running:
        yield running


def test_what_is_named_is_there(app: MemoryApplication) -> None:
    """Each file that another one names is served, and each file is named by another."""
    named = {"index.html"}
    for text in FILES.values():
        for found in NAMED.finditer(text):
            path = next(filter(None, found.groups())).replace("./", "/page/")
            assert app.get(path).status == 200, path
            named.add(path.rpartition("/")[2])
    assert set(FILES) <= named | {"uPlot.LICENSE"}


def test_documents(app: MemoryApplication) -> None:
    """Those of every tab are served; nothing else of the folder above is."""
    tabs = FILES["app.js"].partition("const TABS")[2].partition("];")[0]
    names = {name for line in tabs.splitlines() for name in re.findall('"([a-z.-]+)"', line.partition("Tab, ")[2])}
    assert len(names) > 10
    for name in names:
        answer = app.get(f"/page/doc/{name if '.' in name else f'{name}.md'}")
        assert answer.status == 200 and answer.body, name
    for path in ("nothing.md", "", "..%2fREADME.md", "pictures", "%2fetc%2fpasswd"):
        assert app.get(f"/page/doc/{path}").status == 404, path


def test_the_library_is_the_released_one() -> None:
    """The only code of others is unchanged, and its licence is with it."""
    assert {name for name in FILES if name.startswith("uPlot")} == set(UPLOT)
    for name, digest in UPLOT.items():
        assert hashlib.sha256(FILES[name].encode()).hexdigest() == digest, name


def test_nothing_foreign() -> None:
    """No file names another host, brings markup in, or runs text as a program."""
    for name, text in FILES.items():
        if name in UPLOT:
            continue
        without_names = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", without_names), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function", text), name


def test_policy(app: MemoryApplication) -> None:
    """Every file forbids what does not come from here; the page contains no inline script or style."""
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY
    for path in ("/", "/page/app.js", "/page/layout.css"):
        answer = app.get(path)
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script>|<style|\sstyle=|\son[a-z]+=", FILES["index.html"])


def test_unchanged(app: MemoryApplication) -> None:
    """A browser with the same file gets 304; one with another file gets the new one."""
    whole = app.get("/page/app.js")
    tag = whole.headers["etag"]
    assert whole.headers["cache-control"] == "no-cache"
    for known, status in ((tag, 304), (f'"x", {tag}', 304), ("*", 304), ('"x"', 200), ("", 200)):
        answer = app.ask("GET", "/page/app.js", headers=f"Host: localhost\r\nIf-None-Match: {known}\r\n")
        assert (answer.status, answer.headers["etag"]) == (status, tag), known
        assert answer.body == (whole.body if status == 200 else b"")


def test_nothing_else_is_served(app: MemoryApplication) -> None:
    """Not the package's own files, not the folders above."""
    for path in ("", "/", "/__init__.py", "/index.html", "/..%2fnet%2fapi.py", "/%2e%2e/tap.py"):
        assert app.get(f"/page{path}").status == 404, path


def test_the_kinds_of_the_journal() -> None:
    """What the page names of the journal is there, each kind once; what it does not name is in the list by default."""
    lists = re.findall(r"const OF_[A-Z]+ = \[(.*?)\];", FILES["faults.js"], re.DOTALL)
    named = re.findall(r'"(\w+)"', ",".join(lists))
    assert len(named) == len(set(named)) > 10 and set(named) <= set(JOURNAL_KINDS)


def _luminance(colour: str) -> float:
    """The relative luminance of WCAG 2.1."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_board_of_the_map_is_seen(theme: str) -> None:
    """A board without values, and a lost one, differ from the card that they are drawn on."""
    scales = FILES["scales.js"]
    card = re.findall(r"--card: (#[0-9a-f]{6})", FILES["colours.css"])[theme == "dark"]
    health = re.search(rf"const HEALTH = .*?{theme}: {{(.*?)}}", scales, re.DOTALL)
    absent = re.search(rf'const ABSENT = .*?{theme}: "(#[0-9a-f]{{6}})"', scales)
    assert health and absent
    for colour in (absent[1], *re.findall(r"#[0-9a-f]{6}", health[1])):
        bright, dim = sorted(map(_luminance, (colour, card)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 1.2, colour
