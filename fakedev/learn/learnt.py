"""From the series of a time to a configuration: the fleet of the last page, and a living cluster for its work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from fakedev.clone.cloning import Cloning, Wanted
from fakedev.clone.document import FIRST_LINE, file_text, node_name, with_remarks
from fakedev.clone.scraped import Names, SourcePage, anonymous_groups, grouped
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.learn.cluster_fit import Window, fitted_cluster
from fakedev.learn.likeness import LOOK_SECONDS, Row, likeness
from fakedev.learn.seen_jobs import seen_jobs
from fakedev.learn.tracks import Seen, Tracks
from fakedev.schema.files import Files

_NO_NAME: Final = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True)
class Learnt:
    """The files of a learnt fleet.

    :ivar text: of the configuration.
    :ivar identities: texts of identities of its own, by path.
    :ivar rows: what was read beside what it shows.
    :ivar notes: what could not be learnt.
    """

    text: str
    identities: dict[Path, str]
    rows: list[Row]
    notes: tuple[str, ...]


def learn(
    pages: Sequence[SourcePage], series: Callable[[Sequence[str]], Iterable[Seen]], window: Window, wanted: Wanted,
    show: Callable[[float], None],
) -> Learnt:  # fmt: skip
    """Learn a fleet.

    :param pages: the last values of all series, as pages of their targets.
    :param series: returns the samples of families, by their names.
    :param wanted: where the files go; with ``is_anonymous`` no name of the series is in them.
    :param show: is told the share that is done.
    :raises ConfigurationError: when the named identity or device cannot be used.
    :raises ValueError: when the pages have no devices, and when no series has an owner.
    """
    names = Names()
    groups = grouped(pages, is_stored=True)
    if wanted.is_anonymous:
        groups = anonymous_groups(groups, names)
    last = Wanted(wanted.path, wanted.identity_path, wanted.identity, wanted.device)
    clone = Cloning(last, lambda share: show(0.2 * share)).run(groups)
    made = {str(path): text for path, text in clone.identities.items()}
    configuration = _loaded(clone.text, wanted.path, made)
    tracks = Tracks(configuration.identities.values(), {name for source in pages for name in source.page.families})
    for seen in series(tracks.names):
        tracks.take(seen)
    found = list(tracks.found())
    if found:
        # A server may keep less than was asked for.
        window = replace(window, begin=max(window.begin, min(float(track.seconds[0]) for track in found)))
    jobs = seen_jobs(found, window.begin, window.end, window.step)
    types = {node.name: pool.device_type for pool in configuration.fleet.pools for node in pool.nodes}
    usual = configuration.fleet.pools[0].device_type

    def own_name(node: str) -> str:
        return node_name(names.name("node", node) if wanted.is_anonymous else node)

    def type_of(node: str) -> DeviceType:
        return types.get(own_name(node), usual)

    def name_of(kind: tuple[str, str]) -> tuple[str, str]:
        if wanted.is_anonymous:
            return names.name("team", kind[0]) if kind[0] else "", names.name("work", "/".join(kind))
        return kind[0], _NO_NAME.sub("-", "-".join(filter(None, kind)).lower()).strip("-") or "work"

    boards = sum(len(pool.nodes) * pool.devices_per_node for pool in configuration.fleet.pools)
    fitted = fitted_cluster(jobs, found, type_of, window, boards, name_of,
                            lambda track: f"{own_name(track.device[0])}/{track.index}")
    notes = [*clone.notes, *fitted.notes]
    if tracks.divided_count:
        notes.append(f"{tracks.divided_count} series are of instances (MIG), whose work is not learnt")
    document = yaml.safe_load(clone.text)
    document.pop("workloads", None)
    if fitted.base:
        document["workloads"] = {"base": fitted.base}
    for pool in document["fleet"]["pools"]:
        pool["name"] = pool["name"].replace("clone", "pool")
    if fitted.document:
        document["fleet"]["cluster"] = fitted.document
    text = file_text(document)
    moment = (f"fleet.epoch={round(window.begin)}", f"fleet.tick={LOOK_SECONDS:g}s")
    spec = _loaded(text, wanted.path, made, moment).fleet
    rows = likeness(found, jobs, spec, window, lambda share: show(0.6 + 0.4 * share))
    remarks = [f"{title}: its pages conform {score.percent:.1f} %" for title, score in clone.scores]
    text = with_remarks(text, [*remarks, *notes, *(_words(row) for row in rows)])
    return Learnt(text.replace(FIRST_LINE, "# Made by fakedev learn.\n", 1), dict(clone.identities), rows, tuple(notes))


def _words(row: Row) -> str:
    """A row as a remark; one number for what has no distribution."""
    read, learnt = ("/".join(dict.fromkeys(f"{value:.4g}" for value in each)) if len(set(each.tolist())) == 1
                    else "/".join(f"{value:.4g}" for value in each) for each in (row.read, row.learnt))  # fmt: skip
    of = "" if "/" not in read + learnt else " (5, 10, 25, 50, 75, 90, 95 and 99 %)"
    return f"{row.what}: read {read}, learnt {learnt}{of}"


def _loaded(text: str, path: Path, made: dict[str, str], overrides: Sequence[str] = ()) -> Configuration:
    return load(str(path), Files(environ={}, made={str(path): text, **made}), [*overrides])
