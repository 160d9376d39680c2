"""Microsoft's Philly: attempts with their GPUs, usage of each GPU, and what is refused with its place."""

from __future__ import annotations

import json

import pytest

from fakedev.replay.formats.philly import JOBS, MACHINES, USAGE, read_philly
from fakedev.replay.table_reader import TraceProblems
from fakedev.replay.trace import TraceJob, TraceNode, Window
from tests.support.trace_files import MadeFolder

_MACHINES = "machineId,number of GPUs,single GPU mem\nm1,2, 12GB\nm2,8, 24GB\n"


def attempt(start: str | None, end: str | None, **gpus: list[str]) -> dict[str, object]:
    """An attempt on the third of October 2017, from a time of the day to another."""
    day = "2017-10-03 "
    detail = [{"ip": machine, "gpus": names} for machine, names in gpus.items()]
    return {"start_time": start and day + start, "end_time": end and day + end, "detail": detail}


def job(name: str, submit: str, *attempts: dict[str, object]) -> dict[str, object]:
    return {"status": "Pass", "jobid": name, "submitted_time": "2017-10-03 " + submit, "attempts": list(attempts)}


def log(*jobs: object) -> dict[str, str]:
    return {JOBS: json.dumps(jobs, indent=1)}


def test_each_gpu_of_each_attempt_is_a_job_at_its_place() -> None:
    """Those of an attempt and machine are a pod; time begins with the first submission."""
    two = job(
        "a", "01:00:00", attempt("01:01:00", "01:02:00", m2=["gpu1", "gpu0"]), attempt("01:05:00", None, m1=["gpu1"])
    )
    trace = read_philly(MadeFolder(log(two, job("b", "01:00:30", attempt("01:00:30", "01:10:00", m1=["gpu0"])))))
    assert trace.jobs == [
        TraceJob("a-0-m2-gpu0", 0, 60, 120, node="m2", indices=(0,), pod="a-0-m2"),
        TraceJob("a-0-m2-gpu1", 0, 60, 120, node="m2", indices=(1,), pod="a-0-m2"),
        TraceJob("a-1-m1-gpu1", 0, 300, 600, node="m1", indices=(1,), pod="a-1-m1"),
        TraceJob("b-0-m1-gpu0", 30, 30, 600, node="m1", indices=(0,), pod="b-0-m1"),
    ]
    assert trace.nodes == [TraceNode("m1", "", 2), TraceNode("m2", "", 2)]


def test_machines_and_usage_of_each_gpu() -> None:
    """Without a value (the GPU was offline) the one before it holds; lines of small machines end with NA."""
    files = log(job("a", "01:00:00", attempt("01:00:00", "01:05:00", m1=["gpu1"])))
    usage = "time,machineId,gpu0_util,gpu1_util,gpu2_util,gpu3_util,gpu4_util,gpu5_util,gpu6_util,gpu7_util\n"
    usage += "".join(
        f"2017-10-03 01:0{minute}:00 PDT,m1,0.0,{value},NA,NA,NA,NA,NA,NA,\n"
        for minute, value in enumerate(["10.5", "NA", "99.366666667", "0"])
    )
    trace = read_philly(MadeFolder(files | {MACHINES: _MACHINES, USAGE: usage}))
    assert trace.nodes == [TraceNode("m1", "12GB", 2), TraceNode("m2", "24GB", 8)]
    assert [each.series for each in trace.jobs] == ["m1/1"]
    assert trace.series["m1/1"].seconds.tolist() == [0, 120, 180]
    assert trace.series["m1/1"].usage.tolist() == pytest.approx([10.5, 99.366666667, 0])
    assert trace.left_out == {"minutes of a GPU without a value: the value before it holds": 1}


def test_of_the_usage_only_the_window_is_kept() -> None:
    """With the minute before it, whose value may hold at its begin; other lines are not read."""
    files = log(job("a", "01:00:00", attempt("01:00:00", "01:30:00", m1=["gpu0"])))
    usage = "time,machineId,gpu0_util\n" + "".join(
        f"2017-10-03 01:{minute:02}:00 PDT,m1,{minute}\n" for minute in range(30)
    )
    usage += "2017-10-04 01:00:00 PDT,m1,this is not read\n"
    trace = read_philly(MadeFolder(files | {USAGE: usage}, window=Window(600.0, 720.0)))
    assert trace.series["m1/0"].usage.tolist() == [9, 10, 11]


def test_what_never_ran_is_counted() -> None:
    """Jobs without attempts; attempts without a start, with no end where another one follows, and without GPUs."""
    last = attempt("01:30:00", "01:40:00", m1=["gpu0"])
    attempts = [
        attempt(None, "01:20:00", m1=["gpu0"]),
        attempt("01:20:00", None, m1=["gpu0"]),
        attempt("01:25:00", "01:26:00"),
    ]
    trace = read_philly(MadeFolder(log(job("a", "01:00:00"), job("b", "01:00:00", *attempts, last))))
    assert [each.name for each in trace.jobs] == ["b-3-m1-gpu0"]
    assert trace.left_out == {"jobs that never ran": 1, "attempts without a time": 2, "attempts without GPUs": 1}


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (job("a", "25:00:00"), "job: submitted_time: '2017-10-03 25:00:00' is no time, as 2017-10-03 00:08:00 PDT"),
        (job("a", "01:00:00", attempt("01:01:00", "01:02:00", m1=["cpu1"])), "job: gpus: 'cpu1' is no GPU, as gpu0"),
        (
            job("a", "01:00:00", attempt("01:01:00", "01:02:00", **{"": ["gpu1"]})),
            "job: detail: ip, the machine of its gpus, is empty",
        ),
        (job("a", "01:00:00", attempt("00:50:00", "01:02:00", m1=["gpu1"])), "start_time: "),
        (job("a", "01:00:00", attempt("01:01:00", "01:00:30", m1=["gpu1"])), "end_time: "),
        (job("first", "01:00:00"), "jobid: 'first' is there twice: names are unique"),
        ({"jobid": 7}, "job: jobid: '7' is not a text"),
        ({"jobid": "a", "submitted_time": None}, "job: jobid and submitted_time are needed"),
        ({**job("a", "01:00:00"), "attempts": {}}, "job: attempts: '{}' is not a list"),
    ],
)
def test_a_job_that_cannot_be_used_is_refused_with_its_line(bad: object, problem: str) -> None:
    """--lenient leaves it out, and keeps the others."""
    files = log(job("first", "01:00:00", attempt("01:01:00", "01:02:00", m1=["gpu0"])), bad)
    with pytest.raises(TraceProblems) as caught:
        read_philly(MadeFolder(files))
    line = files[JOBS][: files[JOBS].index("\n },") + 4].count("\n") + 2
    assert caught.value.problems[0].startswith(f"{JOBS}:{line}: ")
    assert problem in caught.value.problems[0]
    assert [each.name for each in read_philly(MadeFolder(files, lenient=1)).jobs] == ["first-0-m1-gpu0"]
