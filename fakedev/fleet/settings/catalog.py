"""Device types, device lists and workloads by name: from the catalog, or from a user's file."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from fakedev.base.names import is_path
from fakedev.fleet.settings.devices import DEVICE_TYPE, load_device
from fakedev.fleet.settings.loaded import LoadedDevice, LoadedDeviceList
from fakedev.fleet.settings.original import (
    load_original_device,
    load_original_device_list,
    load_original_workload,
    original_kind,
)
from fakedev.schema.files import Files, Unreadable, absolute
from fakedev.schema.places import Node, Place, Report, Table
from fakedev.schema.prepared import read_prepared
from fakedev.schema.reader import Variables, is_clean, is_json, read_document
from fakedev.schema.sections import Section, did_you_mean

Loaded = TypeVar("Loaded")
Fields = dict[str, tuple[object, Place]]

_DEVICES: Final = "devices"
#: Aliases that are PCI device ids are not suggested.
_PCI_DEVICE: Final = "0x"
#: A sixth of the time of an expression that begins with ``^``: some hundred files are searched at each start.
_NAME_LINE: Final = re.compile(r"\n(name|version|default|aliases):(.*)")
_REMARK: Final = re.compile(r"[ \t]#")


class CatalogEntry(NamedTuple):
    """Where the catalog has something.

    :ivar version: of a file with several versions, the one that a name means.
    """

    file: str
    version: str = ""


class DeviceCatalog:
    """Finds and loads what a configuration names; each thing once.

    :param folder: where relative paths begin; in a file that was found by its path they begin at its folder.
    :param shown_folder: the same folder, as problems show it.
    """

    def __init__(self, files: Files, report: Report, folder: str = ".", shown_folder: str = "") -> None:
        self._files = files
        self._report = report
        self._folder = folder
        self._shown_folder = shown_folder
        self._expand = Variables(files).expand
        self._loaded: dict[tuple[str, str], Any] = {}

    def device(self, name: str, place: Place) -> LoadedDevice | None:
        """A device type; None when there is none or it is wrong, which was reported."""
        return self._once(_DEVICES, name, lambda: self._device(name, place))

    def device_list(self, path: str, place: Place) -> LoadedDeviceList | None:
        """The original's device list."""
        node = self._document(path, place, "the device list", variables=False)
        return None if node is None else load_original_device_list(node, self._report)

    def workload(self, path: str, place: Place) -> Fields | None:
        """The fields of the original's workload JSON."""
        node = self._document(path, place, "the workload", variables=False)
        return None if node is None else load_original_workload(node, self._report)

    def cluster(self, name: str, place: Place, presets: Sequence[str]) -> Node | None:
        """The document of a cluster: of a preset, or a file; None when there is none, which was reported."""
        if is_path(name):
            return self._document(name, place, "the cluster")
        if name not in presets:
            hint = did_you_mean(name, presets, "; ") or f": give one of {', '.join(presets)}, or the path of a file"
            self._report.problem(place, f"no cluster {name!r}{hint}")
            return None
        return read_document(self._files.read_catalog("clusters", f"{name}.yaml"), f"catalog/clusters/{name}.yaml",
                             self._report)

    def text(self, path: str, place: Place, what: str) -> tuple[str, str] | None:
        """The text of a file, and its name in problems; None when it was reported as missing."""
        return self._text(path, place, what)

    def device_names(self) -> tuple[str, ...]:
        """Names and aliases of the catalog's device types."""
        return tuple(self._names(_DEVICES))

    def load_file(self, folder: str, entry: CatalogEntry, report: Report) -> object:
        """What a file of the catalog holds; None when it is wrong."""
        text, shown = self._files.read_catalog(folder, entry.file), f"catalog/{folder}/{entry.file}"
        prepared = self._files.prepared_tree(folder, entry.file)
        node = read_prepared(prepared, text, shown) or read_document(text, shown, report)
        return None if node is None else self._load_node(folder, node, entry.version, report)

    def _load_node(self, folder: str, node: Node, version: str, report: Report) -> object:
        """The thing in a document of a folder of the catalog."""
        assert folder == _DEVICES, (folder, version)
        return load_device(node, report)

    @classmethod
    def versions(cls, folder: str, file: str, text: str) -> Mapping[str, CatalogEntry]:
        """The names of the things in a file of the catalog that has several versions; none for other files."""
        return {}

    def _other_version(self, folder: str, name: str, place: Place) -> tuple[CatalogEntry | None, str]:
        """The entry that a name means which the catalog does not list; without one, why (empty: nothing to say)."""
        return None, ""

    def _device(self, name: str, place: Place) -> LoadedDevice | None:
        if not is_path(name):
            entry = self._entry(_DEVICES, name, place, "device type")
            return self._of_catalog(_DEVICES, entry, self._report) if entry else None
        node = self._document(name, place, "the device type")
        if node is None:
            return None
        if is_original(name, node, DEVICE_TYPE):
            return load_original_device(node, self._report)
        return load_device(node, self._report)

    def _of_catalog(self, folder: str, entry: CatalogEntry, report: Report) -> Any:
        """What a file of the catalog holds. The package's own files are read once in the life of a program."""
        if not self._files.has_own_catalog:
            return self.load_file(folder, entry, report)
        found = self._built_in(folder, entry)
        for file in found.files:
            self._files.read_catalog(*file)
        report.extend(found.report)
        return found.value

    def _entry(self, folder: str, name: str, place: Place, what: str) -> CatalogEntry | None:
        """Where the catalog has a name; None when there is none, which is reported."""
        names = self._names(folder)
        entry, why = names.get(name) or names.get(name.casefold()), ""
        if entry is None:
            entry, why = self._other_version(folder, name, place)
        if entry is None:
            hint = did_you_mean(name, [candidate for candidate in names if not candidate.startswith(_PCI_DEVICE)], "; ")
            list_all = f"fakedev {folder} lists all; a file of your own is named by its path"
            self._report.problem(place, f"no {what} {name!r}{why}{hint or (';' if why else ':')} {list_all}")
        return entry

    def _names(self, folder: str) -> Mapping[str, CatalogEntry]:
        return self._built_in_index(folder) if self._files.has_own_catalog else self._index(self._files, folder)

    @classmethod
    @cache
    def _built_in(cls, folder: str, entry: CatalogEntry) -> _BuiltIn:
        """Loads a file of the package's own catalog; there are some forty, so the cache is small."""
        files, report = Files(), Report()
        value = cls(files, report).load_file(folder, entry, report)
        return _BuiltIn(value, report, files.catalog_files)

    @classmethod
    @cache
    def _built_in_index(cls, folder: str) -> Mapping[str, CatalogEntry]:
        return cls._index(Files(), folder)

    @classmethod
    def _index(cls, files: Files, folder: str) -> Mapping[str, CatalogEntry]:
        """Name, alias and name@version to the place in the catalog; a name without version is its default version."""
        names: dict[str, CatalogEntry] = {}
        for file in files.catalog_names(folder):
            text = files.peek_catalog(folder, file)
            stem = file.removesuffix(".yaml")
            versions = cls.versions(folder, file, text)
            if versions:
                names |= versions
                continue
            written = _NAME_LINE.findall(f"\n{text}")
            lines = {key: _REMARK.split(value, maxsplit=1)[0].strip(" \t") for key, value in written}
            names[stem] = CatalogEntry(file)
            bare = stem.partition("@")[0]
            if bare not in names or lines.get("default") == "true":
                names[bare] = CatalogEntry(file)
            for alias in lines.get("aliases", "").strip("[]").split(","):
                if alias.strip(" \"'"):
                    names.setdefault(alias.strip(" \"'"), CatalogEntry(file))
        return MappingProxyType(names)

    def _document(self, path: str, place: Place, what: str, *, variables: bool = True) -> Node | None:
        found = self._text(path, place, what)
        if found is None:
            return None
        text, shown = found
        expand = self._expand if variables and not is_json(text, shown) else None
        return read_document(text, shown, self._report, expand)

    def _text(self, path: str, place: Place, what: str) -> tuple[str, str] | None:
        shown = os.path.normpath(os.path.join(self._shown_folder, path))
        try:
            return self._files.read(absolute(path, self._folder)), shown
        except Unreadable as error:
            if error.line:
                self._report.problem(Place(shown, error.line), str(error))
            else:
                self._report.problem(place, f"{what} {shown}: {error}")
            return None

    def _once(self, folder: str, name: str, load: Callable[[], Loaded]) -> Loaded:
        key = (folder, name)
        if key not in self._loaded:
            self._loaded[key] = load()
        found: Loaded = self._loaded[key]
        return found


@dataclass(frozen=True)
class _BuiltIn:
    """What a file of the package's own catalog holds.

    :param files: folder and name of each file of the catalog that was read for it.
    """

    value: object
    report: Report
    files: tuple[tuple[str, str], ...]


def csv_rows(
    text: str, shown: str, report: Report, wrong: Callable[[list[str]], Iterable[str]]
) -> Iterator[tuple[Place, dict[str, str | None]]]:
    """The rows of a user's CSV file by the columns of its first line, each with its place; problems are reported.

    :param shown: how problems name the file.
    :param wrong: what is wrong with the columns; then there are no rows.
    """
    if not is_clean(text, shown, report):
        return
    reader = csv.DictReader(text.splitlines(keepends=True), strict=True)
    try:
        columns = [column.strip() for column in reader.fieldnames or ()]
        reader.fieldnames = columns
        problems = list(wrong(columns))
        for problem in problems:
            report.problem(Place(shown, 1), problem)
        for row in reader if not problems else ():
            place = Place(shown, reader.line_num)
            if None in row:
                report.problem(place, "has more values than the first line has columns")
            else:
                yield place, row
    except csv.Error as error:
        report.problem(Place(shown, reader.reader.line_num), f"is not CSV: {error}")


def is_original(name: str, node: Node, section: Section) -> bool:
    """Whether a user's file is one of the original's: by its keys, or as JSON with none of fakedev's."""
    if not isinstance(node, Table):
        return False
    known = {key.name for key in section.keys}
    has_known = any(key.text in known for key, _ in node.entries)
    return bool(original_kind(node)) or (name.endswith(".json") and not has_known)
