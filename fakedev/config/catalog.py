"""Device types and identities by name: from the catalog, or from a user's file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from fakedev.config.devices.devices import load_device
from fakedev.config.devices.keys import DEVICE_TYPE
from fakedev.config.identities.counters import FieldTable
from fakedev.config.identities.identities import load_identity
from fakedev.config.identities.keys import IDENTITY
from fakedev.config.identities.releases import Releases, chosen_release, composed, releases_in
from fakedev.config.models import LoadedDevice, LoadedDeviceList, LoadedIdentity
from fakedev.config.names import is_path
from fakedev.config.original import (
    load_original_device,
    load_original_device_list,
    load_original_identity,
    load_original_workload,
    original_kind,
)
from fakedev.config.schema.documents import Variables, is_json, read_document
from fakedev.config.schema.files import Files, Unreadable, absolute
from fakedev.config.schema.nodes import Node, Place, Report, Table
from fakedev.config.schema.schema import Section, did_you_mean
from fakedev.exposition.identity import FamilySpec

Loaded = TypeVar("Loaded")
Fields = dict[str, tuple[object, Place]]

_DEVICES: Final = "devices"
_IDENTITIES: Final = "identities"
_FIELDS: Final = "fields"
#: Aliases that are PCI device ids are not suggested.
_PCI_DEVICE: Final = "0x"
_NAME_LINE: Final = re.compile(r"^(name|version|default|aliases):(.*)$", re.MULTILINE)
_REMARK: Final = re.compile(r"[ \t]#")


class Catalog:
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
        self._loading: list[str] = []
        #: The folder of the identity's file that is being read, relative to ``folder``.
        self._here = ""

    def device(self, name: str, place: Place) -> LoadedDevice | None:
        """A device type; None when there is none or it is wrong, which was reported."""
        return self._once(_DEVICES, name, lambda: self._device(name, place))

    def identity(self, name: str, place: Place) -> LoadedIdentity | None:
        """An identity; None when there is none or it is wrong, which was reported."""
        if is_path(name):
            name = os.path.normpath(os.path.join(self._here, name))
            # With its folder a name may become a path, and a path without it a name.
            name = name if is_path(name) else os.path.join(".", name)
        if name in self._loading:
            self._report.problem(place, f"the identity {name!r} is based on itself")
            return None
        self._loading.append(name)
        outside, self._here = self._here, os.path.dirname(name) if is_path(name) else ""
        try:
            return self._once(_IDENTITIES, name, lambda: self._identity(name, place))
        finally:
            self._here = outside
            self._loading.remove(name)

    def device_list(self, path: str, place: Place) -> LoadedDeviceList | None:
        """The original's device list."""
        node = self._document(path, place, "the device list", variables=False)
        return None if node is None else load_original_device_list(node, self._report)

    def workload(self, path: str, place: Place) -> Fields | None:
        """The fields of the original's workload JSON."""
        node = self._document(path, place, "the workload", variables=False)
        return None if node is None else load_original_workload(node, self._report)

    def text(self, path: str, place: Place, what: str) -> tuple[str, str] | None:
        """The text of a file that an identity names, and its name in problems; None when it was reported as missing."""
        return self._text(os.path.join(self._here, path), place, what)

    def field_table(self, name: str, place: Place) -> FieldTable | None:
        """The fields that counters may name; None when there is no such table, which was reported."""
        file = f"{name}.yaml"
        known = self._files.catalog_names(_FIELDS)
        if file not in known:
            self._report.problem(place, f"no fields {name!r}: there is {', '.join(known)}".replace(".yaml", ""))
            return None
        table: FieldTable | None = self._once(_FIELDS, name, lambda: self._of_catalog(_FIELDS, file, self._report))
        return table

    def family(self, name: str) -> FamilySpec | None:
        """A family of some identity of the catalog, by its name."""
        # Only files in which it is a family's name, or begins a line of counters, are read: each takes milliseconds.
        written = re.compile(rf"(?:\bname: *['\"]?|^ *){re.escape(name)}(?![\w:])", re.MULTILINE)
        for file in self._files.catalog_names(_IDENTITIES):
            if written.search(self._files.peek_catalog(_IDENTITIES, file)):
                releases = releases_in(self._files.peek_catalog(_IDENTITIES, file))
                release = releases.every[0].name if releases else ""
                loaded: LoadedIdentity | None = self._of_catalog(_IDENTITIES, file, Report(), release)
                for family in loaded.identity.families if loaded else ():
                    if family.name == name:
                        return family
        return None

    def device_names(self) -> tuple[str, ...]:
        """Names and aliases of the catalog's device types."""
        return tuple(self._names(_DEVICES))

    def identity_names(self) -> tuple[str, ...]:
        """Names of the catalog's identities, with and without version."""
        return tuple(self._names(_IDENTITIES))

    def read_catalog_file(self, folder: str, file: str, report: Report, release: str = "") -> object:
        """The device type, identity or table of fields in a file of the catalog; None when it is wrong.

        :param release: which identity, in a file with several releases.
        """
        node = read_document(self._files.read_catalog(folder, file), f"catalog/{folder}/{file}", report)
        if node is None:
            return None
        if release and isinstance(node, Table):
            node = composed(node, release)
        if folder == _DEVICES:
            return load_device(node, report)
        return load_identity(node, report, self) if folder == _IDENTITIES else FieldTable.read(node, report)

    def _device(self, name: str, place: Place) -> LoadedDevice | None:
        if not is_path(name):
            entry = self._entry(_DEVICES, name, place, "device type")
            return self._of_catalog(_DEVICES, entry.file, self._report) if entry else None
        node = self._document(name, place, "the device type")
        if node is None:
            return None
        if _is_original(name, node, DEVICE_TYPE):
            return load_original_device(node, self._report)
        return load_device(node, self._report)

    def _identity(self, name: str, place: Place) -> LoadedIdentity | None:
        if not is_path(name):
            entry = self._entry(_IDENTITIES, name, place, "identity")
            return self._of_catalog(_IDENTITIES, entry.file, self._report, entry.release) if entry else None
        node = self._document(name, place, "the identity")
        if node is None:
            return None
        if _is_original(name, node, IDENTITY):
            return load_original_identity(node, self._report, self.family)
        return load_identity(node, self._report, self)

    def _of_catalog(self, folder: str, file: str, report: Report, release: str = "") -> Any:
        """What a file of the catalog holds. The package's own files are read once in the life of a program."""
        if not self._files.has_own_catalog:
            return self.read_catalog_file(folder, file, report, release)
        found = _own(folder, file, release)
        for each in found.files:
            self._files.read_catalog(*each)
        report.extend(found.report)
        return found.value

    def _entry(self, folder: str, name: str, place: Place, what: str) -> _Entry | None:
        """Where the catalog has a name; None when there is none, which is reported."""
        names = self._names(folder)
        entry = names.get(name) or names.get(name.casefold())
        bare, _, version = name.partition("@")
        releases = names[bare].releases if entry is None and version and bare in names else None
        why = ""
        if releases is not None:
            try:
                release, remark = chosen_release(version, releases)
            except ValueError as error:
                why = f": {error}"
            else:
                if remark:
                    self._report.note(place, f"{name}: {remark}")
                return names[f"{bare}@{release}"]
        if entry is None:
            hint = did_you_mean(name, [each for each in names if not each.startswith(_PCI_DEVICE)], "; ")
            list_all = f"fakedev {folder} lists all; a file of your own is named by its path"
            self._report.problem(place, f"no {what} {name!r}{why}{hint or (';' if why else ':')} {list_all}")
        return entry

    def _names(self, folder: str) -> Mapping[str, _Entry]:
        return _own_index(folder) if self._files.has_own_catalog else _index(self._files, folder)

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
class _Own:
    """What a file of the package's own catalog holds.

    :param files: folder and name of each file of the catalog that was read for it.
    """

    value: object
    report: Report
    files: tuple[tuple[str, str], ...]


class _Entry(NamedTuple):
    """Where the catalog has something.

    :ivar release: of a file with several releases, the one that a name means.
    :ivar releases: all of these.
    """

    file: str
    release: str = ""
    releases: Releases | None = None


@cache
def _own(folder: str, file: str, release: str) -> _Own:
    """Loads a file of the package's own catalog; there are some forty, so the cache is small."""
    files, report = Files(), Report()
    value = Catalog(files, report).read_catalog_file(folder, file, report, release)
    return _Own(value, report, files.catalog_files)


@cache
def _own_index(folder: str) -> Mapping[str, _Entry]:
    return _index(Files(), folder)


def _index(files: Files, folder: str) -> Mapping[str, _Entry]:
    """Name, alias and name@version to the place in the catalog; a name without version is its default version."""
    names: dict[str, _Entry] = {}
    for file in files.catalog_names(folder):
        text = files.peek_catalog(folder, file)
        stem = file.removesuffix(".yaml")
        lines = {key: _REMARK.split(value, maxsplit=1)[0].strip(" \t") for key, value in _NAME_LINE.findall(text)}
        releases = releases_in(text) if folder == _IDENTITIES else None
        if releases is not None:
            names |= {f"{stem}@{each.name}": _Entry(file, each.name, releases) for each in releases.every}
            names[stem] = _Entry(file, releases.default, releases)
            continue
        names[stem] = _Entry(file)
        bare = stem.partition("@")[0]
        if bare not in names or lines.get("default") == "true":
            names[bare] = _Entry(file)
        for alias in lines.get("aliases", "").strip("[]").split(","):
            if alias.strip(" \"'"):
                names.setdefault(alias.strip(" \"'"), _Entry(file))
    return MappingProxyType(names)


def _is_original(name: str, node: Node, section: Section) -> bool:
    """Whether a user's file is one of the original's: by its keys, or as JSON with none of fakedev's."""
    if not isinstance(node, Table):
        return False
    known = {key.name for key in section.keys}
    has_known = any(key.text in known for key, _ in node.entries)
    return bool(original_kind(node)) or (name.endswith(".json") and not has_known)
