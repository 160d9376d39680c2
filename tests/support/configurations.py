"""What the tests of the configuration share: files in memory, and problems as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.schema.files import Files, Unreadable
from fakedev.schema.places import ConfigurationError


class MemoryFiles(Files):
    """Files that are given as texts; the catalog is the real one."""

    def __init__(self, texts: Mapping[str, str], environ: Mapping[str, str] | None = None) -> None:
        super().__init__(environ=environ)
        self._given = texts

    def read(self, path: str) -> str:
        """A text by its path below /conf."""
        name = path.removeprefix("/conf/")
        if name not in self._given:
            raise Unreadable("no such file")
        self.texts[path] = self._given[name]
        return self._given[name]


def loaded(
    text: str,
    others: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    name: str = "f.yaml",
) -> Configuration:
    """The configuration of a text in /conf/f.yaml."""
    files = MemoryFiles({name: text, **(others or {})}, environ)
    return load(f"/conf/{name}", files, overrides)


def problems(
    text: str,
    others: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    name: str = "f.yaml",
) -> list[str]:
    """The problems of a text, without the folder of the files."""
    try:
        loaded(text, others, environ, overrides, name)
    except ConfigurationError as error:
        return str(error).replace("/conf/", "").splitlines()
    return []


def pool(**keys: str) -> str:
    """A configuration with one pool a and no endpoints; an argument is a key's text in flow style."""
    entries = {"name": "a", **{key.replace("_", "-"): value for key, value in keys.items()}}
    flow = ", ".join(f"{key}: {value}" for key, value in entries.items())
    return f"fleet: {{pools: [{{{flow}}}]}}\nweb: []\nworkloads: {{listen: []}}\n"
