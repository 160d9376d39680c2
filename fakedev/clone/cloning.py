"""From pages to a configuration: finds the identity, reads the fleet, and compares its own pages with what was read.

The pages and values of a configuration that is not on the disk are rendered after some simulated time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from fakedev.base.errors import printable
from fakedev.clone.closeness import Corrections, by_power, by_temperature, closeness, conformity, corrected
from fakedev.clone.document import (
    NODE_ADDRESSES,
    Board,
    Correction,
    Placed,
    configuration_document,
    file_text,
    node_name,
    with_remarks,
)
from fakedev.clone.fleet_reader import FleetReader, ObservedDevice, ObservedNode, Unit
from fakedev.clone.identity_changes import (
    Movement,
    assumed_wander,
    foreign_labels,
    identity_document,
    kept_names,
    random_names,
    unknown_families,
    with_seen_families,
    with_seen_labels,
)
from fakedev.clone.identity_scores import scored
from fakedev.clone.recognition import device_of_model, likely_identities, recognized_device, shown_board
from fakedev.clone.scraped import Names, PageGroup, anonymous_groups, thinned
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.config.sample_page import fleet_after
from fakedev.exporters.conform import Conformity
from fakedev.exporters.identity import FamilySpec, Identity
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.samples import CapturedPage, read_page
from fakedev.exporters.scores import Scored
from fakedev.exporters.settings.catalog import Catalog, named_identity
from fakedev.exporters.settings.counters import FieldTable
from fakedev.exporters.sources import DeviceSource, by_identity
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import MAX_BYTES, Files
from fakedev.schema.places import Place, Report

#: Simulated seconds after which temperatures are steady: the slowest boards need four times 31 s.
STEADY_SECONDS: Final = 180
_EPOCH: Final = "fleet.epoch=1700000000"


@dataclass(frozen=True)
class Rendered:
    """A fleet that has run for some time."""

    fleet: Fleet
    configuration: Configuration

    def page(self, identity: str) -> CapturedPage:
        """The page of all nodes with an identity.

        :param identity: its name in the configuration.
        """
        pools = self.configuration.source["fleet"]["pools"]
        names = {pool["name"]: pool["identity"] for pool in pools}
        for shown, nodes in by_identity(self.fleet.roster.shown, self.configuration.identities):
            if names[nodes[0].pool.name] == identity:
                page = Page(LabelCache(shown, DeviceSource.of(self.fleet, shown)), nodes)
                return read_page(page.render(self.fleet.shown))
        raise KeyError(identity)

    def value(self, node: str, index: int, quantity: str) -> float | None:
        """A quantity of a device; None where the node, the device or its quantity does not exist.

        :param node: by the name that it had on the pages.
        """
        place = self.fleet.roster.node(node_name(node))
        array = self.fleet.state.levels["device"].arrays.get(quantity)
        if place is None or array is None or index >= place.pool.devices_per_node:
            return None
        return float(array[place.first + index])


def rendered(text: str, path: Path, made: Mapping[str, str]) -> Rendered:
    """The fleet of a configuration after :data:`STEADY_SECONDS`.

    :param path: where it would be; paths in it begin at its folder.
    :param made: texts of the identities beside it, by path.
    :raises ConfigurationError: when it cannot be used.
    """
    files = Files(environ={}, made={str(path): text, **made})
    configuration = load(str(path), files, [_EPOCH])
    return Rendered(fleet_after(STEADY_SECONDS, configuration.fleet), configuration)


#: How often the identity is brought nearer to the page; each time its pages are rendered.
_ROUNDS: Final = 3
_NOT_KNOWN: Final = "no exporter of the catalog prints this page"
#: An exporter is one of boards when the catalog has at least this part of its families in one identity.
_OF_BOARDS: Final = 0.25
#: The identity of pages of which only fields are known that no identity has by itself.
_OF_FIELDS: Final = "dcgm"
#: The board of a node whose exporter is not known: nothing of it is shown.
_ANY_BOARD: Final = "h100-sxm5-80gb"


@dataclass(frozen=True)
class Wanted:
    """What the user has asked for.

    :param path: where the configuration goes.
    :param identity, device: names; empty: those that are found.
    """

    path: Path
    identity_path: Path
    identity: str = ""
    device: str = ""
    is_anonymous: bool = False


@dataclass(frozen=True)
class Clone:
    """The files of a clone.

    :ivar text: of the configuration.
    :ivar identities: texts by path.
    :ivar scores: what each group of pages is, and how well its pages conform.
    :ivar notes: remarks on boards that are in no device type.
    :ivar random_families: what moves by itself.
    """

    text: str
    identities: Mapping[Path, str]
    scores: Sequence[tuple[str, Conformity]]
    notes: Sequence[str]
    random_families: Sequence[str]


@dataclass(frozen=True)
class _Exporter:
    """The pages of an exporter, and the identity that they get.

    :ivar named: what the configuration says.
    """

    group: PageGroup
    base_name: str
    base: Identity
    identity: Identity
    nodes: tuple[ObservedNode, ...]
    path: Path
    device: str
    remarks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_own(self) -> bool:
        return self.identity != self.base

    @property
    def title(self) -> str:
        """Of its identity, in reports."""
        if not self.base_name:
            return "an unknown exporter"
        return self.base_name + (" with changes" if self.is_own else "")

    @property
    def named(self) -> str:
        """The identity as the configuration names it."""
        return f"./{self.path.name}" if self.is_own else self.base_name


class Cloning:
    """Makes one clone.

    :param show: is told the share that is done.
    :param movement: of what the simulation does not follow.
    :param names: in anonymous clones, those given so far; they grow.
    """

    def __init__(
        self, wanted: Wanted, show: Callable[[float], None], movement: Movement = assumed_wander,
        names: Names | None = None,
    ) -> None:  # fmt: skip
        self._wanted, self._names = wanted, names
        self._movement = movement
        is_assumed = movement is assumed_wander
        self._pace = "and a pace that is assumed (fakedev learn fits it to days)" if is_assumed else "and its pace"
        self._show = show
        self._report = Report()
        self._catalog = Catalog(Files(environ=os.environ), self._report)

    def check(self) -> None:
        """Read the identity and the device that are wanted.

        :raises ConfigurationError: when one cannot be used.
        """
        if self._wanted.identity:
            named_identity(self._wanted.identity, self._catalog, self._report, "--identity")
        if self._wanted.device:
            self._catalog.device(self._wanted.device, Place("--device"))
        self._report.raise_if_any()

    def run(self, groups: Sequence[PageGroup]) -> Clone:
        """The clone of some pages.

        :raises ConfigurationError: when the named identity or device cannot be used.
        :raises ValueError: when the pages have no devices, two exporters the same node, or the fleet is too large.
        """
        if self._wanted.is_anonymous:
            groups = anonymous_groups(groups, self._names, self._is_of_boards)
        exporters = []
        for number, group in enumerate(groups):
            exporters.append(self._exporter(group, number))
            self._show(0.5 * (number + 1) / len(groups))
        _check_nodes(exporters)
        corrections: Corrections = {}
        text, made = self._texts(exporters, corrections)
        trial = self._rendered(text, made)
        for step, change in enumerate((by_power, by_temperature), 1):
            for each in exporters:
                board = partial(self._board, each)
                corrections = corrected(each.nodes, board, trial.value, corrections, change)
            text, made = self._texts(exporters, corrections)
            trial = self._rendered(text, made)
            self._show(0.5 + 0.2 * step)
        # The trials are compared with one moment, so their work is steady.
        text, made = self._texts(exporters, corrections, is_steady=False)
        if len(text.encode()) > MAX_BYTES:
            raise ValueError(
                f"the configuration is larger than the {MAX_BYTES // 2**20} MiB that one may have: clone parts of the "
                "fleet apart"
            )
        scores, remarks = [], []
        for exporter in exporters:
            page = exporter.group.joined()
            result = conformity(page, trial.page(exporter.named), is_stored=exporter.group.is_stored)
            scores.append((exporter.title, result))
            remarks += _remarks(exporter, result, trial, self._pace)
        if len({exporter.named for exporter in exporters}) > 1:
            remarks.append(f"the nodes have different exporters, so each has an address of its own: {NODE_ADDRESSES}")
        notes = [note for exporter in exporters for note in exporter.notes]
        moving = [name for exporter in exporters for name in random_names(exporter.identity)]
        return Clone(with_remarks(text, remarks), made, scores, notes, moving)

    def _exporter(self, group: PageGroup, number: int) -> _Exporter:
        """The identity of a group of pages, and what is on them."""
        page = group.joined()
        path = self._wanted.identity_path
        if number:
            path = path.with_stem(f"{path.stem}-{number + 1}")
        is_known = self._wanted.identity or likely_identities(page.families, self._catalog, self._report)
        if not (is_known or self._identity_of_fields(page)):
            return self._unknown(group, path)
        compare = partial(conformity, is_stored=group.is_stored)
        report = scored(
            thinned(page), group.pages[0].name, self._catalog, self._report,
            identity=self._wanted.identity or self._identity_of_fields(page), device=self._wanted.device,
            compare=compare, similarity=_similarity, program="fakedev clone",
        )  # fmt: skip
        # Of releases that are as similar, those with the labels of the page, and of these the newest.
        alike = [score for score in report.scores if _similarity(score) == _similarity(report.best)]
        foreign = {each.identity: foreign_labels(self._as_written(each.identity), page) for each in alike}
        alike = [candidate for candidate in alike if foreign[candidate.identity] == min(foreign.values())]
        best = alike[-1]
        base = self._as_written(best.identity)
        identity = with_seen_labels(base, page, is_stored=group.is_stored)
        reader = FleetReader(identity)
        nodes = reader.read(group)
        if not nodes and not self._wanted.identity:
            why = f"no line names a device, as {best.identity} does" if self._is_of_boards(page) else _NOT_KNOWN
            return self._unknown(group, path, why)
        if not nodes:
            raise ValueError(f"{group.pages[0].name}: no line names a device as {best.identity} does")
        self._check_board(page, group.pages[0].name)
        others = ", ".join(candidate.identity for candidate in alike[:-1])
        as_well = (f"the page is as much that of {others}",) if others else ()
        remarks = (*report.notes, *as_well, *dict.fromkeys(reader.notes))
        exporter = _Exporter(group, best.identity, base, identity, nodes, path, best.device, remarks, report.notes)
        self._check_instances(exporter)
        return self._with_families(exporter)

    def _is_of_boards(self, page: CapturedPage) -> bool:
        """Whether an exporter of the catalog has many of a page's families."""
        likely = likely_identities(page.families, self._catalog, self._report)
        identities = (named_identity(name, self._catalog, self._report) for name in likely)
        shared = [sum(family.name in page.families for family in identity.families) for identity in identities]
        known = self._wanted.identity or self._identity_of_fields(page)
        return bool(known) or max(shared, default=0) >= _OF_BOARDS * len(page.families)

    def _unknown(self, group: PageGroup, path: Path, why: str = _NOT_KNOWN) -> _Exporter:
        """An exporter that is not in the catalog: its series move by themselves, on a node of one board a page."""
        page = group.joined()
        families, left_out = unknown_families(page, self._movement)
        nodes = tuple(ObservedNode(page.name, (ObservedDevice(0, Unit({}, {})),)) for page in group.pages)
        base = Identity("unknown", "", (), ())
        identity = replace(base, families=tuple(families))
        # The pages of these nodes have the same labels.
        where = f"each node has an address of its own: {NODE_ADDRESSES}" if len(nodes) > 1 else "the page is /metrics"
        remarks = (
            f"{why}: work and faults move none of these families; {where}",
            *(f"{name} is on the pages, and not in the clone: {why}" for name, why in left_out.items()),
        )
        device = self._wanted.device or _ANY_BOARD
        return _Exporter(group, "", base, identity, nodes, path, device, remarks, remarks[:1])

    def _check_board(self, page: CapturedPage, name: str) -> None:
        """Refuse a board that is named, and of which no device type is the model: its clone would be another board.

        :raises ValueError: with the name and the remedy.
        """
        board = shown_board(page)
        is_known = self._wanted.device or recognized_device(page.label_values(), self._catalog)
        if board and not is_known and device_of_model(board, self._catalog) is None:
            raise ValueError(
                f"{name}: no device type is of the model of the board {board!r}: name one of the catalog or "
                "a file with --device (doc/devices.md)"
            )

    def _check_instances(self, exporter: _Exporter) -> None:
        """Refuse instances that the device type cannot have.

        :raises ValueError: with the profile and the remedy.
        """
        for node in exporter.nodes:
            board = self._board(exporter, node)
            for device in node.devices:
                profiles = dict.fromkeys(part.facts.get("mig_profile", "") for part in device.parts)
                unknown = [printable(profile) or "no profile" for profile in profiles if profile not in board.profiles]
                if unknown:
                    known = ", ".join(sorted(board.profiles)) or "none"
                    raise ValueError(
                        f"{exporter.group.pages[0].name}: device {device.index} of {printable(node.name)} has instances"
                        f" of {', '.join(unknown)}, and {board.type.name} can have {known}: name a device type that "
                        "can have them with --device (doc/devices.md)"
                    )

    def _as_written(self, name: str) -> Identity:
        """An identity without what reading it adds to rows that count over a window."""
        identity = named_identity(name, self._catalog, self._report)
        loaded = self._catalog.identity(name, Place("identity"))
        return loaded.as_written or identity if loaded else identity

    def _identity_of_fields(self, page: CapturedPage) -> str:
        """The identity of a page whose families are in none by themselves, but fields of its library; else empty."""
        has = {family.name for family in named_identity(_OF_FIELDS, self._catalog, self._report).families}
        table = self._catalog.field_table(_OF_FIELDS, Place("fields"))
        fields = {*table.fields, *table.others} if isinstance(table, FieldTable) else set()
        return _OF_FIELDS if fields & page.families.keys() and not has & page.families.keys() else ""

    def _with_families(self, exporter: _Exporter) -> _Exporter:
        """The same with the families that the pages have; each time the pages are rendered and compared again."""
        some = exporter.group.of_each_shape()
        page = some.joined()
        devices = sum(len(node.devices) for node in FleetReader(exporter.identity).read(some))
        known = self._known_families(exporter, page)
        remarks: dict[str, str] = {}
        for _ in range(_ROUNDS):
            trial = replace(exporter, nodes=FleetReader(exporter.identity).read(some))
            shown = self._rendered(*self._texts([trial], {})).page(exporter.named)
            result = conformity(page, shown, is_stored=exporter.group.is_stored)
            if all(difference.aspect == "range" for difference in result.differences):
                break
            identity, left_out = with_seen_families(
                exporter.identity, page, shown, result, known, devices, self._movement,
                is_stored=exporter.group.is_stored,
            )  # fmt: skip
            known = {}
            remarks |= {name: f"{name} is on the pages, and not in the clone: {why}" for name, why in left_out.items()}
            if identity == exporter.identity:
                break
            exporter = replace(exporter, identity=identity)
        if exporter.is_own:
            exporter = replace(exporter, nodes=FleetReader(exporter.identity).read(exporter.group))
        return replace(exporter, remarks=(*exporter.remarks, *remarks.values()))

    def _known_families(self, exporter: _Exporter, page: CapturedPage) -> dict[str, FamilySpec]:
        """Families of the page that its identity lacks, and that a counters file of that exporter could name."""
        loaded = self._catalog.identity(exporter.base_name, Place("identity"))
        table = self._catalog.field_table(loaded.making.fields, Place("fields")) if loaded else None
        has = {family.name for family in exporter.identity.families}
        missing = [family for family in page.families.values() if family.name not in has and family.samples]
        if not isinstance(table, FieldTable):
            return {}
        rows = [
            f"{each.name}, {each.kind if each.kind in ('gauge', 'counter') else 'gauge'}, {each.help or each.name}\n"
            for each in missing
            if each.name in table.fields and not table.fields[each.name]["label"]
        ]
        if not rows:
            return {}
        path = str(self._wanted.path.parent / "fields-of-the-page.yaml")
        document = {"name": "fields", "based-on": exporter.base_name, "counters": "".join(rows) + "\n"}
        files = Files(environ={}, made={path: file_text(document)})
        report = Report()
        found = Catalog(files, report).identity(path, Place("identity"))
        return {family.name: family for family in (found.as_written or found.identity).families} if found else {}

    def _texts(
        self, exporters: Sequence[_Exporter], corrections: Corrections, *, is_steady: bool = True
    ) -> tuple[str, dict[Path, str]]:
        placed = [
            Placed(
                node, self._board(exporter, node), exporter.named,
                {device.index: corrections.get((node.name, device.index), Correction()) for device in node.devices},
            )
            for exporter in exporters
            for node in exporter.nodes
        ]  # fmt: skip
        made = {
            each.path: file_text(identity_document(f"{each.base.name}-clone", each.base_name, each.identity, each.base))
            for each in exporters
            if each.is_own
        }
        is_apart = any(not each.base_name and len(each.nodes) > 1 for each in exporters)
        return file_text(configuration_document(placed, is_steady=is_steady, is_apart=is_apart)), made

    def _rendered(self, text: str, made: Mapping[Path, str]) -> Rendered:
        return rendered(text, self._wanted.path, {str(path): content for path, content in made.items()})

    def _board(self, exporter: _Exporter, node: ObservedNode) -> Board:
        """The device type of a node: by the texts of its first device."""
        texts = node.devices[0].unit.facts.values() if node.devices else ()
        name = self._wanted.device or recognized_device(frozenset(texts), self._catalog) or exporter.device
        loaded = self._catalog.device(name, Place("device"))
        assert loaded is not None, name  # it is of the catalog, or was checked
        return Board(loaded.type, frozenset(each.name for each in loaded.mig.profiles) if loaded.mig else frozenset())


def _similarity(score: Scored) -> tuple[float, ...]:
    """What the page has, as exporters may be configured to few families; then what it has not, and its numbers."""
    return score.result.percent_of_capture, score.result.percent, -score.result.distance


def _check_nodes(exporters: Sequence[_Exporter]) -> None:
    seen: dict[str, str] = {}
    for exporter in exporters:
        for node in exporter.nodes:
            page = exporter.group.pages[0].name
            if seen.setdefault(node_name(node.name), page) != page:
                raise ValueError(
                    f"the node {node.name} is on pages of two exporters ({seen[node_name(node.name)]}, {page}): clone "
                    "the pages of each exporter apart"
                )


def _remarks(exporter: _Exporter, result: Conformity, simulated: Rendered, pace: str) -> list[str]:
    """What a reader of the files should know of a group of pages.

    :param pace: of what moves by itself, in words.
    """
    counts = (
        _counted(len(exporter.group.pages), "target" if exporter.group.is_stored else "page"),
        _counted(len(exporter.nodes), "node"),
        _counted(sum(len(node.devices) for node in exporter.nodes), "device"),
    )
    remarks = [
        f"{', '.join(counts)}: {exporter.base_name or 'unknown exporter'}"
        f"{' with the changes' * bool(exporter.base_name) + f' in {exporter.path.name}' if exporter.is_own else ''}; "
        f"its pages conform {result.percent:.1f} % ({result.met} of {result.aspects} aspects)"
    ]
    if exporter.group.is_stored:
        remarks.append(
            "a Prometheus keeps neither the order of families and labels nor how numbers are written: these are the "
            "identity's"
        )
    remarks += [f"differs: {difference}" for difference in result.differences]
    remarks += exporter.remarks
    kept = kept_names(exporter.identity, exporter.base) if exporter.is_own else []
    if kept:
        remarks.append(f"the simulation does not change these, they keep the numbers that were read: {', '.join(kept)}")
    moving = random_names(exporter.identity)
    if moving:
        remarks.append(
            "the simulation does not follow these: they are random processes with the distribution of what was read, "
            f"{pace}: {', '.join(moving)}"
        )
    remarks += _sparse(exporter.nodes)
    found = closeness(exporter.nodes, simulated.value)
    if found:
        near = ", ".join(remark.quantity for remark in found if remark.example is None)
        remarks.append(
            f"counters begin at 0; after {STEADY_SECONDS} simulated seconds near what was read on all devices: "
            f"{near or 'nothing'}"
        )
        remarks += [str(remark) for remark in found if remark.example is not None]
    return remarks


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _sparse(nodes: Sequence[ObservedNode]) -> list[str]:
    """A remark on nodes whose devices are not numbered from 0 on without a gap."""
    names = [node.name for node in nodes if node.devices and len(node.devices) <= node.devices[-1].index]
    if not names:
        return []
    nodes_without = f"{_counted(len(names), 'node')}, as {names[0]}"
    return [f"{nodes_without}, without devices between the first and the last number: the clone has them"]
