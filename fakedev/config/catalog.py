"""Device types and identities by name, from the catalog or from a user's own file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from fakedev.config.devices.devices import load_device
from fakedev.config.devices.keys import DEVICE_TYPE
from fakedev.config.identities.counters import FieldTable
from fakedev.config.identities.identities import load_identity
from fakedev.config.identities.keys import IDENTITY
from fakedev.config.models import LoadedDevice, LoadedDeviceList, LoadedIdentity
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
from fakedev.config.schema.schema import Section, nearest_name
from fakedev.exposition.identity import FamilySpec

Loaded = TypeVar("Loaded")
Fields = dict[str, tuple[object, Place]]

_DEVICES: Final = "devices"
_IDENTITIES: Final = "identities"
_FIELDS: Final = "fields"
_NAME_LINE: Final = re.compile(r"^(name|version|default|aliases):[ \t]*(.*?)[ \t]*(?:[ \t]#.*)?$", re.MULTILINE)


class Catalog:
    """Finds and loads what a configuration names; each thing once.

    :param folder: where relative paths begin; those in a file that was found by its path begin at its folder.
    :param shown_folder: the same, as problems shall show it.
    """

    def __init__(self, files: Files, report: Report, folder: str = ".", shown_folder: str = "") -> None:
        self._files = files
        self._report = report
        self._folder = folder
        self._shown_folder = shown_folder
        self._expand = Variables(files).expand
        self._loaded: dict[tuple[str, str], object] = {}
        self._index: dict[str, Mapping[str, str]] = {}
        self._loading: list[str] = []
        #: The folder of the identity's file that is being read, from ``folder``.
        self._here = ""

    def device(self, name: str, place: Place) -> LoadedDevice | None:
        """A device type; None when there is none or it is wrong, which was reported."""
        return self._once(_DEVICES, name, lambda: self._device(name, place))

    def identity(self, name: str, place: Place) -> LoadedIdentity | None:
        """An identity; None when there is none or it is wrong, which was reported."""
        if is_path(name):
            name = os.path.normpath(os.path.join(self._here, name))
            # What is no path without its folder is one with it, and the other way round.
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
        """The text of a file that an identity names, and its name for people; None when there is none: reported."""
        return self._text(os.path.join(self._here, path), place, what)

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

    def device_names(self) -> tuple[str, ...]:
        """Names and aliases of the catalog's device types."""
        return tuple(self._names(_DEVICES))

    def identity_names(self) -> tuple[str, ...]:
        """Names of the catalog's identities, with and without version."""
        return tuple(self._names(_IDENTITIES))

    def family(self, name: str) -> FamilySpec | None:
        """A family of some identity of the catalog, by its name."""
        own = Report()
        for file in self._files.catalog_names(_IDENTITIES):
            if name in self._files.peek_catalog(_IDENTITIES, file):
                loaded = self._once(_IDENTITIES, file.removesuffix(".yaml"), partial(self._from_catalog, file, own))
                for family in loaded.identity.families if loaded else ():
                    if family.name == name:
                        return family
        return None

    def field_table(self, name: str, place: Place) -> FieldTable | None:
        """The fields that counters may name; None when there is no such table, which was reported."""
        return self._once(_FIELDS, name, lambda: self._field_table(name, place))

    def _field_table(self, name: str, place: Place) -> FieldTable | None:
        file = f"{name}.yaml"
        known = self._files.catalog_names(_FIELDS)
        if file not in known:
            self._report.problem(place, f"no fields {name!r}: there is {', '.join(known)}".replace(".yaml", ""))
            return None
        text = self._files.read_catalog(_FIELDS, file)
        node = read_document(text, f"catalog/{_FIELDS}/{file}", self._report)
        return None if node is None else FieldTable.read(node, self._report)

    def _from_catalog(self, file: str, report: Report) -> LoadedIdentity | None:
        node = read_document(self._files.read_catalog(_IDENTITIES, file), f"catalog/{_IDENTITIES}/{file}", report)
        return None if node is None else load_identity(node, report, self)

    def _device(self, name: str, place: Place) -> LoadedDevice | None:
        node = self._node(_DEVICES, name, place, "device type")
        if node is None:
            return None
        if _is_original(name, node, DEVICE_TYPE):
            return load_original_device(node, self._report)
        return load_device(node, self._report)

    def _identity(self, name: str, place: Place) -> LoadedIdentity | None:
        node = self._node(_IDENTITIES, name, place, "identity")
        if node is None:
            return None
        if _is_original(name, node, IDENTITY):
            return load_original_identity(node, self._report, self.family)
        return load_identity(node, self._report, self)

    def _node(self, folder: str, name: str, place: Place, what: str) -> Node | None:
        """The document of a name, from the catalog or from a path."""
        if is_path(name):
            return self._document(name, place, f"the {what}")
        names = self._names(folder)
        file = names.get(name) or names.get(name.casefold())
        if file is None:
            nearest = nearest_name(name, names)
            hint = f"did you mean {nearest!r}?" if nearest else f"the catalog has {', '.join(names)}."
            self._report.problem(place, f"no {what} {name!r}; {hint} A file of your own is named by its path.")
            return None
        return read_document(self._files.read_catalog(folder, file), f"catalog/{folder}/{file}", self._report)

    def _document(self, path: str, place: Place, what: str, *, variables: bool = True) -> Node | None:
        found = self._text(path, place, what)
        if found is None:
            return None
        text, shown = found
        expand = self._expand if variables and not is_json(text, shown) else None
        return read_document(text, shown, self._report, expand)

    def _names(self, folder: str) -> Mapping[str, str]:
        """Name, alias, name@version to the file of the catalog; a bare name is its default version."""
        if folder not in self._index:
            names: dict[str, str] = {}
            for file in self._files.catalog_names(folder):
                stem = file.removesuffix(".yaml")
                said = dict(_NAME_LINE.findall(self._files.peek_catalog(folder, file)))
                names[stem] = file
                bare = stem.partition("@")[0]
                if bare not in names or said.get("default") == "true":
                    names[bare] = file
                for alias in said.get("aliases", "").strip("[]").split(","):
                    if alias.strip(" \"'"):
                        names.setdefault(alias.strip(" \"'"), file)
            self._index[folder] = names
        return self._index[folder]

    def _once(self, folder: str, name: str, load: Callable[[], Loaded]) -> Loaded:
        key = (folder, name)
        if key not in self._loaded:
            self._loaded[key] = load()
        return self._loaded[key]  # type: ignore[return-value]


def is_path(name: str) -> bool:
    """Whether a name is the path of a file, not a name of the catalog."""
    return "/" in name or name.endswith((".yaml", ".yml", ".json"))


def _is_original(name: str, node: Node, section: Section) -> bool:
    """Whether a file is one of the original's: by its keys, or JSON with none of ours."""
    if not is_path(name) or not isinstance(node, Table):
        return False
    ours = {key.name for key in section.keys}
    has_ours = any(key.text in ours for key, _ in node.entries)
    return bool(original_kind(node)) or (name.endswith(".json") and not has_ours)
