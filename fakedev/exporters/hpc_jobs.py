"""The jobs of a node's GPUs in a folder, as a batch system keeps them for exporters.

For dcgm-exporter (--hpc-job-mapping-dir) the folder has a file for each GPU with jobs, named by the GPU's index (or its
UUID), or by index and GPU_I_ID of an instance (``1.2``), with a job on each line. For AMD's device-metrics-exporter a
file is a JSON object, as its Slurm prolog writes it: the job, its user and its partition, and its GPUs. Jobs of files
that others write become workloads without load with the labels of the job: so a record has them, too. Or the files are
written, of the workloads that have the label ``hpc_job``; for AMD's exporter, ``job_id``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from fakedev.base.errors import CannotWrite, Refused, plain_reason
from fakedev.base.given_files import open_given
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.hub import WorkloadHub
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.runtime.disk import PRIVATE, replace_file

#: The label that pages show, and the name of the workloads that stand for jobs.
LABEL: Final = "hpc_job"
_NAME: Final = "hpc-job"
_MAX_FILES: Final = 1024
_MAX_BYTES: Final = 65536
_MAX_JOBS: Final = 64
#: Others may read the files, as those of a batch system.
_MODE: Final = PRIVATE | 0o044
#: The name of a file: a GPU, or one of its instances.
_UNIT: Final = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
#: The labels of a job, each with the variable of Slurm that AMD's prolog writes for it.
_SLURM: Final = {
    "job_id": "SLURM_JOB_ID", "job_user": "SLURM_JOB_USER", "job_partition": "SLURM_JOB_PARTITION",
}  # fmt: skip
#: The variables with the GPUs of a job: that which the exporter reads, and Slurm's own.
_GPUS: Final = "CUDA_VISIBLE_DEVICES"
_JOB_GPUS: Final = "SLURM_JOB_GPUS"

#: The jobs of GPUs, each once, by the names of their files.
Jobs = Mapping[str, tuple[str, ...]]
#: The labels of a job, sorted.
JobLabels = tuple[tuple[str, str], ...]
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
        with open_given(path) as stream:
            found[name] = jobs_of(stream.read(_MAX_BYTES))
    return found


def jobs_of(content: bytes) -> tuple[str, ...]:
    """The jobs of a file's content: a line each, each once, the first 64; a JSON object is one job."""
    text = content.decode("utf-8", "replace")
    if text.lstrip().startswith("{"):
        return (text.strip(),)
    lines = text.splitlines()
    return tuple(dict.fromkeys(filter(None, map(str.strip, lines))))[:_MAX_JOBS]


def slurm_job(text: str) -> tuple[JobLabels, tuple[str, ...]]:
    """The labels of a job, and the indices of its GPUs, of a JSON object of AMD's prolog.

    :raises ValueError: for another text.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError("is no JSON object of texts, as AMD's Slurm prolog writes it")
    labels = tuple(sorted((label, found.get(name, "")) for label, name in _SLURM.items()))
    return labels, tuple(filter(None, found.get(_GPUS, "").split(",")))


def slurm_text(labels: Mapping[str, str], gpus: Iterable[str]) -> str:
    """What AMD's prolog writes for a job (ROCm/device-metrics-exporter, slurm-prolog.sh): a JSON object on one line.

    :param labels: of the job; missing ones are empty texts.
    :param gpus: the indices of its GPUs.
    """
    named = {variable: labels.get(label, "") for label, variable in _SLURM.items()}
    listed = ",".join(gpus)
    job = named | {
        "SLURM_CLUSTER_NAME": "", _JOB_GPUS: listed, _GPUS: listed, "SLURM_SCRIPT_CONTEXT": "prolog_slurmd"
    }  # fmt: skip
    return f"{{ {json.dumps(job)[1:-1]} }}"


class HpcJobFolder(Service):
    """Follows a folder, or writes it, at an interval.

    :param node: whose GPUs they are.
    :param is_by_instance: the jobs of a divided GPU are those of its instances; else all of them have those of the GPU.
    :param is_written: the folder is written, of the workloads with the label; else it is followed.
    :param every_seconds: of real time.
    :param in_thread: does slow work, such as reading files, beside the reactor.
    :param is_slurm: the files that are written are those of AMD's prolog.
    :ivar problem: why the folder is not followed or written; empty while it is.
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
        is_by_instance: bool = True,
        is_slurm: bool = False,
    ) -> None:
        self.setName("hpc-jobs")
        self._hub = hub
        self._folder = folder
        self._node = node
        self._is_written = is_written
        self._every_seconds = every_seconds
        self._in_thread = in_thread
        self._is_by_instance = is_by_instance
        self._is_slurm = is_slurm
        self._loop = LoopingCall(self._look)
        self._loop.clock = clock
        self._loop_done: Deferred[LoopingCall] | None = None
        #: The workloads that stand for jobs, by the word of the GPU or instance, and the job's labels.
        self._ids: dict[tuple[str, JobLabels], str] = {}
        #: What the folder holds; None until it was read.
        self._written: Jobs | None = None
        self.problem = ""

    def startService(self) -> None:
        super().startService()
        self._loop_done = self._loop.start(self._every_seconds)

    def stopService(self) -> Deferred[LoopingCall] | None:
        """Stop; fires when what has begun is done."""
        super().stopService()
        if self._loop.running:
            self._loop.stop()
        return self._loop_done

    def _look(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._round()).addErrback(self._failed)

    def _failed(self, failure: Any) -> None:
        self.log.failure("the jobs of {folder} could not be followed", failure, folder=self._folder)

    async def _round(self) -> None:
        try:
            if self._is_written:
                await self._write()
                problem = ""
            else:
                problem = self._follow(await self._in_thread(lambda: read_jobs(self._folder)))
        except CannotWrite as error:
            problem = str(error)
        except OSError as error:
            problem = f"{error.filename or self._folder}: {plain_reason(error)}"
        # Once, until it is another one.
        if problem and problem != self.problem:
            self.log.warn("hpc-jobs: {problem}", problem=problem)
        self.problem = problem

    def _follow(self, jobs: Jobs) -> str:
        """Start and stop workloads, so that they are the jobs of the folder.

        :returns: why some job is not shown; empty when all are.
        """
        fleet = self._hub.fleet
        node = fleet.roster.node(self._node)
        units, divided = self._units(node) if node is not None else ({}, frozenset())
        wanted: dict[tuple[str, JobLabels], str] = {}
        problems = []
        for name, every in jobs.items():
            for job in every:
                labels: JobLabels = ((LABEL, job),)
                names: tuple[str, ...] = (name,)
                if job.startswith("{"):
                    try:
                        labels, names = slurm_job(job)
                    except ValueError as error:
                        problems.append(f"{self._folder}/{name}: {error}")
                        continue
                for each in names:
                    if each in units:
                        wanted[units[each], labels] = name
                    elif each in divided:
                        text = f"GPU {each} is divided: jobs of its instances are in files as {each}.1"
                        problems.append(f"{self._folder}/{name}: {text}")
                    elif "." in each and _UNIT.fullmatch(each):
                        problems.append(f"{self._folder}/{name}: there is no instance {each} (GPU.GPU_I_ID)")
        running = fleet.workloads.by_id
        gone = [key for key, workload in self._ids.items() if key not in wanted or workload not in running]
        self._hub.end([self._ids.pop(key) for key in gone], "its job is no longer in the folder")
        problems += [self._start(*key, name) for key, name in wanted.items() if key not in self._ids]
        return next(filter(None, problems), "")

    def _units(self, node: RosterNode) -> tuple[dict[str, str], frozenset[str]]:
        """The words of a node's GPUs and instances by the names of their files; and the indices of divided GPUs."""
        fleet = self._hub.fleet
        instances: dict[str, str] = {}
        divided = set()
        for unit, facts in fleet.labels.part_facts(node):
            if facts.get("mig_id"):
                instances[f"{facts['index']}.{facts['mig_id']}"] = fleet.roster.unit_name(unit)
                divided.add(facts["index"])
        units: dict[str, str] = {}
        for position, facts in zip(node.devices, fleet.labels.facts(node), strict=True):
            if not self._is_by_instance or facts["index"] not in divided:
                word = fleet.roster.unit_name(position)
                names = (facts["index"], facts.get("uuid", ""), f"GPU-{facts.get('uuid', '')}")
                units |= dict.fromkeys(names, word)
        return (units | instances, frozenset(divided)) if self._is_by_instance else (units, frozenset())

    def _start(self, word: str, labels: JobLabels, file: str) -> str:
        """Start the workload of a job; why it cannot, or an empty text."""
        fields = {"name": _NAME, "devices": word, "profile": "0:0:0", "labels": dict(labels)}
        try:
            self._ids[word, labels] = self._hub.start(workload_from_fields(fields))
        except Refused as error:
            return f"{self._folder}/{file}: the job {labels[0][1][:40]!r} is not shown: {error}"
        return ""

    async def _write(self) -> None:
        """Write the files of GPUs whose jobs have changed; remove those that were written, and have no jobs now."""
        fleet = self._hub.fleet
        node = fleet.roster.node(self._node)
        units: list[list[dict[str, str]]] = []
        if node is not None:
            labels = fleet.labels
            units = [*labels.shared_facts(node), *(holders for _, holders in labels.shared_part_facts(node))]
        jobs = _slurm_jobs(units) if self._is_slurm else _jobs(units)
        if jobs != self._written:
            before = self._written
            await self._in_thread(lambda: _write_changes(self._folder, before, jobs))
            self._written = jobs


def _jobs(units: Iterable[Sequence[Mapping[str, str]]]) -> Jobs:
    """The jobs of GPUs and instances.

    :param units: the facts of each with each of its holders.
    """
    jobs = {}
    for holders in units:
        found = tuple(dict.fromkeys(filter(None, (facts.get(LABEL, "") for facts in holders))))
        if found:
            instance = f".{holders[0]['mig_id']}" if holders[0].get("mig_id") else ""
            jobs[holders[0]["index"] + instance] = found
    return jobs


def _slurm_jobs(units: Iterable[Sequence[Mapping[str, str]]]) -> Jobs:
    """The same for AMD's exporter, which shows one job of a GPU: that of its oldest holder with one."""
    gpus: dict[JobLabels, list[str]] = {}
    for holders in units:
        job = next((facts for facts in holders if facts.get("job_id")), None)
        if job is not None:
            gpus.setdefault(tuple((label, job.get(label, "")) for label in _SLURM), []).append(job["index"])
    return {gpu: (slurm_text(dict(labels), listed),) for labels, listed in gpus.items() for gpu in listed}


def _write_changes(folder: str, before: Jobs | None, jobs: Jobs) -> None:
    """Write the files that differ, and remove those of GPUs without jobs.

    :raises OSError, CannotWrite: when the folder cannot be written.
    """
    os.makedirs(folder, exist_ok=True)
    if before is None:
        before = {name: job for name, job in read_jobs(folder).items() if _UNIT.fullmatch(name)}
    for name in before.keys() - jobs.keys():
        os.unlink(os.path.join(folder, name))
    for name, every in jobs.items():
        if before.get(name) != every:
            replace_file(os.path.join(folder, name), "".join(f"{job}\n" for job in every), _MODE)
