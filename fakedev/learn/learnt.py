"""From the series of a time to a configuration: the fleet of the last page, and a living cluster for its work."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from fakedev.base.errors import first_names
from fakedev.clone.cloning import Clone, Cloning, Wanted
from fakedev.clone.document import FIRST_LINE, file_text, node_name, with_remarks
from fakedev.clone.fleet_reader import facts_of
from fakedev.clone.scraped import Names, SourcePage, grouped
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.exporters.identity import Identity
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.learn.board_types import fitted_ranges, own_type
from fakedev.learn.cluster_fit import board_work, fitted_cluster
from fakedev.learn.inlets import fitted_inlets, with_facts, with_inlets
from fakedev.learn.job_trace import JobTrace
from fakedev.learn.likeness import LOOK_SECONDS, Row, likeness
from fakedev.learn.oddities import ENERGY, Counters, gaps, lacking, missing, resets, share_of_failures, stuck
from fakedev.learn.pace import History, Paces
from fakedev.learn.seen_jobs import SeenJob, seen_jobs
from fakedev.learn.tracks import XID, NodeOf, Seen, Track, Tracks, shown_node
from fakedev.learn.usage_fit import Window
from fakedev.schema.files import Files

#: Counters lose nothing when they are read less often, and means little: after this number of steps.
_SLOWLY: Final = 10
#: Returns the samples of families, one after this number of steps.
Series = Callable[[Sequence[str], int], Iterable[Seen]]
#: Facts that identify a board wherever it is.
_OF_BOARDS: Final = ("uuid", "serial")
#: Nodes that a note names.
_MOST_NAMED: Final = 8
_NO_NAME: Final = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True)
class Learnt:
    """The files of a learnt fleet.

    :ivar text: of the configuration.
    :ivar identities: texts of identities and device types of its own, by path.
    :ivar rows: what was read beside what it shows.
    :ivar notes: what could not be learnt.
    :ivar trace: the jobs, one by one.
    """

    text: str
    identities: dict[Path, str]
    rows: list[Row]
    notes: tuple[str, ...]
    trace: JobTrace


class _OwnNames:
    """The names in the learnt fleet.

    :param names: those that stand in the place of others, where names are private.
    """

    def __init__(self, names: Names, *, is_anonymous: bool) -> None:
        self.names = names
        self._is_anonymous = is_anonymous

    def other(self, label: str, text: str) -> str:
        """The text in the place of a label's."""
        return self.names.other(label, text) if self._is_anonymous else text

    def node_of(self, facts: Mapping[str, str], target: str) -> str:
        """Of a node, by the facts of its labels and the target."""
        text = shown_node(facts, target)
        kind = "node" if facts.get("node") else "page"
        return node_name(self.names.name(kind, text) if self._is_anonymous else text)

    def kind(self, kind: tuple[str, str]) -> tuple[str, str]:
        """Namespace and name of a kind of jobs."""
        names, is_kept = self.names, not self._is_anonymous
        namespace = kind[0] if is_kept or names.keeps("namespace") else names.name("team", kind[0])
        if not (is_kept or names.keeps("pod")):
            return namespace if kind[0] else "", names.name("work", "/".join(kind))
        words = "-".join(filter(None, (namespace if kind[0] else "", kind[1])))
        return namespace if kind[0] else "", _NO_NAME.sub("-", words.lower()).strip("-") or "work"


def learn(
    pages: Sequence[SourcePage], series: Series, history: History, window: Window, wanted: Wanted,
    show: Callable[[float], None], kept: Collection[str] = (),
) -> Learnt:  # fmt: skip
    """Learn a fleet.

    :param pages: the last values of all series, as pages of their targets.
    :param series: returns the samples of families, by their names; one after this number of steps.
    :param history: of families that the simulation does not follow.
    :param wanted: where the files go; with ``is_anonymous`` no name of the series is in them.
    :param show: is told the share that is done.
    :param kept: with ``is_anonymous``, labels whose texts stay.
    :raises ConfigurationError: when the named identity or device cannot be used.
    :raises ValueError: when the pages have no devices.
    """
    names = _OwnNames(Names(kept), is_anonymous=wanted.is_anonymous)
    movement = Paces(history, names.names if wanted.is_anonymous else None, window.step)
    cloning = Cloning(wanted, lambda share: show(0.2 * share), movement, names.names)
    clone = cloning.run(grouped(pages, is_stored=True))
    made = {str(path): text for path, text in clone.identities.items()}
    configuration, files = _loaded(clone.text, wanted.path, made)
    identities = [*configuration.identities.values()]
    # Many exporters show an XID only while there is one: none may be on the last page.
    shown = {name for source in pages for name in source.page.families} | {
        each.name for own in identities for each in own.families if any(row.quantity == XID for row in each.rows)
    }
    is_divided = any(pool.has_parts for pool in configuration.fleet.pools)
    tracks, counters = Tracks(identities, shown, names.node_of, is_divided=is_divided), Counters(identities, shown)
    document = yaml.safe_load(clone.text)
    placed = list(_placed(_read(series, tracks, counters), document["fleet"]["pools"], names))
    types = _types(configuration)
    all_units = [track for track in placed if track.device[0] in types]
    found = [track for track in all_units if not track.is_instance]
    if found:
        # A server may keep less than was asked for.
        window = replace(window, begin=max(window.begin, min(float(track.seconds[0]) for track in found)))
    jobs = seen_jobs(found, window.begin, window.end, window.step)
    own_types = _own_types(document, types, found, tracks.temperatures, files, wanted.path)
    if own_types:
        made |= {str(path): text for path, text in own_types.items()}
        types = _types(_loaded(file_text(document), wanted.path, made)[0])
    type_of = types.__getitem__
    boards = sum(len(pool.nodes) * pool.devices_per_node for pool in configuration.fleet.pools)
    fitted = fitted_cluster(
        jobs, found, type_of, window, boards, names.kind, _word, tracks.xid_count, tracks.lost_seconds
    )
    instances = [track for track in all_units if track.is_instance]
    base = [*fitted.base, *board_work(instances, type_of, window, _word, names.kind)]
    faults = [
        *_faults(all_units, counters, window, tracks.xid_count),
        *missing(_nodes_by_family(pages, identities, names.node_of), {node: own.name for node, own in types.items()}),
    ]
    notes = [*_notes(clone, own_types, is_divided=bool(instances)), *fitted.notes]
    if away := sorted({track.device[0] for track in placed} - types.keys()):
        notes.append(f"nodes that had no series in the last five minutes are left out, with their work: "
                     f"{first_names(away, _MOST_NAMED)}")
    if all_units:
        document.pop("workloads", None)
    if base:
        # What a reset ends was there all the time: it came back.
        back = {"restart": "always"} if any(fault["kind"] == "reset" for fault in faults) else {}
        document["workloads"] = {"base": [work | back for work in base]}
    if faults:
        document["faults"] = faults
    document["fleet"]["pools"] = with_facts(
        with_inlets(document["fleet"]["pools"], *fitted_inlets(tracks.temperatures, found, type_of, _word)),
        lacking(_facts_by_node(pages, identities, names.node_of)),
    )
    if fitted.document:
        document["fleet"]["cluster"] = fitted.document
    text = file_text(document)
    moment = (f"fleet.epoch={round(window.begin)}", f"fleet.tick={LOOK_SECONDS:g}s")
    spec = _loaded(text, wanted.path, made, moment)[0].fleet
    rows = likeness(found, jobs, counters, spec, window, lambda share: show(0.6 + 0.4 * share))
    remarks = [f"{title}: its pages conform {score.percent:.1f} %" for title, score in clone.scores]
    text = with_remarks(text, [*remarks, *notes, *(_words(row) for row in rows)])
    text = text.replace(FIRST_LINE, "# Made by fakedev learn.\n", 1)
    return Learnt(
        text, {**clone.identities, **own_types}, rows, tuple(notes), _trace(jobs, names, configuration, window)
    )  # fmt: skip


def _notes(clone: Clone, own_types: Iterable[Path], *, is_divided: bool) -> Iterator[str]:
    """What a reader of the configuration should know, besides what its work is."""
    yield from clone.notes
    for path in own_types:
        yield (f"{path.name}: the device type of boards whose idle power, or rise in temperature per watt, differs "
               "from the catalog's")
    if clone.random_families:
        yield ("the simulation does not follow these: they are random processes, fitted to their history, that work "
               f"and faults do not move: {', '.join(clone.random_families)}")
    if is_divided:
        yield "the living cluster leaves divided boards alone: each instance has its own usage all the time"


def _read(series: Series, tracks: Tracks, counters: Counters) -> list[Track]:
    """The tracks of all boards and instances; the counters have taken theirs."""
    for seen in series(tracks.names, 1):
        tracks.take(seen)
    for seen in series(tracks.mean_names, _SLOWLY):
        tracks.take(seen)
    for seen in series(counters.names, _SLOWLY):
        counters.take(seen)
    return list(tracks.found())


def _placed(tracks: Iterable[Track], pools: Iterable[Mapping[str, Any]], names: _OwnNames) -> Iterator[Track]:
    """The tracks; where no label of the series is an index, it is that of the board with this UUID or serial number.

    :param pools: of the clone, which lists the boards.
    """
    indices = {
        (node, fact, device[fact]): str(device["index"])
        for pool in pools for node in pool["nodes"] for device in pool.get("devices", ()) for fact in _OF_BOARDS
        if fact in device
    }  # fmt: skip
    for track in tracks:
        node, identifier = track.device
        listed = (indices.get((node, fact, names.other(fact, identifier))) for fact in _OF_BOARDS)
        yield replace(track, index=track.index or next(filter(None, listed), ""))


def _trace(jobs: Sequence[SeenJob], names: _OwnNames, configuration: Configuration, window: Window) -> JobTrace:
    nodes = {
        node.name: (pool.device_type.name, pool.devices_per_node)
        for pool in configuration.fleet.pools for node in pool.nodes
    }  # fmt: skip
    return JobTrace(jobs, {job.kind: names.kind(job.kind)[1] for job in jobs}, nodes, window.begin)


def _faults(tracks: Sequence[Track], counters: Counters, window: Window, xids: int) -> list[dict[str, Any]]:
    _, fallen, watched = counters.watched(ENERGY)
    boards = [track for track in tracks if not track.is_instance]
    down = xids * share_of_failures("node-down") / share_of_failures("lost", "xid")
    return [*gaps(tracks, window, down), *resets(fallen, watched / 3600.0, xids), *stuck(boards, _word)]


def _word(track: Track) -> str:
    return f"{track.device[0]}/{track.index}"


def _nodes_by_family(
    pages: Sequence[SourcePage], identities: Sequence[Identity], node_of: NodeOf
) -> dict[str, set[str]]:
    """The nodes that show each family that the simulation has."""
    known = {family.name: identity for identity in identities for family in identity.families}
    return {
        name: {
            node_of(facts_of(dict(sample.labels), identity.labels), source.name)
            for source in pages if name in source.page.families for sample in source.page.families[name].samples
        }
        for name, identity in known.items()
    }  # fmt: skip


def _facts_by_node(
    pages: Sequence[SourcePage], identities: Sequence[Identity], node_of: NodeOf
) -> dict[object, dict[str, set[str]]]:
    """The facts that the labels of each node show, by exporter."""
    known = {family.name: identity for identity in identities for family in identity.families}
    found: dict[object, dict[str, set[str]]] = {}
    for source in pages:
        for name, family in source.page.families.items():
            for sample in family.samples if name in known else ():
                facts = facts_of(dict(sample.labels), known[name].labels)
                node = node_of(facts, source.name)
                found.setdefault(known[name].title, {}).setdefault(node, set()).update(facts)
    return found


def _words(row: Row) -> str:
    """A row as a remark; one number for what has no distribution."""
    read, learnt = ("/".join(dict.fromkeys(f"{value:.4g}" for value in each)) if len(set(each.tolist())) == 1
                    else "/".join(f"{value:.4g}" for value in each) for each in (row.read, row.learnt))  # fmt: skip
    of = "" if "/" not in read + learnt else " (5, 10, 25, 50, 75, 90, 95 and 99 %)"
    return f"{row.what}: read {read}, learnt {learnt}{of}"


def _types(configuration: Configuration) -> dict[str, DeviceType]:
    """The device types of the nodes."""
    return {node.name: pool.device_type for pool in configuration.fleet.pools for node in pool.nodes}


def _own_types(
    document: dict[str, Any], types: Mapping[str, DeviceType], tracks: Sequence[Track],
    temperatures: Mapping[tuple[str, str], tuple[Floats, Floats]], files: Files, path: Path,
) -> dict[Path, str]:  # fmt: skip
    """The files of the device types that are fitted to the boards; the pools of the document name them.

    :param types: of the nodes.
    :param files: with the texts of these types.
    :param path: of the configuration.
    """
    found: dict[Path, str] = {}
    for board in {kind.name: kind for kind in types.values()}.values():
        ranges = fitted_ranges(board, [track for track in tracks if types.get(track.device[0]) == board], temperatures)
        text = next((text for text in files.texts.values() if f"\nname: {board.name}\n" in f"\n{text}"), "")
        if ranges and text:
            own = path.with_name(f"{path.stem}-{board.name}.yaml")
            found[own] = own_type(text, f"learnt-{board.name}", ranges)
            for pool in document["fleet"]["pools"]:
                if types[pool["nodes"][0]] == board:
                    pool["device"] = f"./{own.name}"
    return found


def _loaded(
    text: str, path: Path, made: Mapping[str, str], overrides: Sequence[str] = ()
) -> tuple[Configuration, Files]:
    files = Files(environ={}, made={str(path): text, **made})
    return load(str(path), files, [*overrides]), files
