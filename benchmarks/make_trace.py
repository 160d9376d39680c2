"""Writes made-up traces in the size and shape of real ones, to measure ``fakedev replay`` (doc/replay.md).

Numbers of nodes, models, pods, shares and values are about those of the published files, of which nothing is here.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np

_DAY = 86_400.0
#: Model, nodes, devices a node.
_OPENB_NODES = (("G2", 549, 8), ("T4", 34, 8), ("T4", 370, 2), ("G3", 39, 8), ("P100", 134, 2), ("V100M16", 55, 4))
_OPENB_PODS, _GENTD26_PODS, _GENTD26_INSTANTS, _GENTD26_SECONDS = 7_064, 114, 1_441, 57.0

_JOBS, _NODES = 100_000, 1_213
#: GPUs of each machine: 552 machines have 2,490.
_PHILLY_MACHINES = (*[8] * 231, *[2] * 321)


def main() -> None:
    """Write a trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("format", choices=tuple(_MAKERS))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    make(options.format, options.folder)


def make(name: str, folder: Path) -> None:
    """Write the trace of a format into a folder, always the same."""
    folder.mkdir(parents=True, exist_ok=True)
    _MAKERS[name](folder, np.random.default_rng(1))


def _openb(folder: Path, random: np.random.Generator) -> None:
    nodes = [
        (f"node-{group}-{number}", 96_000, 400_000, devices, model)
        for group, (model, count, devices) in enumerate(_OPENB_NODES)
        for number in range(count)
    ]
    _write(folder / "openb_node_list_gpu_node.csv", ("sn", "cpu_milli", "memory_mib", "gpu", "model"), nodes)
    created = np.sort(118 * _DAY + random.uniform(0, 31 * _DAY, _OPENB_PODS)).round()
    waits = np.where(random.random(_OPENB_PODS) < 0.28, 0, random.exponential(60, _OPENB_PODS)).round()
    lengths = random.lognormal(np.log(616), 2.0, _OPENB_PODS).round() + 1
    devices = random.choice([1, 2, 4, 8], _OPENB_PODS, p=[0.9894, 0.0023, 0.0021, 0.0062])
    is_part = (devices == 1) & (random.random(_OPENB_PODS) < 0.44)
    parts = np.where(is_part, random.integers(50, 1000, _OPENB_PODS), 1000)
    starts = created + waits
    ends = starts + lengths
    pods = [
        (f"pod-{number:05}", int(count), int(part), "", "LS", "Succeeded", int(at), int(end), int(start))
        for number, (at, end, start, count, part) in enumerate(zip(created, ends, starts, devices, parts, strict=True))
    ]
    columns = (
        "name", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time",
        "scheduled_time",
    )  # fmt: skip
    _write(folder / "openb_pod_list_default.csv", columns, pods)


def _jobs(folder: Path, random: np.random.Generator) -> None:
    """A hundred thousand jobs in our own format, which fill half of 1,213 nodes of eight."""
    nodes = [(f"node-{number}", "H100", 8) for number in range(_NODES)]
    _write(folder / "nodes.csv", ("name", "model", "devices"), nodes)
    starts = np.sort(random.uniform(0, 10 * _DAY, _JOBS)).round()
    ends = starts + random.lognormal(np.log(6_000), 1.5, _JOBS).round() + 1
    devices = random.choice([1, 2, 4, 8], _JOBS, p=[0.7, 0.1, 0.1, 0.1])
    rows = [(f"job-{number}", *map(int, each)) for number, each in enumerate(zip(starts, ends, devices, strict=True))]
    _write(folder / "jobs.csv", ("name", "start", "end", "devices"), rows)


def _gentd26(folder: Path, random: np.random.Generator) -> None:
    times = np.arange(_GENTD26_INSTANTS) * _GENTD26_SECONDS
    usage, memory = [], []
    for number in range(_GENTD26_PODS):
        busy = random.random(_GENTD26_INSTANTS) > 0.67
        values = np.where(busy, np.minimum(random.exponential(21, _GENTD26_INSTANTS), 99.7), 0.0).round(2)
        held = (random.normal(24.8, 6.0, _GENTD26_INSTANTS).clip(1, 40) * 2**30).round()
        address = f"{number:032x}"
        usage += [(value, at, address) for value, at in zip(values, times, strict=True)]
        memory += [(int(value), at, address) for value, at in zip(held, times, strict=True)]
    columns = ("value", "timestamp_anon", "container_ip")
    _write(folder / "pod_gpu_duty_cycle_anon.csv", columns, usage)
    _write(folder / "pod_gpu_memory_used_bytes_anon.csv", columns, memory)


def _philly(folder: Path, random: np.random.Generator) -> None:
    """A day: each machine has jobs one after the other, of all of its GPUs or of a part of them."""
    machines = [(f"m{number}", gpus) for number, gpus in enumerate(_PHILLY_MACHINES)]
    sizes = [(name, gpus, " 24GB" if gpus == 8 else " 12GB") for name, gpus in machines]
    _write(folder / "cluster_machine_list", ("machineId", "number of GPUs", "single GPU mem"), sizes)
    begin = datetime(2017, 10, 3)
    jobs = []
    for name, gpus in machines:
        for first, count in _parts_of(gpus, random):
            end = 0.0
            while end < _DAY:
                start = end + random.exponential(300.0)
                end = start + random.lognormal(np.log(20_000.0), 1.5)
                submit, *times = (begin + timedelta(seconds=round(each)) for each in (max(start - 60, 0), start, end))
                gpu_names = [f"gpu{index}" for index in range(first, first + count)]
                attempt = {
                    "start_time": str(times[0]), "end_time": str(times[1]),
                    "detail": [{"ip": name, "gpus": gpu_names}],
                }  # fmt: skip
                jobs.append({
                    "status": "Pass", "vc": "vc", "jobid": f"application_1_{len(jobs)}", "attempts": [attempt],
                    "submitted_time": str(submit), "user": "user",
                })  # fmt: skip
    (folder / "cluster_job_log").write_text(json.dumps(jobs, indent=1), encoding="utf-8")
    columns = ("time", "machineId", *(f"gpu{index}_util" for index in range(8)))
    with (folder / "cluster_gpu_util").open("w", newline="", encoding="utf-8") as stream:
        stream.write(",".join(columns) + "\n")
        for minute in range(1440):
            at = f"{begin + timedelta(minutes=minute)} PDT"
            for (name, gpus), values in zip(machines, random.uniform(0, 100, (len(machines), 8)), strict=True):
                texts = [f"{value:.9f}" for value in values[:gpus]] + ["NA"] * (8 - gpus)
                stream.write(f"{at},{name},{','.join(texts)},\n")


def _parts_of(gpus: int, random: np.random.Generator) -> Iterator[tuple[int, int]]:
    """The first GPU and the number of GPUs of each part of a machine."""
    first = 0
    while first < gpus:
        count = min(int(random.choice([1, 2, 4, 8], p=[0.6, 0.15, 0.15, 0.1])), gpus - first)
        yield first, count
        first += count


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows)


_MAKERS: Final = {"openb": _openb, "jobs": _jobs, "gentd26": _gentd26, "philly": _philly}

if __name__ == "__main__":
    main()
