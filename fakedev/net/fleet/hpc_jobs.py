"""The jobs of a node's GPUs in a folder, as a batch system keeps them for dcgm-exporter (--hpc-job-mapping-dir).

The folder has a file for each GPU with jobs, named by the GPU's index (or its UUID), with a job on each line. Jobs of
files that others write become workloads without load that have the label ``hpc_job``: so a record has them, too. Or the
files are written, of the workloads that have this label.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.system.files import PRIVATE, replace_file
from fakedev.spec.errors import Refused
from fakedev.spec.os_errors import CannotWrite, plain_reason
from fakedev.spec.workload_fields import workload_from_fields

#: The label that pages show, and the name of the workloads that stand for jobs.
LABEL: Final = "hpc_job"
_NAME: Final = "hpc-job"
_MAX_FILES: Final = 1024
_MAX_BYTES: Final = 65536
_MAX_JOBS: Final = 64
#: Others may read the files, as those of a batch system.
_MODE: Final = PRIVATE | 0o044
_INDEX: Final = re.compile(r"[0-9]{1,4}")

#: The jobs of GPUs, each once, by the names of their files.
Jobs = Mapping[str, tuple[str, ...]]
Result = TypeVar("Result")
InThread = Callable[[Callable[[], Result]], "Deferred[Result]"]


def read_jobs(folder: str) -> Jobs:
    """The jobs in a folder; none when it is missing. At most 1024 files, and 64 KiB and 64 jobs of each.

    :raises OSError: when the folder or a file cannot be read.
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return {}
    found = {}
    for name in names[:_MAX_FILES]:
        path = os.path.join(folder, name)
        if not os.path.isfile(path) or name.startswith("."):
            continue
        with open(path, "rb") as stream:
            found[name] = jobs_of(stream.read(_MAX_BYTES))
    return found


def jobs_of(content: bytes) -> tuple[str, ...]:
    """The jobs of a file's content: a line each, each once, the first 64."""
    lines = content.decode("utf-8", "replace").splitlines()
    return tuple(dict.fromkeys(filter(None, map(str.strip, lines))))[:_MAX_JOBS]


class HpcJobFolder(Service):
    """Follows a folder, or writes it, at an interval.

    :param node: whose GPUs they are.
    :param is_written: the folder is written, of the workloads with the label; else it is followed.
    :param every_seconds: of real time.
    :param in_thread: does slow work, such as reading files, beside the reactor.
    :ivar trouble: why the folder is not followed or written; empty while it is.
    """

    log = Logger()

    def __init__(
        self,
        hub: WorkloadHub,
        folder: str,
        node: str,
        is_written: bool,
        every_seconds: float,
        clock: IReactorTime,
        in_thread: InThread[Any],
    ) -> None:
        self.setName("hpc-jobs")
        self._hub = hub
        self._folder = folder
        self._node = node
        self._is_written = is_written
        self._every_seconds = every_seconds
        self._clock = clock
        self._in_thread = in_thread
        self._call: IDelayedCall | None = None
        self._working: Deferred[None] | None = None
        #: The workloads that stand for jobs, by the index of the GPU and the job.
        self._ids: dict[tuple[int, str], str] = {}
        #: What the folder holds; None until it was read.
        self._written: Jobs | None = None
        self.trouble = ""

    def startService(self) -> None:
        """Look at the folder now, and then at each interval."""
        super().startService()
        self._look()

    def stopService(self) -> Deferred[None] | None:
        super().stopService()
        if self._call is not None:
            self._call.cancel()
            self._call = None
        return self._working

    def _look(self) -> None:
        self._call = None
        self._working = Deferred.fromCoroutine(self._round()).addErrback(self._failed)
        self._working.addBoth(self._again)

    def _failed(self, failure: Any) -> None:
        self.log.failure("the jobs of {folder} could not be followed", failure, folder=self._folder)

    def _again(self, _: object) -> None:
        self._working = None
        if self.running:
            self._call = self._clock.callLater(self._every_seconds, self._look)

    async def _round(self) -> None:
        try:
            if self._is_written:
                await self._write()
                trouble = ""
            else:
                trouble = self._follow(await self._in_thread(lambda: read_jobs(self._folder)))
        except CannotWrite as error:
            trouble = str(error)
        except OSError as error:
            trouble = f"{error.filename or self._folder}: {plain_reason(error)}"
        # Once, until it is another one.
        if trouble and trouble != self.trouble:
            self.log.warn("hpc-jobs: {trouble}", trouble=trouble)
        self.trouble = trouble

    def _follow(self, jobs: Jobs) -> str:
        """Start and stop workloads, so that they are the jobs of the folder.

        :returns: why some job is not shown; empty when all are.
        """
        fleet = self._hub.fleet
        node = fleet.roster.node(self._node)
        indices = {facts.get("uuid", ""): index for index, facts in enumerate(fleet.facts(node))} if node else {}
        wanted: dict[tuple[int, str], None] = {}
        for name, every in jobs.items():
            index = int(name) if _INDEX.fullmatch(name) else indices.get(name.removeprefix("GPU-"), -1)
            if node is not None and 0 <= index < len(node.devices):
                wanted |= dict.fromkeys((index, job) for job in every)
        running = fleet.workloads.by_id
        gone = [key for key, workload in self._ids.items() if key not in wanted or workload not in running]
        self._hub.end([self._ids.pop(key) for key in gone], "its job is no longer in the folder")
        troubles = [self._start(index, job) for index, job in wanted if (index, job) not in self._ids]
        return next(filter(None, troubles), "")

    def _start(self, index: int, job: str) -> str:
        """Start the workload of a job; why it cannot, or an empty text."""
        fields = {
            "name": _NAME, "devices": f"{self._node}/{index}", "profile": "0:0:0", "labels": {LABEL: job},
        }  # fmt: skip
        try:
            self._ids[index, job] = self._hub.start(workload_from_fields(fields))
        except Refused as error:
            return f"{self._folder}/{index}: the job {job[:40]!r} is not shown: {error}"
        return ""

    async def _write(self) -> None:
        """Write the files of GPUs whose jobs have changed; remove those that were written, and have no jobs now."""
        fleet = self._hub.fleet
        node = fleet.roster.node(self._node)
        jobs = {}
        for index, holders in enumerate(fleet.shared_facts(node) if node is not None else ()):
            found = tuple(dict.fromkeys(filter(None, (facts.get(LABEL, "") for facts in holders))))
            if found:
                jobs[str(index)] = found
        if jobs != self._written:
            before = self._written
            await self._in_thread(lambda: _write_changes(self._folder, before, jobs))
            self._written = jobs


def _write_changes(folder: str, before: Jobs | None, jobs: Jobs) -> None:
    """Write the files that differ, and remove those of GPUs without jobs.

    :raises OSError, CannotWrite: when the folder cannot be written.
    """
    os.makedirs(folder, exist_ok=True)
    if before is None:
        before = {name: every for name, every in read_jobs(folder).items() if _INDEX.fullmatch(name)}
    for name in before.keys() - jobs.keys():
        os.unlink(os.path.join(folder, name))
    for name, every in jobs.items():
        if before.get(name) != every:
            replace_file(os.path.join(folder, name), "".join(f"{job}\n" for job in every), _MODE)
