"""Alibaba's v2020: tables without a line of names, instances with their machine, their GPU and their mean usage."""

from __future__ import annotations

import pytest

from fakedev.replay.formats.pai import INSTANCES, JOBS, MACHINES, SENSORS, TASKS, read_pai
from fakedev.replay.table_reader import TraceProblems
from fakedev.replay.trace import TraceJob, TraceNode, Window
from tests.support.trace_files import MadeFolder

_FILES = {
    MACHINES: "m1,T4,96,512,2\nm2,MISC,96,512,8\nm3,CPU,64,512,0\n",
    TASKS: (
        "j,worker,1.0,Terminated,100.0,160.0,600.0,29.3,50.0,T4\n"
        "j,ps,1.0,Terminated,100.0,160.0,600.0,29.3,,\n"
        "k,worker,2.0,Failed,100.0,,600.0,29.3,200.0,MISC\n"
    ),
    INSTANCES: (
        "j,worker,i,w1,x,Terminated,101.0,160.0,m1\nj,ps,i,p1,x,Terminated,101.0,160.0,m1\n"
        "k,worker,i,w2,x,Failed,102.0,,m2\nk,worker,i,w2,x,Failed,110.0,120.0,m2\nk,worker,i,w3,x,Waiting,,,\n"
    ),
    SENSORS: (
        "j,worker,w1,x,m1,/dev/nvidia1,140.1,16.0,1.4,2.3,1.25,2.4,2.1,1.6,1,1\n"
        "k,worker,w2,x,m2,/dev/nvidia0,1,300.5,1,2,,,2,1,1,1\n"
    ),
    JOBS: "j,x,u,Terminated,90.0,160.0\nother,x,u,Terminated,1.0,2.0\n",
}


def test_instances_with_gpus_are_jobs_at_their_place() -> None:
    """A part of a GPU is a share of the one that the sensor names; a name that is there again gets a number."""
    trace = read_pai(MadeFolder(_FILES))
    assert trace.nodes == [TraceNode("m1", "T4", 2), TraceNode("m2", "MISC", 8)]
    assert trace.jobs == [
        TraceJob("w1", 90, 101, 160, 1, 500, "m1", series="w1", indices=(1,)),
        TraceJob("w2", 102, 102, 160, 2, node="m2", series="w2", has_failed=True),
        TraceJob("w2-1", 110, 110, 120, 2, node="m2", has_failed=True),
    ]
    assert trace.left_out == {
        "machines without GPUs": 1,
        "instances that never ran": 1,
        "instances above 100 percent of their GPUs: they show 100": 1,
    }


def test_the_mean_of_a_sensor_holds_for_the_whole_instance() -> None:
    """Usage is divided among its GPUs; memory is in GiB, and unknown where the sensor has none."""
    series = read_pai(MadeFolder(_FILES)).series
    memory = series["w1"].memory_bytes
    assert memory is not None and memory.tolist() == [1.25 * 2**30]
    assert (series["w1"].seconds.tolist(), series["w1"].end_seconds, series["w1"].usage.tolist()) == ([101], 160, [16])
    assert (series["w2"].usage.tolist(), series["w2"].memory_bytes) == ([100], None)


def test_names_of_columns_are_those_of_the_header_files() -> None:
    """Another order in the file and its header gives the same trace."""
    machines = {MACHINES: "2,m1,T4\n8,m2,MISC\n", "pai_machine_spec.header": "cap_gpu,machine,gpu_type\n"}
    assert read_pai(MadeFolder(_FILES | machines)).nodes == read_pai(MadeFolder(_FILES)).nodes


def test_only_what_touches_the_window_is_kept() -> None:
    """An instance without an end may run in it; lines of other jobs are not read."""
    tasks = _FILES[TASKS] + "later,worker,1.0,Terminated,500.0,600.0,1,1,100.0,T4\n"
    instances = _FILES[INSTANCES] + "later,worker,i,w9,x,Terminated,this is not read,600.0,m1\n"
    trace = read_pai(MadeFolder(_FILES | {TASKS: tasks, INSTANCES: instances}, window=Window(165.0, 200.0)))
    assert [job.name for job in trace.jobs] == ["w2"]


@pytest.mark.parametrize(
    ("name", "line", "problem"),
    [
        (MACHINES, "m1,T4,96,512,2", "column machine: 'm1' is there twice: names are unique"),
        (MACHINES, "m4,T4,96,512", "has 4 values: the number of columns is 5"),
        (TASKS, "l,worker,1,X,1,2,1,1,1e9,T4", "column plan_gpu: '1e9' is more than any task has: at most 100000"),
        (INSTANCES, "j,worker,i,w8,x,X,160,101,m1", "column end_time: 101 is before its start_time, 160"),
        (SENSORS, "j,w,w1,x,m,/dev/gpu1" + ",1" * 10, "column gpu_name: '/dev/gpu1' is no GPU, as /dev/nvidia0"),
    ],
)
def test_lines_that_are_refused(name: str, line: str, problem: str) -> None:
    text = _FILES[name] + line + "\n"
    (found,) = problems_of({**_FILES, name: text})
    assert found == f"{name}:{text.count(chr(10))}: {problem}"


def problems_of(files: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(TraceProblems) as caught:
        read_pai(MadeFolder(files))
    return caught.value.problems
