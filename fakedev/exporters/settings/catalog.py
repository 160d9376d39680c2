"""Identities by name, besides device types: from the catalog, or from a user's file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from zope.interface import implementer

from fakedev.base.names import is_path
from fakedev.exporters.identity import FamilySpec, Identity
from fakedev.exporters.settings.counters import FieldTable
from fakedev.exporters.settings.families import ILibrary
from fakedev.exporters.settings.identities import chosen_release, composed, load_identity, releases_in
from fakedev.exporters.settings.keys import IDENTITY
from fakedev.exporters.settings.loaded import LoadedIdentity
from fakedev.exporters.settings.original import load_original_identity
from fakedev.fleet.settings.catalog import CatalogEntry, DeviceCatalog, is_original
from fakedev.schema.files import Files
from fakedev.schema.places import Node, Place, Report, Table

_IDENTITIES: Final = "identities"
_FIELDS: Final = "fields"


@implementer(ILibrary)
class Catalog(DeviceCatalog):
    """Finds device types and identities."""

    def __init__(self, files: Files, report: Report, folder: str = ".", shown_folder: str = "") -> None:
        super().__init__(files, report, folder, shown_folder)
        self._loading: list[str] = []
        #: The folder of the identity's file that is being read, relative to ``folder``.
        self._here = ""

    def identity(self, name: str, place: Place) -> LoadedIdentity | None:
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

    def text(self, path: str, place: Place, what: str) -> tuple[str, str] | None:
        return super().text(os.path.join(self._here, path), place, what)

    def field_table(self, name: str, place: Place) -> FieldTable | None:
        file = f"{name}.yaml"
        known = self._files.catalog_names(_FIELDS)
        if file not in known:
            self._report.problem(place, f"no fields {name!r}: there is {', '.join(known)}".replace(".yaml", ""))
            return None
        entry = CatalogEntry(file)
        table: FieldTable | None = self._once(_FIELDS, name, lambda: self._of_catalog(_FIELDS, entry, self._report))
        return table

    def family(self, name: str) -> FamilySpec | None:
        """A family of some identity of the catalog, by its name."""
        # Only files in which it is a family's name, or begins a line of counters, are read: each takes milliseconds.
        written = re.compile(rf"(?:\bname: *['\"]?|^ *){re.escape(name)}(?![\w:])", re.MULTILINE)
        for file in self._files.catalog_names(_IDENTITIES):
            text = self._files.peek_catalog(_IDENTITIES, file)
            if name in text and written.search(text):
                releases = releases_in(text)
                release = releases.every[0].name if releases else ""
                loaded: LoadedIdentity | None = self._of_catalog(_IDENTITIES, CatalogEntry(file, release), Report())
                for family in loaded.identity.families if loaded else ():
                    if family.name == name:
                        return family
        return None

    def identity_names(self) -> tuple[str, ...]:
        """Names of the catalog's identities, with and without version."""
        return tuple(self._names(_IDENTITIES))

    def _identity(self, name: str, place: Place) -> LoadedIdentity | None:
        if not is_path(name):
            entry = self._entry(_IDENTITIES, name, place, "identity")
            return self._of_catalog(_IDENTITIES, entry, self._report) if entry else None
        node = self._document(name, place, "the identity")
        if node is None:
            return None
        if is_original(name, node, IDENTITY):
            return load_original_identity(node, self._report, self.family)
        return load_identity(node, self._report, self)

    def _load_node(self, folder: str, node: Node, version: str, report: Report) -> object:
        if folder == _FIELDS:
            return FieldTable.read(node, report, self.field_table)
        if folder != _IDENTITIES:
            return super()._load_node(folder, node, version, report)
        if not version or not isinstance(node, Table):
            return load_identity(node, report, self)
        loaded = load_identity(composed(node, version), report, self)
        releases = releases_in(self._files.peek_catalog(folder, os.path.basename(node.place.file)))
        if loaded is None or releases is None:
            return None
        pairs = next(release.pairs for release in releases.every if release.name == version)
        return replace(loaded, identity=replace(loaded.identity, versions=pairs))

    @classmethod
    def versions(cls, folder: str, file: str, text: str) -> Mapping[str, CatalogEntry]:
        """The releases of an exporter, NAME@VERSION; the name alone is the default one."""
        releases = releases_in(text) if folder == _IDENTITIES else None
        if releases is None:
            return {}
        stem = file.removesuffix(".yaml")
        named = {f"{stem}@{release.name}": CatalogEntry(file, release.name) for release in releases.every}
        return {**named, stem: CatalogEntry(file, releases.default)}

    def _other_version(self, folder: str, name: str, place: Place) -> tuple[CatalogEntry | None, str]:
        """The release that a version between two releases means."""
        bare, _, version = name.partition("@")
        entry = self._names(folder).get(bare) if version and folder == _IDENTITIES else None
        releases = releases_in(self._files.peek_catalog(folder, entry.file)) if entry and entry.version else None
        if releases is None:
            return None, ""
        try:
            release, remark = chosen_release(version, releases)
        except ValueError as error:
            return None, f": {error}"
        if remark:
            self._report.note(place, f"{name}: {remark}")
        return self._names(folder)[f"{bare}@{release}"], ""


def named_identity(name: str, catalog: Catalog, report: Report, where: str = "identity") -> Identity:
    """An identity of the catalog or of a file.

    :param where: the user has named it, for problems.
    :raises ConfigurationError: when it does not exist or has problems.
    """
    loaded = catalog.identity(name, Place(where))
    report.raise_if_any()
    if loaded is None:
        raise ValueError(f"no identity {name!r}")
    return loaded.identity
