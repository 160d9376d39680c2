"""The jobs in the tracks of devices: which pods or batch jobs are one, how large and long they were, and of what kind.

Pods of one job have one beginning of their names, and begin within five minutes of each other; where numbers end their
names, these are ranks, from 0 or 1 on. What Kubernetes and schedulers add to a name (a number, a hash, letters without
vowels) says nothing of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from fakedev.learn.tracks import Owner, Track

#: Jobs that began: as many say how often they do.
ENOUGH_JOBS: Final = 10
#: Ranks of a job begin within this time.
_TOGETHER_SECONDS: Final = 300.0
#: Kubernetes draws the ends of names from letters and digits without vowels and what looks like them; numbers are ranks
#: or dates, and hexadecimal digits hashes.
_ADDED: Final = re.compile(r"\d+|[bcdfghjklmnpqrstvwxz2456789]{4,}|[0-9a-f]{6,}|(?=\w*\d)\w{5,}")
#: Pods of one job are called so, before their numbers: by Kubeflow, Volcano, and a living cluster.
_ROLES: Final = frozenset(("worker", "master", "launcher", "chief"))
_SPLIT: Final = re.compile(r"[-_.]")
_RANK: Final = re.compile(r"(?:.*[-_.])?(\d{1,9})")


@dataclass(frozen=True)
class SeenJob:
    """A job, or the part of it within the time that was read.

    :ivar kind: namespace and what the names of its pods have in common.
    :ivar begin_seconds, end_seconds: since 1970.
    :ivar is_older: it was there at the first sample: when it began is not known.
    :ivar is_running: it was there at the last one: how long it takes is not known.
    """

    kind: tuple[str, str]
    tracks: tuple[Track, ...]
    begin_seconds: float
    end_seconds: float
    is_older: bool
    is_running: bool

    @property
    def size(self) -> int:
        """Its number of devices."""
        return len({track.device for track in self.tracks})

    @property
    def seconds(self) -> float:
        """For how long it was seen."""
        return self.end_seconds - self.begin_seconds

    @property
    def is_constant(self) -> bool:
        """Whether it was there all the time, on devices whose numbers are known."""
        return self.is_older and self.is_running and all(track.is_placed for track in self.tracks)


def _words(name: str) -> list[str]:
    return [word for word in _SPLIT.split(name) if word]


def job_of(owner: Owner) -> tuple[str, str]:
    """The job of an owner: namespace and name. The pods of a job have one name here: ranks and roles are cut off."""
    if not owner.pod:
        return owner.namespace, owner.batch_job
    words = _words(owner.pod)
    words = words[:-1] if len(words) > 1 and _ADDED.fullmatch(words[-1]) else words
    return owner.namespace, "-".join(words[:-1] if len(words) > 1 and words[-1] in _ROLES else words)


def kind_of(owner: Owner) -> tuple[str, str]:
    """The namespace and the words of a name that are the same for all jobs of a kind; batch jobs have numbers only."""
    words = _words(owner.pod) or ["batch"]
    first, *others = words
    kept = (word for word in others if word not in _ROLES and not _ADDED.fullmatch(word))
    return owner.namespace, "-".join([first, *kept])


def seen_jobs(tracks: Iterable[Track], begin: float, end: float, step: float) -> list[SeenJob]:
    """The jobs of some tracks, in the order of their beginnings.

    :param begin, end: the first and the last time that was asked for.
    :param step: seconds between samples.
    """
    owned = [track for track in tracks if track.owner != Owner()]
    owned.sort(key=lambda track: (job_of(track.owner), float(track.seconds[0])))
    found = []
    for _, named in groupby(owned, key=lambda track: job_of(track.owner)):
        for together in (ranks for run in _runs(list(named)) for ranks in _jobs(run)):
            first = min(float(track.seconds[0]) for track in together)
            last = max(float(track.seconds[-1]) for track in together)
            found.append(SeenJob(
                kind_of(together[0].owner), tuple(together), first, last + step,
                is_older=first <= begin + 1.5 * step, is_running=last >= end - 1.5 * step,
            ))  # fmt: skip
    return sorted(found, key=lambda job: job.begin_seconds)


def _runs(tracks: Sequence[Track]) -> Iterable[list[Track]]:
    """Tracks that begin together, of some in the order of their beginnings."""
    run: list[Track] = []
    for track in tracks:
        if run and track.seconds[0] > run[0].seconds[0] + _TOGETHER_SECONDS:
            yield run
            run = []
        run.append(track)
    yield run


def _jobs(tracks: Sequence[Track]) -> Iterable[list[Track]]:
    """The jobs of some tracks that begin together: one with all ranks, and one for each number that is no rank."""
    found: dict[int, list[Track]] = {}
    for track in tracks:
        numbered = _RANK.fullmatch(track.owner.pod)
        found.setdefault(int(numbered[1]) if numbered else 0, []).append(track)
    numbers = sorted(found)
    # Ranks follow each other from 0 or 1 on.
    count = sum(number == numbers[0] + place for place, number in enumerate(numbers)) if numbers[0] < 2 else 0
    yield from filter(None, ([track for number in numbers[:count] for track in found[number]],
                             *(found[number] for number in numbers[count:])))
