"""Writes the jobs that were found as a trace: the files ``nodes.csv``, ``jobs.csv`` and ``series.csv``.

`fakedev replay jobs` reads them (doc/replay.md). A job on several nodes is one for each of them, as there.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from fakedev.learn.seen_jobs import SeenJob
from fakedev.learn.tracks import MEMORY, USAGE, Track

_MIB: Final = 2**20


class JobTrace:
    """The jobs of a time.

    :param names: of the kinds of the jobs: a name for each job's kind.
    :param nodes: the model and the number of boards of each node.
    :param begin: the first moment, seconds since 1970: 0 in the trace.
    """

    def __init__(
        self, jobs: Sequence[SeenJob], names: Mapping[tuple[str, str], str], nodes: Mapping[str, tuple[str, int]],
        begin: float,
    ) -> None:  # fmt: skip
        # Samples have whole seconds.
        self._names, self._nodes, self._begin = names, nodes, math.floor(begin)
        self._begins: dict[tuple[str, str], list[float]] = defaultdict(list)
        for job in jobs:  # in the order of their beginnings
            for device in {track.device for track in job.tracks}:
                self._begins[device].append(job.begin_seconds)
        self._parts = [part for number, job in enumerate(jobs, 1) for part in self._of_nodes(number, job)]

    def files(self) -> Iterator[tuple[str, Iterable[str]]]:
        """The names of the files, and their lines."""
        nodes = (f"{name},{model},{boards}\n" for name, (model, boards) in self._nodes.items())
        yield "nodes.csv", ["name,model,devices\n", *nodes]
        yield "jobs.csv", ["name,start,end,devices,model\n", *(self._job(*part) for part in self._parts)]
        yield "series.csv", self._series()

    def _of_nodes(self, number: int, job: SeenJob) -> Iterator[tuple[str, SeenJob, list[Track]]]:
        of_node: dict[str, list[Track]] = defaultdict(list)
        for track in job.tracks:
            of_node[track.device[0]].append(track)
        for rank, tracks in enumerate(of_node.values()):
            yield f"{self._names[job.kind]}-job-{number}" + f"-{rank}" * (len(of_node) > 1), job, tracks

    def _job(self, name: str, job: SeenJob, tracks: Sequence[Track]) -> str:
        end = job.end_seconds
        for device in {track.device for track in tracks}:
            # It is known to a step when a job ends: at last when another one has its board.
            begins = self._begins[device]
            place = bisect_right(begins, job.begin_seconds)
            end = min(end, begins[place]) if place < len(begins) else end
        boards = len({track.device for track in tracks})
        ends = "" if job.is_running else f"{end - self._begin:.0f}"
        models = {model for model, _ in self._nodes.values()}
        model = self._nodes[tracks[0].device[0]][0] if len(models) > 1 else ""
        return f"{name},{max(job.begin_seconds - self._begin, 0.0):.0f},{ends},{boards},{model}\n"

    def _series(self) -> Iterator[str]:
        """The means of the boards, where they are others than before."""
        yield "time,job,usage,memory\n"
        for name, _, tracks in self._parts:
            times, places = np.unique(np.concatenate([track.seconds for track in tracks]), return_inverse=True)
            usage, memory = (
                np.bincount(places, np.concatenate([track.numbers[quantity] for track in tracks])) / np.bincount(places)
                if all(quantity in track.numbers for track in tracks) else np.full(len(times), np.nan)
                for quantity in (USAGE, MEMORY)
            )  # fmt: skip
            before = ""
            for place, second in enumerate(times.tolist()):
                if not np.isfinite(usage[place]):  # a trace has memory only beside a usage
                    continue
                shown = f"{100.0 * min(max(usage[place], 0.0), 1.0):.1f},"
                shown += f"{round(memory[place] / _MIB)}MiB" if np.isfinite(memory[place]) else ""
                if shown != before:
                    yield f"{second - self._begin:.0f},{name},{shown}\n"
                before = shown
